package operator_test

import (
	"sync"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/operator"
)

// clock is the real one until a test moves it ahead or stops it.
type clock struct {
	mu      sync.Mutex
	ahead   time.Duration
	stopped time.Time // zero: it runs
}

// Now is the time.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped.IsZero() {
		return c.stopped
	}
	return time.Now().Add(c.ahead)
}

// Since is how long ago a moment was.
func (c *clock) Since(moment time.Time) time.Duration { return c.Now().Sub(moment) }

// use makes an operator go by this clock.
func (c *clock) use(config *operator.Config) { config.Clock = c }

// advance moves the clock, and has the operator look at a node.
func (c *clock) advance(by time.Duration, r *rig, name string) {
	r.t.Helper()
	c.mu.Lock()
	c.ahead += by
	c.mu.Unlock()
	r.look(name)
}

// stop lets no more time pass: what only time puts right stays as it is.
func (c *clock) stop() {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = now
}

// look has the operator look at a node, as any change of it does.
func (r *rig) look(name string) {
	r.t.Helper()
	r.edit(name, func(n *v1alpha1.SeiNode) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations["example.com/looked"] += "again "
	})
}
