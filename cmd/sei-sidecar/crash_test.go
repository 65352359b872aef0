package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

// dieAt names the transition of the store at which a sidecar kills itself: its
// number, and whether it dies before or after it is durable.
const dieAt = "SEI_SIDECAR_TEST_DIE_AT"

// mortalStore makes a store at which the process dies by SIGKILL, or none.
func mortalStore(at string) func(engine.Store) engine.Store {
	number, when, found := strings.Cut(at, " ")
	if !found {
		return nil
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		panic(err)
	}
	return func(s engine.Store) engine.Store { return &mortal{Store: s, left: n, after: when == "after"} }
}

type mortal struct {
	engine.Store
	after bool

	mu   sync.Mutex
	left int
}

func (m *mortal) transition(fn func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left--
	if m.left != 0 {
		return fn()
	}
	if m.after {
		if err := fn(); err != nil {
			panic(err)
		}
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {} // until the signal arrives
}

func (m *mortal) Put(t store.Task) (kept store.Task, err error) {
	err = m.transition(func() (err error) {
		kept, err = m.Store.Put(t)
		return err
	})
	return kept, err
}

func (m *mortal) SaveCheckpoint(t store.Task, data json.RawMessage) error {
	return m.transition(func() error { return m.Store.SaveCheckpoint(t, data) })
}

// mortalCase is a task, what comes before it, and what must be true after it.
type mortalCase struct {
	kind   string // where it is not the name of the case
	params any
	before func(*pod, *fakeseid.Process)
	after  func(*testing.T, *pod, *fakeseid.Process)
}

func mortalCases() map[string]mortalCase {
	untouched := func(t *testing.T, p *pod, node *fakeseid.Process) {
		t.Helper()
		p.untilStatus("seid was left alone", func(s api.Status) bool { return s.Seid.Pid == node.PID })
	}
	hold := func(p *pod, _ *fakeseid.Process) { p.must("mark-not-ready", map[string]any{}) }
	return map[string]mortalCase{
		"mark-ready": {params: map[string]any{}, after: func(t *testing.T, p *pod, node *fakeseid.Process) {
			t.Helper()
			p.untilStatus("it is approved", func(s api.Status) bool { return s.Approved && s.Seid.Pid == node.PID })
		}},
		"mark-not-ready": {params: map[string]any{"reason": "why"}, after: func(t *testing.T, p *pod, node *fakeseid.Process) {
			t.Helper()
			node.AwaitExit(t)
			p.untilStatus("it is held", func(s api.Status) bool { return s.Held && s.HeldReason == "why" && s.Seid.Pid == 0 })
		}},
		"release-hold": {params: map[string]any{}, before: hold, after: func(t *testing.T, p *pod, node *fakeseid.Process) {
			t.Helper()
			next := p.control.Next(t)
			p.untilStatus("it runs", func(s api.Status) bool { return !s.Held && s.Seid.Pid == next.PID && next.PID != node.PID })
		}},
		"stop-seid": {params: map[string]any{}, before: hold, after: func(t *testing.T, p *pod, node *fakeseid.Process) {
			t.Helper()
			node.AwaitExit(t)
			p.untilStatus("it is stopped", func(s api.Status) bool { return s.Held && s.Seid.State == api.SeidStopped })
		}},
		"restart-seid": {params: map[string]any{}, after: func(t *testing.T, p *pod, node *fakeseid.Process) {
			t.Helper()
			node.AwaitExit(t)
			// The second seid of this pod is the one that runs: there was no third.
			second := p.control.Next(t)
			p.untilStatus("it was restarted once", func(s api.Status) bool { return s.Seid.Pid == second.PID && s.Seid.RPC })
		}},
		"config-apply": {params: map[string]any{"document": intent(2, map[string]string{"config.moniker": "two"})}, after: func(t *testing.T, p *pod, node *fakeseid.Process) {
			t.Helper()
			p.untilStatus("it is applied", func(s api.Status) bool { return s.Config.Serial == 2 && s.Seid.Pid == node.PID })
		}},
		"a dry run":         {kind: "config-apply", params: map[string]any{"dryRun": true}, after: untouched},
		"configure-genesis": {params: map[string]any{"chainId": "pacific-1"}, after: untouched},
		"await-condition":   {params: map[string]any{"height": map[string]any{"targetHeight": 50}}, after: untouched},
		"peers alone":       {kind: "config-apply", params: map[string]any{"peers": []string{strings.Repeat("a", 40) + "@peer.example.com:26656"}}, after: untouched},
	}
}

// TestKilledAtEveryTransition: a sidecar dies by SIGKILL before and after everything
// it writes about a task; the next one brings it to the same end, and what must not
// happen twice does not.
func TestKilledAtEveryTransition(t *testing.T) {
	t.Parallel()
	for name, c := range mortalCases() {
		for _, when := range []string{"before", "after"} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				points := 0
				for c.dies(t, cmp.Or(c.kind, name), fmt.Sprintf("%d %s", points+1, when)) {
					points++
				}
				if points < 2 {
					t.Errorf("only %d transitions were found", points)
				}
			})
		}
	}
}

// dies carries the task out in a new pod, with a sidecar that dies at a transition.
// It tells whether there was such a transition.
func (c mortalCase) dies(t *testing.T, kind, at string) bool {
	t.Helper()
	p, sidecar, _, node := running(t)
	p.untilStatus("stopping is safe", func(s api.Status) bool { return s.Seid.SafeToStop })
	if c.before != nil {
		c.before(p, node)
	}
	sidecar.signal(syscall.SIGTERM)
	sidecar.wait()
	died := p.dieDoing(at, kind, c.params)
	c.after(t, p, node)
	return died
}

// dieDoing carries out a task with a sidecar that dies at a transition, and with the
// next one until the task is done. It tells whether the first one died.
func (p *pod) dieDoing(at, kind string, params any) bool {
	p.t.Helper()
	request := newTask(p.t, kind, params)
	p.dieAt = at
	sidecar := p.serve()
	p.dieAt = ""
	// Both calls fail when it dies.
	if p.accept(request) == nil {
		if result, err := p.client.Wait(p.t.Context(), request.ID, patience); err == nil && result.Status == api.TaskCompleted {
			return false
		}
	}
	sidecar.wait()
	p.serve()
	if err := p.accept(request); err != nil {
		p.t.Fatalf("submitting %s again: %v", kind, err)
	}
	result, err := p.client.Wait(p.t.Context(), request.ID, patience)
	if err != nil || result.Status != api.TaskCompleted {
		p.t.Fatalf("%s after a death at transition %s: %+v, %v", kind, at, result, err)
	}
	return true
}
