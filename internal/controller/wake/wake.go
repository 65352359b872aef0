// Package wake lets the sidecars of nodes wake the controllers that follow them.
package wake

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Waker makes a controller look at a node. Fleets of sidecars call it.
type Waker struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Start is called by the controller with its queue.
func (w *Waker) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	return nil
}

// Wake has a node looked at soon.
func (w *Waker) Wake(node types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue != nil {
		w.queue.Add(reconcile.Request{NamespacedName: node})
	}
}
