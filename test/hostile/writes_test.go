package hostile_test

import (
	"context"
	"slices"
	"sync"

	"github.com/sei-operator/sei-operator/internal/kube"
)

// turnstile stands before every write of the operator and holds those that a test
// wants to be held.
type turnstile struct {
	mu    sync.Mutex
	stops []*stop
}

// stop holds one write: the next that is meant, before it is made or after it was.
type stop struct {
	meant   func(kube.Write) bool
	after   bool
	reached chan struct{} // closed when the operator is there
	passes  chan struct{} // closed when it may go on
}

// hold holds the next write that is meant.
func (t *turnstile) hold(after bool, meant func(kube.Write) bool) (reached <-chan struct{}, release func()) {
	s := &stop{meant: meant, after: after, reached: make(chan struct{}), passes: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stops = append(t.stops, s)
	return s.reached, sync.OnceFunc(func() {
		t.mu.Lock()
		t.stops = slices.DeleteFunc(t.stops, func(other *stop) bool { return other == s })
		t.mu.Unlock()
		close(s.passes)
	})
}

// take finds who waits for a write, and lets nobody else have it.
func (t *turnstile) take(write kube.Write) *stop {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, s := range t.stops {
		if s.meant(write) {
			t.stops = slices.Delete(t.stops, i, i+1)
			return s
		}
	}
	return nil
}

func (t *turnstile) around(ctx context.Context, write kube.Write, do func(context.Context) error) error {
	s := t.take(write)
	if s == nil {
		return do(ctx)
	}
	var err error
	if s.after {
		err = do(ctx)
	}
	close(s.reached)
	select {
	case <-s.passes:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !s.after {
		err = do(ctx)
	}
	return err
}
