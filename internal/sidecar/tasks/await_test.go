package tasks

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// awaiting is a sidecar whose seid answers as told, and whose time the test makes.
func awaiting(t *testing.T, w *world, node *rpc, fake *clocktesting.FakeClock) *life {
	t.Helper()
	return w.live(nil, withClock(fake), func(s *tasks) {
		var err error
		if s.LocalRPC, err = seid.NewClient(w.http, node.URL); err != nil {
			t.Fatal(err)
		}
	})
}

func newFake() *clocktesting.FakeClock { return clocktesting.NewFakeClock(time.Unix(1e9, 0)) }

// poll waits for the next time the node is asked how it is.
func (r *rpc) poll() {
	for path := range r.asked {
		if path == "/status" {
			return
		}
	}
}

func TestAwaitHeight(t *testing.T) {
	w, node, fake := newWorld(t), newRPC(t, 99), newFake()
	l := awaiting(t, w, node, fake)
	id := l.submit(TypeAwaitCondition, `{"height":{"targetHeight":100}}`)
	node.poll()
	fake.Step(pollInterval)
	node.poll()
	node.set(func(r *rpc) { r.height = 101 })
	fake.Step(pollInterval)
	if got := result[AwaitConditionResult](t, l.ended(id)); !got.Met || got.Height != 101 {
		t.Errorf("%+v", got)
	}
}

func TestAwaitCaughtUp(t *testing.T) {
	for name, c := range map[string]struct {
		first, last facts
		met         bool
	}{
		"at the tip":                      {last: facts{height: 50, maxPeer: 51}, met: true},
		"within what seid allows":         {last: facts{height: 50, maxPeer: 350}, met: true},
		"behind, though it does not know": {last: facts{height: 50, maxPeer: 351}},
		"catching up":                     {last: facts{height: 50, maxPeer: 51, catchingUp: true}},
		"at its first block":              {last: facts{height: 1, maxPeer: 1}},
		"just started, no peer known":     {last: facts{height: 50}},
		"the only validator":              {first: facts{height: 50}, last: facts{height: 51}, met: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, node, fake := newWorld(t), newRPC(t, 0), newFake()
			l := awaiting(t, w, node, fake)
			node.set(func(r *rpc) { r.facts = c.first })
			id := l.submit(TypeAwaitCondition, `{"caughtUp":{},"timeoutSeconds":3}`)
			node.poll()
			if c.first.height > 0 {
				if path := <-node.asked; path != "/lag_status" {
					t.Fatal(path)
				}
			}
			node.set(func(r *rpc) { r.facts = c.last })
			fake.Step(pollInterval)
			if c.met {
				if got := result[AwaitConditionResult](t, l.ended(id)); !got.Met || got.Height != c.last.height {
					t.Errorf("%+v", got)
				}
				return
			}
			node.poll()
			fake.Step(pollInterval)
			node.poll()
			fake.Step(pollInterval)
			task := l.ended(id)
			failed(t, task, ReasonDeadlineExceeded, false)
			if got := resultOf[AwaitConditionResult](t, task); got.Met || got.Height != c.last.height {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A node without RPC is not there yet.
func TestAwaitWithoutRPC(t *testing.T) {
	w, node, fake := newWorld(t), newRPC(t, 5), newFake()
	silent := make(chan struct{})
	node.set(func(r *rpc) { r.silent = silent })
	l := awaiting(t, w, node, fake)
	id := l.submit(TypeAwaitCondition, `{"height":{"targetHeight":5}}`)
	<-silent
	fake.Step(rpcPatience) // nobody answers, and that is no failure
	if got := result[AwaitConditionResult](t, l.ended(id)); !got.Met {
		t.Errorf("%+v", got)
	}
}

// The deadline is that of the first life.
func TestAwaitSurvivesTheSidecar(t *testing.T) {
	w, node, fake := newWorld(t), newRPC(t, 5), newFake()
	l := awaiting(t, w, node, fake)
	id := l.submit(TypeAwaitCondition, `{"height":{"targetHeight":100},"timeoutSeconds":3600}`)
	node.poll()
	l.close()
	fake.Step(59 * time.Minute)
	l = awaiting(t, w, node, fake)
	node.poll()
	if task, err := l.Get(t.Context(), id); err != nil || task.Status != store.Running {
		t.Fatalf("%+v, %v", task, err)
	}
	l.close()
	fake.Step(time.Minute)
	l = awaiting(t, w, node, fake)
	task := l.ended(id)
	failed(t, task, ReasonDeadlineExceeded, false)
	if got := resultOf[AwaitConditionResult](t, task); got.Height != 5 {
		t.Errorf("%+v", got)
	}
}

// It can be given up.
func TestAwaitCanBeDeleted(t *testing.T) {
	w, node, fake := newWorld(t), newRPC(t, 5), newFake()
	l := awaiting(t, w, node, fake)
	id := l.submit(TypeAwaitCondition, `{"caughtUp":{}}`)
	node.poll()
	if err := l.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
}
