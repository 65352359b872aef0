// Package loop calls a function for every object that changed, as controllers do.
package loop

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Queue holds the names of objects that changed. A name is handled by one worker
// at a time, and again after a failure.
type Queue struct {
	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

// NewQueue returns an empty queue. Run must be called.
func NewQueue() *Queue {
	return &Queue{workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, 5*time.Second))}
}

// Add asks for an object to be handled.
func (q *Queue) Add(name cache.ObjectName) { q.queue.Add(name) }

// Watch handles every object of the informer that is new or changed.
func (q *Queue) Watch(informer cache.SharedIndexInformer) error {
	add := func(object any) {
		if name, err := cache.ObjectToName(object); err == nil {
			q.queue.Add(name)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, object any) { add(object) },
	})
	return err
}

// Run handles objects until the context is done. Failures are told to failed and
// tried again, later each time.
func (q *Queue) Run(ctx context.Context, workers int, handle func(context.Context, cache.ObjectName) error, failed func(cache.ObjectName, error)) {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for {
				name, shutdown := q.queue.Get()
				if shutdown {
					return
				}
				if err := handle(ctx, name); err == nil {
					q.queue.Forget(name)
				} else {
					if ctx.Err() == nil {
						failed(name, err)
					}
					q.queue.AddRateLimited(name)
				}
				q.queue.Done(name)
			}
		})
	}
	<-ctx.Done()
	q.queue.ShutDown()
	running.Wait()
}
