// Package budget decides who may be updated now. It holds the one lock for the update
// budget of a chain and for those of the fleets in it: what the operator itself rolls has
// to fit both, and a template that goes to the nodes of a fleet counts in both.
package budget

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/fleet"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/internal/render"
)

// Budget is locked from counting who is updated until it is written down who comes next,
// so that two workers never both take the last place. The places themselves are in the
// nodes: they are counted again after a restart.
type Budget struct {
	sync.Mutex

	Kube     *kube.Client
	Platform platform.Settings
	Clock    clock.PassiveClock
}

// AdmitRoll decides whether an update of a node may start now, given the place that it
// takes and why it is needed; nil: it may. It is to be called with the lock held.
func (b *Budget) AdmitRoll(ctx context.Context, in plan.Input, slot *v1alpha1.UpdateSlot, why string) (*plan.Gate, error) {
	others, err := b.updating(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	if gate := plan.Admit(in, slot, why, others, b.Platform.MaxConcurrentUpdates); gate != nil || !plan.MayWait(in, slot) {
		return gate, nil
	}
	name := in.Node.Labels[v1alpha1.LabelDeployment]
	if name == "" {
		return nil, nil
	}
	deployment := &v1alpha1.SeiNodeDeployment{}
	switch err := b.Kube.Get(ctx, types.NamespacedName{Namespace: in.Node.Namespace, Name: name}, deployment); {
	case apierrors.IsNotFound(err):
		return nil, nil // it outlived its fleet
	case err != nil:
		return nil, err
	}
	view, err := b.Look(ctx, deployment)
	if err != nil {
		return nil, err
	}
	wait := view.AdmitRoll(in.Node.Name, in.Seen.Pod)
	if wait == "" {
		return nil, nil
	}
	return &plan.Gate{
		Reason: v1alpha1.ReasonWaitingForBudget,
		// How many they are is not in it: that would be a write for each that comes first.
		Message: fmt.Sprintf("%s Waits for its turn in the fleet %s, whose maxUnavailable allows %d.", why, deployment.Name, fleet.MaxUnavailable(deployment)),
	}, nil
}

// Look looks at a fleet as it is now.
func (b *Budget) Look(ctx context.Context, deployment *v1alpha1.SeiNodeDeployment) (*fleet.View, error) {
	nodes, err := b.Kube.Fleet(ctx, types.NamespacedName{Namespace: deployment.Namespace, Name: deployment.Name})
	if err != nil {
		return nil, fmt.Errorf("reading the nodes of %s/%s: %w", deployment.Namespace, deployment.Name, err)
	}
	pods := make(map[string]*corev1.Pod, len(nodes))
	for i := range nodes {
		pod := &corev1.Pod{}
		err := b.Kube.Get(ctx, types.NamespacedName{Namespace: deployment.Namespace, Name: render.PodName(&nodes[i])}, pod)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading the pod of node %s/%s: %w", nodes[i].Namespace, nodes[i].Name, err)
		}
		if err == nil {
			pods[nodes[i].Name] = pod
		}
	}
	return fleet.Look(deployment, nodes, pods, b.Clock.Now())
}

// updating are the other nodes of the chain that take a place in the budget.
func (b *Budget) updating(ctx context.Context, node *v1alpha1.SeiNode) ([]plan.Neighbour, error) {
	chain, err := b.Kube.Chain(ctx, node.Spec.ChainID)
	if err != nil {
		return nil, fmt.Errorf("counting the nodes of chain %s that are updated: %w", node.Spec.ChainID, err)
	}
	var others []plan.Neighbour
	for i := range chain {
		other := &chain[i]
		if other.UID == node.UID {
			continue
		}
		neighbour := plan.Neighbour{Name: other.Namespace + "/" + other.Name}
		if last := other.Status.LastPlan; last != nil && last.Outcome == v1alpha1.PlanOutcomeFailed {
			// Whether it still wants what it failed to become is not in its status.
			want, err := render.Node(other, b.Platform)
			neighbour.Failed = err == nil && plan.Freezes(other, want.TemplateHash, want.ConfigHash)
			neighbour.Message = last.Message
		}
		if other.Status.Slot == nil && !neighbour.Failed {
			continue
		}
		others = append(others, neighbour)
	}
	slices.SortFunc(others, func(a, b plan.Neighbour) int { return strings.Compare(a.Name, b.Name) })
	return others, nil
}
