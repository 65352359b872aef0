package seinodedeployment

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
)

// workers is how many fleets are worked on at once.
const workers = 8

// A reconcile that failed is tried again after this time, doubled with each failure.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Setup makes a controller of a reconciler.
func Setup(m manager.Manager, r *Reconciler) error {
	byNode := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object kube.Object) []reconcile.Request {
		name, _, ok := render.FleetOf(object.GetName())
		if !ok {
			return nil
		}
		// Most nodes have no fleet, whatever their name looks like.
		key := types.NamespacedName{Namespace: object.GetNamespace(), Name: name}
		if r.Kube.Get(ctx, key, &v1alpha1.SeiNodeDeployment{}) != nil {
			return nil
		}
		return []reconcile.Request{{NamespacedName: key}}
	})
	byLabel := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object kube.Object) []reconcile.Request {
		name := fleetOf(object)
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
	})
	return builder.ControllerManagedBy(m).
		Named("seinodedeployment").
		For(&v1alpha1.SeiNodeDeployment{}, builder.WithPredicates(worthALook())).
		Watches(&v1alpha1.SeiNode{}, byNode).
		Watches(&corev1.Pod{}, byLabel, builder.WithPredicates(readiness())).
		Watches(&corev1.Service{}, byLabel).
		Watches(&policyv1.PodDisruptionBudget{}, byLabel, builder.WithPredicates(predicate.Or[kube.Object](
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			// One process may run it again, after it lost the lease for example.
			SkipNameValidation: new(true),
			RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(r)
}

// fleetOf is the fleet that an object belongs to. Somebody may have stripped its label.
func fleetOf(object kube.Object) string {
	if name := object.GetLabels()[v1alpha1.LabelDeployment]; name != "" {
		return name
	}
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == "SeiNodeDeployment" {
			return owner.Name
		}
	}
	return ""
}

// worthALook lets everything pass but our own status writes, which would wake us for
// nothing. A status that was emptied is no write of ours.
func worthALook() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*v1alpha1.SeiNodeDeployment)
		after, ok2 := e.ObjectNew.(*v1alpha1.SeiNodeDeployment)
		if !ok1 || !ok2 {
			return true
		}
		emptied := before.Status.UpdateRevision != "" && after.Status.UpdateRevision == ""
		return emptied || after.Generation != before.Generation || after.DeletionTimestamp != nil || before.ResourceVersion == after.ResourceVersion
	}}
}

// readiness lets a pod pass when it becomes ready or ceases to be. The status of its node
// follows, but may come to the same as before, and then tells nothing.
func readiness() predicate.Predicate {
	ready := func(object kube.Object) bool {
		pod, ok := object.(*corev1.Pod)
		return ok && plan.PodReady(pod)
	}
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return ready(e.ObjectOld) != ready(e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
	}
}
