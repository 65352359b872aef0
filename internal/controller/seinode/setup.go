package seinode

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/controller/wake"
	"github.com/sei-operator/sei-operator/internal/kube"
)

// workers is how many nodes are worked on at once. A worker spends its time waiting
// for the API server or for a sidecar, so there are many more than cores: a sidecar
// that stops answering in the middle of a call must not be in anybody's way.
const workers = 32

// A reconcile that failed is tried again after this time, doubled with each failure.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Setup makes a controller of a reconciler.
func Setup(m manager.Manager, r *Reconciler, waker *wake.Waker) error {
	byLabel := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object kube.Object) []reconcile.Request {
		return requestsFor(object.GetNamespace(), nodeOf(object))
	})
	byName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object kube.Object) []reconcile.Request {
		return requestsFor(object.GetNamespace(), object.GetName())
	})
	byClaim := handler.EnqueueRequestsFromMapFunc(r.usersOfClaim)
	byTarget := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object kube.Object) []reconcile.Request {
		task, ok := object.(*v1alpha1.SeiNodeTask)
		if !ok {
			return nil
		}
		return requestsFor(task.Namespace, task.Spec.Target.NodeRef.Name)
	})
	return builder.ControllerManagedBy(m).
		Named("seinode").
		For(&v1alpha1.SeiNode{}, builder.WithPredicates(worthALook())).
		// A StatefulSet of a node's name matters, whoever made it.
		Watches(&appsv1.StatefulSet{}, byName).
		Watches(&corev1.Service{}, byLabel).
		Watches(&corev1.ConfigMap{}, byLabel).
		Watches(&corev1.Pod{}, byClaim).
		Watches(&corev1.PersistentVolumeClaim{}, byClaim).
		// A plan may wait for a task to end.
		Watches(&v1alpha1.SeiNodeTask{}, byTarget, builder.WithPredicates(taskMoves())).
		Watches(&corev1.PersistentVolume{}, byClaim).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.usersOfSecret)).
		Watches(&coordinationv1.Lease{}, handler.EnqueueRequestsFromMapFunc(r.usersOfLease)).
		Watches(&v1alpha1.SeiNode{}, handler.EnqueueRequestsFromMapFunc(r.waiters), builder.WithPredicates(concernsWaiters())).
		WatchesRawSource(waker).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			// One process may run it again, after it lost the lease for example.
			SkipNameValidation: new(true),
			RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(r)
}

// worthALook lets everything pass but our own status writes, which would wake us for
// nothing. A status that was emptied is no write of ours.
func worthALook() predicate.Predicate {
	changedStatus := predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*v1alpha1.SeiNode)
			after, ok2 := e.ObjectNew.(*v1alpha1.SeiNode)
			emptied := ok1 && ok2 && before.Status.Phase != "" && after.Status.Phase == ""
			deleted := e.ObjectNew.GetDeletionTimestamp() != nil
			resync := e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion()
			return emptied || deleted || resync
		},
	}
	return predicate.Or[kube.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, changedStatus)
}

// taskMoves lets a SeiNodeTask pass that no longer works on its node.
func taskMoves() predicate.Predicate {
	works := func(object kube.Object) bool {
		task, ok := object.(*v1alpha1.SeiNodeTask)
		return ok && task.Status.Phase == v1alpha1.TaskPhaseRunning
	}
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return works(e.ObjectOld) && !works(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return works(e.Object) },
	}
}
