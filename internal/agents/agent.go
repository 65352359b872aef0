package agents

import (
	"context"
	"math/rand/v2"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/client"
)

const (
	// Pauses between attempts to connect.
	firstPause = 25 * time.Millisecond
	maxPause   = 15 * time.Second
	// longLived is how long a connection must have lived for the pauses to start
	// anew: a sidecar that breaks every connection at once is not asked faster.
	longLived = 30 * time.Second
	// pollEvery is how old a status may become. Events tell of changes; the poll is
	// for what has no event, such as a disk that fills.
	pollEvery = 60 * time.Second
)

// agent follows the sidecar of one pod.
type agent struct {
	opts   *Options
	target Target
	client *client.Client
	http   *http.Client
	stop   context.CancelFunc

	mu   sync.Mutex
	view View
	// connection is the one that may still change the view; nil between attempts.
	connection *connection
}

// run connects, again and again, until the context ends.
func (a *agent) run(ctx context.Context) {
	if a.target.ServerName != "" {
		defer a.http.CloseIdleConnections()
	}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		c := &connection{agent: a}
		err := c.run(ctx)
		if ctx.Err() != nil {
			return
		}
		a.disconnected(c, err)
		if !c.since.IsZero() && a.opts.Clock.Since(c.since) > longLived {
			pause = firstPause
		}
		timer := a.opts.Clock.NewTimer(jitter(pause))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// jitter shortens a duration by up to a quarter, so that the nodes of a fleet do not
// all come at the same moment.
func jitter(d time.Duration) time.Duration { return d - rand.N(d/4) }

func (a *agent) current() View {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.view
}

// connected returns the connection that calls may use, and nil with a view that
// says why when there is none.
func (a *agent) connected() (*connection, View) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.view.Connected {
		return nil, a.view
	}
	return a.connection, a.view
}

// learned takes in a status that was read on a connection.
func (a *agent) learned(c *connection, ticket uint64, status api.Status, taskChanged bool) {
	if a.take(c, ticket, status) || taskChanged {
		a.opts.Wake(a.target.Node)
	}
}

// take tells whether the view changed in a way that matters.
func (a *agent) take(c *connection, ticket uint64, status api.Status) bool {
	now := a.opts.Clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	// An answer that comes after the connection broke, or after that to a later
	// question, says nothing about now.
	if a.connection != c || ticket <= c.taken {
		return false
	}
	c.taken = ticket
	changed := !a.view.Connected || !reflect.DeepEqual(relevant(a.view.Status), relevant(status))
	if !a.view.Connected {
		c.since = now
	}
	a.view.New, a.view.Connected, a.view.Problem, a.view.Status = false, true, "", status
	return changed
}

// disconnected records that a connection broke. The first reason counts: what comes
// after it is only its consequence.
func (a *agent) disconnected(c *connection, err error) {
	problem := explain(err)
	a.mu.Lock()
	if a.connection != c {
		a.mu.Unlock()
		return
	}
	a.connection = nil
	changed := a.view.Connected || a.view.Problem != problem
	if a.view.Connected {
		a.view.Lost = a.opts.Clock.Now()
	}
	a.view.New, a.view.Connected, a.view.Problem = false, false, problem
	a.mu.Unlock()
	if changed {
		a.opts.Log.V(1).Info("A sidecar is not connected", "node", a.target.Node, "address", a.target.Address, "problem", problem, "error", err)
		a.opts.Wake(a.target.Node)
	}
}
