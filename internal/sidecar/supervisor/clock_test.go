package supervisor

import (
	"sync"
	"testing"
	"time"
)

// patience ends a test that would otherwise hang; no test waits for it to pass.
const patience = time.Minute

// fakeClock is a clock that a test moves.
type fakeClock struct {
	mu      sync.Mutex
	now     time.Time
	waiters []waiter
	armed   chan struct{}
}

type waiter struct {
	at   time.Time
	fire chan time.Time
}

func newFakeClock() *fakeClock {
	return &fakeClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), armed: make(chan struct{})}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := waiter{at: c.now.Add(d), fire: make(chan time.Time, 1)}
	if d <= 0 {
		w.fire <- c.now
		return w.fire
	}
	c.waiters = append(c.waiters, w)
	close(c.armed)
	c.armed = make(chan struct{})
	return w.fire
}

// advance moves the clock and fires what is due.
func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	var rest []waiter
	for _, w := range c.waiters {
		if w.at.After(c.now) {
			rest = append(rest, w)
			continue
		}
		w.fire <- c.now
	}
	c.waiters = rest
}

// pass waits until somebody waits for exactly d from now, and lets it pass.
func (c *fakeClock) pass(t *testing.T, d time.Duration) {
	t.Helper()
	c.awaited(t, d)
	c.advance(d)
}

// awaited waits until somebody waits for exactly d from now.
func (c *fakeClock) awaited(t *testing.T, d time.Duration) {
	t.Helper()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		found := false
		for _, w := range c.waiters {
			found = found || w.at.Equal(c.now.Add(d))
		}
		armed := c.armed
		c.mu.Unlock()
		if found {
			return
		}
		select {
		case <-armed:
		case <-deadline:
			t.Fatalf("nobody waits for %s", d)
		}
	}
}
