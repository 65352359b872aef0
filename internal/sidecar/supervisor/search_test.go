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
	state, err := r.client.Stop(t.Context(), StopRequest{Instance: state.Instance})
	if err != nil || state.PID != 0 || state.SnapshotSearch != nil {
		t.Errorf("%+v, %v", state, err)
	}
}

// TestARestoreIsNotInterrupted: once a snapshot was found, whatever seid says then.
func TestARestoreIsNotInterrupted(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		data  bool
	}{
		"a snapshot was found":               {lines: []string{none, found}},
		"and that one was not good":          {lines: []string{none, found, none}},
		"there is something on the volume":   {lines: []string{none}, data: true},
		"it is found before it was searched": {lines: []string{found, none}},
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
			p.Do(t, fakeseid.Print("stdout", "the end\n"))
			for !strings.Contains(r.stdout.String(), "the end") {
				<-time.After(time.Millisecond) // it is watched before it is passed on
			}
			if _, err := r.client.Stop(t.Context(), StopRequest{}); reason(err) != ReasonNotSafe {
				t.Errorf("it is stopped: %v", err)
			}
			if state, err := r.client.State(t.Context()); err != nil || state.UnsafeBecause != StateSyncing {
				t.Errorf("%+v, %v", state, err)
			}
		})
	}
}
