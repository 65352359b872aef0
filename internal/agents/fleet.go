package agents

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/sidecar/client"
)

// Fleet talks to the sidecars of all nodes. It is safe for concurrent use.
type Fleet struct {
	opts Options
	// start runs something until the fleet ends or the returned function is called.
	start   func(run func(context.Context)) context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	agents map[types.NamespacedName]*agent
	ended  bool
}

// New makes a fleet that follows nobody yet. Everything ends when the context ends.
func New(ctx context.Context, o Options) *Fleet {
	if o.HTTPClient == nil {
		o.HTTPClient = &http.Client{Transport: Transport()}
	}
	if o.Wake == nil {
		o.Wake = func(types.NamespacedName) {}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Around == nil {
		o.Around = func(ctx context.Context, _ Call, do func(context.Context) error) error { return do(ctx) }
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = 5 * time.Second
	}
	o.HTTPClient = newHTTPClient(o.HTTPClient.Transport)

	f := &Fleet{opts: o, agents: map[types.NamespacedName]*agent{}}
	f.start = func(run func(context.Context)) context.CancelFunc {
		ctx, cancel := context.WithCancel(ctx)
		f.running.Go(func() {
			defer cancel()
			run(ctx)
		})
		return cancel
	}
	return f
}

// newHTTPClient has no timeout: it would end every stream. And pod addresses are reused:
// a stranger at an old address must not send the operator elsewhere.
func newHTTPClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// httpClient is what a sidecar is called with. One behind an access proxy has its own:
// a connection belongs to one name, and the token goes nowhere else.
func (f *Fleet) httpClient(t Target) (*http.Client, error) {
	switch {
	case t.ServerName == "":
		return f.opts.HTTPClient, nil
	case f.opts.Access == nil:
		return nil, errNoAccess
	}
	return newHTTPClient(f.opts.Access.transport(t)), nil
}

// Follow keeps the stream of a node's sidecar open from now on. It is cheap, and
// nothing happens when this very target is followed already; another pod, address
// or node uid replaces the stream.
func (f *Fleet) Follow(t Target) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.agents[t.Node]
	if f.ended || old != nil && old.target == t {
		return
	}
	if old != nil {
		old.stop()
	}
	a := &agent{opts: &f.opts, target: t, view: View{PodUID: t.PodUID, New: true, Problem: problemNew}}
	f.agents[t.Node] = a
	var err error
	if a.http, err = f.httpClient(t); err == nil {
		a.client, err = client.New(client.Options{BaseURL: t.Address, HTTPClient: a.http, NodeUID: string(t.NodeUID)})
	}
	if err != nil {
		a.view.Problem = err.Error()
		a.stop = func() {}
		return
	}
	a.stop = f.start(a.run)
}

// Forget ends what Follow began.
func (f *Fleet) Forget(node types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.agents[node]; a != nil {
		a.stop()
		delete(f.agents, node)
	}
}

// View returns what is known of a node's sidecar. It never blocks on a sidecar.
func (f *Fleet) View(node types.NamespacedName) View {
	if a := f.agent(node); a != nil {
		return a.current()
	}
	return View{}
}

// Wait returns when the context has ended and nothing of the fleet runs any more.
// Nobody can be followed after it was called.
func (f *Fleet) Wait() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.running.Wait()
	f.opts.HTTPClient.CloseIdleConnections()
}

func (f *Fleet) agent(node types.NamespacedName) *agent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.agents[node]
}
