package scale_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// follow calls a function with every change in a namespace from now on, in order, with
// the time at which it was heard of, until the benchmark ends or it is stopped.
func follow[T client.Object](tb testing.TB, c client.WithWatch, list client.ObjectList, namespace string, heard func(time.Time, watch.EventType, T)) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	// A watch without a resource version begins with what is there.
	version := ""
	begin := func() (watch.Interface, error) {
		return c.Watch(ctx, list, client.InNamespace(namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
	}
	events, err := begin()
	if err != nil {
		cancel()
		tb.Fatalf("watching %T: %v", list, err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			for event := range events.ResultChan() {
				if object, ok := event.Object.(T); ok {
					version = object.GetResourceVersion()
					heard(time.Now(), event.Type, object)
				}
			}
			// A server may end a watch at any time, above all one that has much to do. It is
			// carried on with behind what was heard last.
			if events, err = begin(); err != nil {
				if ctx.Err() == nil {
					tb.Errorf("watching %T again: %v", list, err)
				}
				return
			}
		}
		events.Stop()
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	tb.Cleanup(stop)
	return stop
}

// board is something that changes and can be waited for.
type board struct {
	mu      sync.Mutex
	changed chan struct{}
}

func newBoard() *board { return &board{changed: make(chan struct{})} }

// change changes it, and wakes those who wait.
func (d *board) change(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
	close(d.changed)
	d.changed = make(chan struct{})
}

// wait returns when the condition holds, which is asked with the lock held.
func (d *board) wait(b *testing.B, what string, holds func() bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	for {
		d.mu.Lock()
		done, changed := holds(), d.changed
		d.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			b.Fatalf("waited in vain for %s", what)
		}
	}
}

// nodesSeen is what was ever seen of the SeiNodes of a namespace.
type nodesSeen struct {
	*board
	nodes map[string]*nodeSeen
}

type nodeSeen struct {
	// running and settled are when it was so for the first time.
	running, settled time.Time
	latest           *v1alpha1.SeiNode
	// statuses are all that it ever had, one after the other.
	statuses []v1alpha1.SeiNodeStatus
}

func followNodes(b *testing.B, c client.WithWatch, namespace string) *nodesSeen {
	b.Helper()
	s := &nodesSeen{board: newBoard(), nodes: map[string]*nodeSeen{}}
	follow(b, c, &v1alpha1.SeiNodeList{}, namespace, func(at time.Time, _ watch.EventType, node *v1alpha1.SeiNode) {
		s.change(func() { s.node(node.Name).heard(at, node) })
	})
	return s
}

// node is what was seen of one node; the caller holds the lock.
func (s *nodesSeen) node(name string) *nodeSeen {
	n := s.nodes[name]
	if n == nil {
		n = &nodeSeen{}
		s.nodes[name] = n
	}
	return n
}

func (n *nodeSeen) heard(at time.Time, node *v1alpha1.SeiNode) {
	changed := n.latest == nil || !sameStatus(&n.latest.Status, &node.Status)
	n.latest = node
	if node.Status.Phase != "" && changed {
		n.statuses = append(n.statuses, node.Status)
	}
	if n.running.IsZero() && node.Status.Phase == v1alpha1.PhaseRunning {
		n.running = at
	}
	if n.settled.IsZero() && isSettled(node) {
		n.settled = at
	}
}

// isSettled tells whether a node is ready and nothing is left to do.
func isSettled(node *v1alpha1.SeiNode) bool {
	c := meta.FindStatusCondition(node.Status.Conditions, string(v1alpha1.ConditionReady))
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == node.Generation && node.Status.Plan == nil
}

// untilSettled waits for all of them, and returns when each was running and settled.
func (s *nodesSeen) untilSettled(b *testing.B, names []string) (running, settled []time.Time) {
	b.Helper()
	s.wait(b, "all nodes to be settled", func() bool {
		for _, name := range names {
			if s.node(name).settled.IsZero() {
				return false
			}
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		running = append(running, s.nodes[name].running)
		settled = append(settled, s.nodes[name].settled)
	}
	return running, settled
}

// untilNode waits for one node to be in some state, and returns it.
func (s *nodesSeen) untilNode(b *testing.B, name, what string, ok func(*v1alpha1.SeiNode) bool) *v1alpha1.SeiNode {
	b.Helper()
	var found *v1alpha1.SeiNode
	s.wait(b, name+" "+what, func() bool {
		found = s.node(name).latest
		return found != nil && ok(found)
	})
	return found
}
