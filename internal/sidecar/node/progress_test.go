package node

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// TestWhatAProcessHasDone: whoever updates the binary has to know whether the new one
// executes blocks, and is told when that becomes known.
func TestWhatAProcessHasDone(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	n := New(Options{Home: seid.Home(t.TempDir()), Clock: clock})
	const silent, soon = -1, 5 * time.Second
	for _, step := range []struct {
		what     string
		passes   time.Duration
		instance string
		height   int64 // silent: RPC does not answer
		want     api.SeidProgress
		news     bool // there may be other news
	}{
		{"it starts", 0, "a", silent, api.ProgressNone, false},
		{"it starts for long", time.Hour, "a", silent, api.ProgressNone, false},
		{"it answers", soon, "a", 100, api.ProgressNone, true},
		{"a block is stored, and perhaps not executed", soon, "a", 101, api.ProgressNone, false},
		{"the next one is stored", soon, "a", 102, api.ProgressExecuted, true},
		{"one block more", soon, "a", 103, api.ProgressExecuted, false},
		{"RPC does not answer once", soon, "a", silent, api.ProgressExecuted, true},
		{"no block comes any more", time.Hour, "a", 103, api.ProgressExecuted, true},
		{"another process has done nothing yet", soon, "b", 103, api.ProgressNone, true},
		{"no block comes to it", time.Minute - 1, "b", 103, api.ProgressNone, false},
		{"for a minute", 1, "b", 103, api.ProgressIdle, true},
		{"one is stored", soon, "b", 104, api.ProgressIdle, false},
		{"one came", soon, "b", 105, api.ProgressExecuted, true},
	} {
		clock.Step(step.passes)
		n.state = supervisor.State{State: supervisor.Running, PID: 7, Instance: step.instance}
		n.connected = true
		next := sample{instance: step.instance}
		if step.height != silent {
			next.status = &seid.Status{LatestBlockHeight: step.height}
		}
		changed := n.Changed()
		n.believe(next)
		told := false
		select {
		case <-changed:
			told = true
		default:
		}
		if got := n.seid().Progress; got != step.want || step.news && !told {
			t.Errorf("%s: %s, told of: %t", step.what, got, told)
		}
	}
	n.state.Instance = "c"
	if got := n.seid().Progress; got != api.ProgressNone {
		t.Errorf("one that was not asked yet: %s", got)
	}
	n.believe(sample{instance: "b", status: &seid.Status{LatestBlockHeight: 1000}})
	n.believe(sample{instance: "c", status: &seid.Status{LatestBlockHeight: 105}})
	if got := n.seid().Progress; got != api.ProgressNone {
		t.Errorf("what the process before it answered counts: %s", got)
	}
}
