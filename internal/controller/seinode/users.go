package seinode

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/access"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/render"
)

// nodeOf is the node that an object belongs to. Somebody may have stripped its label.
func nodeOf(object kube.Object) string {
	if name := object.GetLabels()[v1alpha1.LabelNode]; name != "" {
		return name
	}
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == "SeiNode" {
			return owner.Name
		}
	}
	return ""
}

func requestsFor(namespace, node string) []reconcile.Request {
	if node == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: node}}}
}

// usersOfClaim are the nodes whose data is on the claim of an object.
func (r *Reconciler) usersOfClaim(ctx context.Context, object kube.Object) []reconcile.Request {
	namespace := object.GetNamespace()
	if volume, ok := object.(*corev1.PersistentVolume); ok && volume.Spec.ClaimRef != nil {
		namespace = volume.Spec.ClaimRef.Namespace
	}
	var requests []reconcile.Request
	for _, claim := range kube.ClaimsOf(object) {
		requests = append(requests, r.usersOf(ctx, types.NamespacedName{Namespace: namespace, Name: claim})...)
	}
	return requests
}

// usersOf are the nodes whose data is on a claim.
func (r *Reconciler) usersOf(ctx context.Context, claim types.NamespacedName) []reconcile.Request {
	nodes, err := r.Tools.Kube.NodesWithClaim(ctx, claim)
	if err != nil {
		return nil // the cache is not there yet; at its start everybody is looked at
	}
	var requests []reconcile.Request
	for _, node := range nodes {
		requests = append(requests, requestsFor(claim.Namespace, node)...)
	}
	return requests
}

// usersOfSecret are the nodes that have keys in a Secret, and all of them when it is
// the one from which they get their certificates.
func (r *Reconciler) usersOfSecret(ctx context.Context, object kube.Object) []reconcile.Request {
	if r.Platform.AccessControl.Enabled && object.GetName() == access.SecretName && object.GetNamespace() == r.Tools.Kube.Namespace() {
		nodes, err := r.Tools.Kube.AllSeiNodes(ctx)
		if err != nil {
			return nil
		}
		return requestsOf(nodes)
	}
	nodes, err := r.Tools.Kube.NodesWithSecret(ctx, types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
	if err != nil {
		return nil
	}
	return requestsOf(nodes)
}

// usersOfLease are the nodes that hold a reservation, and those that wait for one.
func (r *Reconciler) usersOfLease(ctx context.Context, object kube.Object) []reconcile.Request {
	holders, err := r.Tools.Kube.NodesWithReservation(ctx, object.GetName())
	if err != nil {
		return nil
	}
	return append(requestsOf(holders), r.waitForReservation(ctx, object.GetLabels()[v1alpha1.LabelChain])...)
}

// waitForReservation are the nodes of a chain that wait for what another one has.
func (r *Reconciler) waitForReservation(ctx context.Context, chainID string) []reconcile.Request {
	return r.chainWith(ctx, chainID, map[v1alpha1.ConditionType][]v1alpha1.ConditionReason{
		v1alpha1.ConditionSigningKeyReady: {v1alpha1.ReasonKeyInUse}, v1alpha1.ConditionNodeKeyReady: {v1alpha1.ReasonKeyInUse},
		v1alpha1.ConditionDataVolumeReady: {v1alpha1.ReasonVolumeInUse, v1alpha1.ReasonImportInvalid},
	})
}

// chainWith are the nodes of a chain with one of these conditions.
func (r *Reconciler) chainWith(ctx context.Context, chainID string, wanted map[v1alpha1.ConditionType][]v1alpha1.ConditionReason) []reconcile.Request {
	chain, err := r.Tools.Kube.Chain(ctx, chainID)
	if err != nil {
		return nil // they look again by themselves
	}
	var found []v1alpha1.SeiNode
	for i := range chain {
		for kind, reasons := range wanted {
			if c := meta.FindStatusCondition(chain[i].Status.Conditions, string(kind)); c != nil && slices.Contains(reasons, v1alpha1.ConditionReason(c.Reason)) {
				found = append(found, chain[i])
				break
			}
		}
	}
	return requestsOf(found)
}

func requestsOf(nodes []v1alpha1.SeiNode) []reconcile.Request {
	var requests []reconcile.Request
	for i := range nodes {
		requests = append(requests, requestsFor(nodes[i].Namespace, nodes[i].Name)...)
	}
	return requests
}

// waiters are the nodes of the chain that wait for something that a node has had: a
// place in the update budget, a key or a volume.
func (r *Reconciler) waiters(ctx context.Context, object kube.Object) []reconcile.Request {
	node, ok := object.(*v1alpha1.SeiNode)
	if !ok {
		return nil
	}
	budget := map[v1alpha1.ConditionType][]v1alpha1.ConditionReason{v1alpha1.ConditionNodeUpdateInProgress: {v1alpha1.ReasonWaitingForBudget}}
	requests := append(r.chainWith(ctx, node.Spec.ChainID, budget), r.waitForReservation(ctx, node.Spec.ChainID)...)
	// Whoever waits for its volume may be of another chain.
	return append(requests, r.usersOf(ctx, types.NamespacedName{Namespace: node.Namespace, Name: render.ClaimName(node)})...)
}

// concernsWaiters lets a node pass that no longer takes a place in the update budget,
// by which a chain gets frozen or goes on (its update failed, it is asked to try again,
// or it is ready after all), or that is gone with all that it had.
func concernsWaiters() predicate.Predicate {
	place := func(object kube.Object) bool {
		node, ok := object.(*v1alpha1.SeiNode)
		if !ok {
			return false
		}
		// In the budget of a fleet a node takes a place that is not ready.
		_, inFleet := node.Labels[v1alpha1.LabelDeployment]
		return node.Status.Slot != nil || inFleet && !meta.IsStatusConditionTrue(node.Status.Conditions, string(v1alpha1.ConditionReady))
	}
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return place(e.ObjectOld) && !place(e.ObjectNew) || failureOf(e.ObjectOld) != failureOf(e.ObjectNew)
		},
	}
}

// failure is what a chain may be frozen by; zero: nothing.
type failure struct {
	message, retry string
	ready          bool
}

func failureOf(object kube.Object) failure {
	node, ok := object.(*v1alpha1.SeiNode)
	if !ok || node.Status.LastPlan == nil || node.Status.LastPlan.Outcome != v1alpha1.PlanOutcomeFailed {
		return failure{}
	}
	return failure{
		message: node.Status.LastPlan.Message, retry: node.Annotations[v1alpha1.AnnotationRetry],
		ready: meta.IsStatusConditionTrue(node.Status.Conditions, string(v1alpha1.ConditionReady)),
	}
}
