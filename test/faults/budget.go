package faults

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
)

// sawPlace sees to it that no more nodes ever have a place in the update budget than
// there are, as far as they have to wait for one.
func (r *run) sawPlace(node *v1alpha1.SeiNode) {
	r.mu.Lock()
	if slot := node.Status.Slot; slot != nil && slot.Cause == v1alpha1.UpdateCauseOperator {
		r.history.updated[node.Name] = *slot
	} else {
		delete(r.history.updated, node.Name)
	}
	names := slices.Sorted(maps.Keys(r.history.updated))
	r.mu.Unlock()
	if len(names) > r.platform.MaxConcurrentUpdates {
		r.violated("more nodes have a place in the update budget than it has: %s", strings.Join(names, ", "))
	}
}

// mustFitBudget sees to it that the operator stops no node while as many others as the
// budget allows are on their way. It goes by how these are, not by what the operator
// wrote down about the budget.
func (l *life) mustFitBudget(ctx context.Context, node string) {
	if !l.run.workload.Fleet {
		return
	}
	var nodes v1alpha1.SeiNodeList
	if err := l.run.world.live.List(ctx, &nodes, client.InNamespace(l.run.namespace)); err != nil {
		return // the run fails for better reasons
	}
	stopped := []string{node}
	for i := range nodes.Items {
		if other := &nodes.Items[i]; other.Name != node && !l.serves(ctx, other) {
			stopped = append(stopped, other.Name)
		}
	}
	if len(stopped) > l.run.platform.MaxConcurrentUpdates {
		l.run.violated("more nodes than the budget allows are updated at once: %s", strings.Join(stopped, ", "))
	}
}

// serves tells whether a node is up and nothing is done to it.
func (l *life) serves(ctx context.Context, node *v1alpha1.SeiNode) bool {
	pod := &corev1.Pod{}
	err := l.run.world.live.Get(ctx, client.ObjectKey{Namespace: node.Namespace, Name: render.PodName(node)}, pod)
	return err == nil && plan.PodReady(pod) && node.Status.Plan == nil &&
		meta.IsStatusConditionTrue(node.Status.Conditions, string(v1alpha1.ConditionReady))
}
