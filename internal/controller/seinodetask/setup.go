package seinodetask

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/controller/wake"
	"github.com/sei-operator/sei-operator/internal/kube"
)

// workers is how many nodes are worked on at once. A worker spends its time waiting
// for sidecars.
const workers = 16

// A reconcile that failed is tried again after this time, doubled with each failure.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Setup makes a controller of a reconciler.
func Setup(m manager.Manager, r *Reconciler, waker *wake.Waker) error {
	request := func(namespace, node string) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: node}}}
	}
	byTarget := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object kube.Object) []reconcile.Request {
		task, ok := object.(*v1alpha1.SeiNodeTask)
		if !ok {
			return nil
		}
		return request(task.Namespace, task.Spec.Target.NodeRef.Name)
	})
	byName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object kube.Object) []reconcile.Request {
		return request(object.GetNamespace(), object.GetName())
	})
	return builder.ControllerManagedBy(m).
		Named("seinodetask").
		Watches(&v1alpha1.SeiNodeTask{}, byTarget).
		Watches(&v1alpha1.SeiNode{}, byName).
		WatchesRawSource(waker).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			SkipNameValidation:      new(true),
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(r)
}
