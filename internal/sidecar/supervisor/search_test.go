package supervisor

import (
	"strings"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/test/fakeseid"
)

const (
	none  = "time=now level=INFO msg=\"no snapshots discovered, sleeping\" duration=15s\n"
	found = "time=now level=INFO msg=\"discovered and added new snapshot\" height=650\n"
	taken = "time=now level=INFO msg=\"Snapshot accepted, restoring\" height=650 format=1\n"
)

func (r *rig) stateSyncs() {
	r.t.Helper()
	r.config("[statesync]\nenable = true\n", "[api]\nenable = false\n[grpc]\nenable = false\n[grpc-web]\nenable = false\n")
}

// TestASearchForSnapshotsMayBeStopped: nothing is on the volume yet.
func TestASearchForSnapshotsMayBeStopped(t *testing.T) {
	r := newRig(t)
	r.stateSyncs()
	r.run()
	_, p := r.start(Approval{})
	r.await("syncing", func(s State) bool { return s.UnsafeBecause == StateSyncing })
	p.Do(t, fakeseid.Print("stdout", none))
	began := r.await("searching", func(s State) bool { return s.SnapshotSearch != nil }).SnapshotSearch
	r.clock.advance(time.Minute)
	p.Do(t, fakeseid.Print("stdout", none))
	state := r.await("safe", func(s State) bool { return s.SafeToStop })
	if state.SnapshotSearch == nil || !state.SnapshotSearch.Equal(*began) {
		t.Errorf("it searches since %s, not %s", state.SnapshotSearch, began)
	}
	// The next look at it changes nothing.
	r.current.mu.Lock()
	c := r.current.child
	seen := r.current.observation(c, c.settings)
	r.current.mu.Unlock()
	r.current.learn(c, seen)
	state, err := r.client.Stop(t.Context(), StopRequest{Instance: state.Instance})
	if err != nil || state.PID != 0 || state.SnapshotSearch != nil {
		t.Errorf("%+v, %v", state, err)
	}
}

// TestASnapshotThatWasRejected: the search goes on, and may be stopped as before. seid
// looks for a snapshot only while it restores none. What it had taken before it gave up
// may be on the volume in part, and is told.
func TestASnapshotThatWasRejected(t *testing.T) {
	for name, c := range map[string]struct {
		lines     []string
		abandoned bool
	}{
		"it was found and not taken":         {lines: []string{none, found, none}},
		"it is found before it was searched": {lines: []string{found, none}},
		"it was taken, and given up":         {lines: []string{none, found, taken, none}, abandoned: true},
		"another one was not even taken":     {lines: []string{found, taken, none, found, none}, abandoned: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.stateSyncs()
			r.run()
			_, p := r.start(Approval{})
			for _, line := range c.lines {
				p.Do(t, fakeseid.Print("stdout", line))
			}
			r.passedOn(p)
			state, err := r.client.State(t.Context())
			if err != nil || !state.SafeToStop || state.SnapshotSearch == nil || state.RestoreAbandoned != c.abandoned {
				t.Errorf("%+v, %v", state, err)
			}
			if state, err = r.client.Stop(t.Context(), StopRequest{}); err != nil || state.PID != 0 || state.RestoreAbandoned {
				t.Errorf("%+v, %v", state, err)
			}
		})
	}
}

// passedOn waits until all that a seid said was taken in: it is watched before it is
// passed on.
func (r *rig) passedOn(p *fakeseid.Process) {
	r.t.Helper()
	p.Do(r.t, fakeseid.Print("stdout", "the end\n"))
	for !strings.Contains(r.stdout.String(), "the end") {
		<-time.After(time.Millisecond)
	}
}

// TestARestoreIsNotInterrupted: from a snapshot that was found until seid looks for
// another one.
func TestARestoreIsNotInterrupted(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		data  bool
	}{
		"a snapshot was found":             {lines: []string{none, found}},
		"it is restored":                   {lines: []string{none, found, taken}},
		"another one is after the first":   {lines: []string{none, found, taken, none, found}},
		"there is something on the volume": {lines: []string{none}, data: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.stateSyncs()
			if c.data {
				r.chainData()
			}
			r.run()
			_, p := r.start(Approval{})
			for _, line := range c.lines {
				p.Do(t, fakeseid.Print("stdout", line))
			}
			r.passedOn(p)
			if _, err := r.client.Stop(t.Context(), StopRequest{}); reason(err) != ReasonNotSafe {
				t.Errorf("it is stopped: %v", err)
			}
			if state, err := r.client.State(t.Context()); err != nil || state.UnsafeBecause != StateSyncing {
				t.Errorf("%+v, %v", state, err)
			}
		})
	}
}
