package observe

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/agents"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
)

// Approval reads what has to be known to approve a node to run: its keys, and whether
// they are reserved for it. It begins to follow nobody.
func (k *Keys) Approval(ctx context.Context, c *kube.Client, fleet *agents.Fleet, node *v1alpha1.SeiNode, now time.Time) (plan.Input, error) {
	r := reader{ctx: ctx, kube: c, namespace: node.Namespace}
	view := fleet.View(types.NamespacedName{Namespace: node.Namespace, Name: node.Name})
	in := plan.Input{Node: node, Persisted: &node.Status, Seen: plan.Observation{
		Now: now, Claim: get(&r, render.ClaimName(node), &corev1.PersistentVolumeClaim{}),
		Sidecar: plan.Sidecar{Connected: view.Connected, Problem: view.Problem, Status: view.Status},
	}}
	if r.err != nil {
		return in, r.err
	}
	var err error
	if in.Seen.Keys, err = k.Look(ctx, c, node); err != nil {
		return in, err
	}
	in.Seen.Leases, err = Leases(ctx, c, in)
	return in, err
}
