package observe

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/agents"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/render"
)

// maxWitnesses is how many nodes of our own a validator is told of.
const maxWitnesses = 3

// Tip is how far our own nodes of a chain are that are ready, and those of them that
// answer for others. They verify what they follow, so nobody has to be believed; but those
// of another namespace may be somebody else's, with a chain of their own under the same
// name, and what they say of the tip does not count. A signature that they show does,
// because nobody can forge it.
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
	slices.Sort(witnesses)
	return tip, witnesses[:min(len(witnesses), maxWitnesses)], nil
}
