package agents

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// connection is one stream of events of a sidecar, and what is read because of them.
type connection struct {
	agent *agent
	// taskChanged is set when an event told of a task that nobody was woken for yet.
	taskChanged atomic.Bool
	// fail breaks the connection.
	fail context.CancelCauseFunc
	// ended calls a function when the connection ends, unless it is stopped before.
	ended func(func()) (stop func() bool)
	// background runs something that ends with the connection.
	background func(func(context.Context))
	// poll asks when nothing else did for long.
	poll clock.Timer

	// Guarded by the lock of the agent.
	closed  bool      // nothing is begun in the background any more
	reading bool      // a read is in flight
	again   bool      // and another one has to follow it
	asked   uint64    // the ticket of the last read
	taken   uint64    // the ticket of the read that the view is of
	since   time.Time // when the view became connected; zero: it never did
}

// run returns why the connection ended.
func (c *connection) run(ctx context.Context) error {
	var running sync.WaitGroup
	ctx, fail := context.WithCancelCause(ctx)
	c.fail = fail
	c.ended = func(f func()) func() bool { return context.AfterFunc(ctx, f) }
	c.background = func(f func(context.Context)) { running.Go(func() { f(ctx) }) }
	c.poll = c.agent.opts.Clock.AfterFunc(jitter(pollEvery), c.ask)
	c.agent.mu.Lock()
	c.agent.connection = c
	c.agent.mu.Unlock()
	defer func() {
		fail(nil)
		c.agent.mu.Lock()
		c.closed = true
		c.agent.mu.Unlock()
		running.Wait()
		c.poll.Stop()
	}()

	// A sidecar that accepts the connection and never answers is not connected. The
	// first event comes at once, because nothing is resumed: whatever was missed is
	// made good by reading everything.
	begin := time.AfterFunc(c.agent.opts.CallTimeout, func() { fail(errNoAnswer) })
	defer begin.Stop()
	for event, err := range c.agent.client.Events(ctx, "") {
		if err != nil {
			return err
		}
		begin.Stop()
		if event.Kind == api.EventTask {
			c.taskChanged.Store(true)
		}
		c.ask()
	}
	return context.Cause(ctx)
}

// ask has the status read in the background. However many ask while a read is in
// flight, one more follows it.
func (c *connection) ask() {
	c.agent.mu.Lock()
	defer c.agent.mu.Unlock()
	switch {
	case c.closed:
	case c.reading:
		c.again = true
	default:
		c.reading = true
		// At rest nobody waits here: a goroutine for each node would be the dearest
		// part of following it.
		c.background(c.readAll)
	}
}

// readAll reads as long as somebody asks.
func (c *connection) readAll(ctx context.Context) {
	for again := true; again; again = c.askedAgain() {
		// Those who are woken for a task see in the view what it did: the read comes
		// before the wake.
		if err := c.read(ctx, c.taskChanged.Swap(false)); err != nil {
			if ctx.Err() == nil {
				c.breakUp(err)
			}
			return
		}
		c.poll.Reset(jitter(pollEvery))
	}
}

// askedAgain tells whether somebody asked while the last read was in flight.
func (c *connection) askedAgain() bool {
	c.agent.mu.Lock()
	defer c.agent.mu.Unlock()
	c.reading, c.again = c.again, false
	return c.reading
}

// read reads the status once.
func (c *connection) read(ctx context.Context, taskChanged bool) error {
	ctx, cancel := context.WithTimeout(ctx, c.agent.opts.CallTimeout)
	defer cancel()
	c.agent.mu.Lock()
	c.asked++
	ticket := c.asked
	c.agent.mu.Unlock()
	status, err := c.agent.client.Status(ctx)
	if err != nil {
		return err
	}
	c.agent.learned(c, ticket, status, taskChanged)
	return nil
}

// breakUp ends the connection. The view says so at once: the next caller must not
// wait for a sidecar that has just proved not to answer.
func (c *connection) breakUp(err error) {
	c.agent.disconnected(c, err)
	c.fail(err)
}
