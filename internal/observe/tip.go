package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/agents"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/render"
)

// maxWitnesses is how many nodes of our own a validator is told of.
const maxWitnesses = 3

// Tip is the highest height of the ready nodes of a chain, and the RPC servers among them.
// These nodes verify each block, so their height is trusted. Only nodes of the same namespace
// count: another tenant may run another chain under the same chain id. A witness may be in
// any namespace, because a signature cannot be forged.
func Tip(ctx context.Context, k *kube.Client, fleet *agents.Fleet, node *v1alpha1.SeiNode) (tip int64, witnesses []string, err error) {
	nodes, err := k.Chain(ctx, node.Spec.ChainID)
	if err != nil {
		return 0, nil, fmt.Errorf("finding the nodes of chain %s: %w", node.Spec.ChainID, err)
	}
	for i := range nodes {
		other := &nodes[i]
		if other.UID == node.UID || !meta.IsStatusConditionTrue(other.Status.Conditions, string(v1alpha1.ConditionReady)) {
			continue
		}
		if view := fleet.View(types.NamespacedName{Namespace: other.Namespace, Name: other.Name}); view.Connected && other.Namespace == node.Namespace {
			tip = max(tip, view.Status.Height)
		}
		if other.Spec.FullNode != nil || other.Spec.Archive != nil {
			witnesses = append(witnesses, fmt.Sprintf("http://%s.%s.svc:26657", render.ServiceName(other), other.Namespace))
		}
	}
	return tip, nearest(witnesses, "."+node.Namespace+".svc:"), nil
}

// nearest are the first few witnesses, those of the own namespace first: others must not
// crowd them out.
func nearest(witnesses []string, own string) []string {
	slices.SortFunc(witnesses, func(a, b string) int {
		switch ours := strings.Contains(a, own); {
		case ours == strings.Contains(b, own):
			return strings.Compare(a, b)
		case ours:
			return -1
		}
		return 1
	})
	return witnesses[:min(len(witnesses), maxWitnesses)]
}
