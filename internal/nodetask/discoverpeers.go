package nodetask

import (
	"context"
	"strings"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

// DiscoverPeers finds the peers anew and writes them into the configuration. It
// restarts nothing: the next start of seid uses them.
//
// What is found is in the node's status before it is sent, so that whoever goes on
// after a crash sends the same.
var _ = register(Kind{
	Name: v1alpha1.TaskKindDiscoverPeers, Timeout: 2 * time.Minute, Mutates: true, KeepsPod: true,
	HasPayload: func(spec *v1alpha1.SeiNodeTaskSpec) bool { return spec.DiscoverPeers != nil },
	Steps: []Step{
		{Name: "find-peers", Do: findPeers},
		{Name: "write-peers", Task: tasks.TypeConfigApply, Params: func(_ context.Context, w World) (any, error) {
			params := tasks.ConfigApply{Peers: []string{}}
			if found := w.Node().Status.ResolvedPeers; found != nil {
				params.Peers = append(params.Peers, found.Addresses...)
			}
			return params, nil
		}},
	},
})

func findPeers(ctx context.Context, w World, outputs *v1alpha1.TaskOutputs) (Outcome, error) {
	found, err := w.FindPeers(ctx)
	if err != nil {
		return Outcome{}, err
	}
	outputs.Peers = new(found.Count)
	return Done(strings.Join(found.Problems, " ")), nil
}
