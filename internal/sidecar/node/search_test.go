package node

import (
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// TestASearchInVainIsBegunAnew: after two minutes, then after four and so on, and never
// once a snapshot was found.
func TestASearchInVainIsBegunAnew(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	searching := func(instance string) supervisor.State {
		return supervisor.State{State: supervisor.Starting, PID: 7, Instance: instance, SnapshotSearch: &begin, SafeToStop: true}
	}
	abandoned := func(instance string) supervisor.State {
		state := searching(instance)
		state.RestoreAbandoned = true
		return state
	}
	restoring := supervisor.State{State: supervisor.Starting, PID: 7, Instance: "d"}
	var s search
	for i, step := range []struct {
		after time.Duration
		state supervisor.State
		again bool
		tries int
	}{
		{0, supervisor.State{}, false, 0},
		{0, supervisor.State{State: supervisor.Starting, PID: 7, Instance: "a"}, false, 0},
		{time.Second, searching("a"), false, 0},
		{119 * time.Second, searching("a"), false, 0},
		{time.Second, searching("a"), true, 1},
		{time.Second, supervisor.State{State: supervisor.Stopped}, false, 1},
		{time.Second, searching("b"), false, 1},
		{239 * time.Second, searching("b"), false, 1},
		{time.Second, searching("b"), true, 2},
		{time.Second, searching("c"), false, 2},
		{7 * time.Minute, searching("c"), false, 2},
		// A snapshot was found: the restore may take for ever.
		{time.Second, restoring, false, 2},
		{24 * time.Hour, restoring, false, 2},
		// It was rejected, and the search begins anew.
		{time.Second, searching("d"), false, 2},
		{8*time.Minute - time.Second, searching("d"), false, 2},
		{time.Second, searching("d"), true, 3},
		{time.Second, supervisor.State{State: supervisor.Running, PID: 7, Instance: "d"}, false, 0},
		// One that was restored in part is not begun anew.
		{time.Second, abandoned("e"), false, 0},
		{24 * time.Hour, abandoned("e"), false, 0},
	} {
		begin = begin.Add(step.after)
		var again bool
		if s, again = s.next(step.state, begin); again != step.again || s.tries != step.tries {
			t.Errorf("step %d: %+v, again: %v", i, s, again)
		}
	}
	for s.tries = range 100 {
		s.instance, s.since = "x", begin
		if _, again := s.next(searching("x"), begin.Add(lastSearch)); !again {
			t.Errorf("after %d searches it waits for more than %s", s.tries, lastSearch)
		}
	}
}

// TestASearchInVainIsTold: what people see of it is not that seid does not answer.
func TestASearchInVainIsTold(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	n := New(Options{Home: seid.Home(t.TempDir()), Clock: clock})
	n.connected = true
	n.state = supervisor.State{State: supervisor.Starting, PID: 7, Instance: "a", SnapshotSearch: new(clock.Now()), SafeToStop: true}
	for _, want := range []string{"", "NotAnswering", "NotAnswering", "NotAnswering", "NoSnapshotFound"} {
		n.search, _ = n.search.next(n.state, clock.Now())
		n.believe(sample{})
		if got := readinessOf(n.told); got.Reason != want || got.Ready {
			t.Errorf("after %s: %+v", clock.Since(n.search.first), got)
		}
		clock.Step(15 * time.Second)
	}
	if got := n.told.Message; !strings.Contains(got, "no peer offered a snapshot that could be restored for 1m0s") {
		t.Error(got)
	}
}

// TestASearchAfterARejectedSnapshotIsTold: also where the first one was found at once, and
// where seid is not started anew.
func TestASearchAfterARejectedSnapshotIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		state supervisor.State
		says  string
	}{
		"it was not taken":         {supervisor.State{SafeToStop: true}, "no peer offered a snapshot that could be restored for 1m0s"},
		"it was restored in part":  {supervisor.State{SafeToStop: true, RestoreAbandoned: true}, "gave up the restore of a snapshot, and no peer offered another one for 1m0s"},
		"a restore may have begun": {supervisor.State{UnsafeBecause: supervisor.StateSyncing}, "it is not safe to stop it (" + string(supervisor.StateSyncing) + "), so the sidecar does not restart it"},
	} {
		clock := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		n := New(Options{Home: seid.Home(t.TempDir()), Clock: clock})
		n.connected = true
		for _, searches := range []bool{false, true} {
			n.state = c.state
			n.state.State, n.state.PID, n.state.Instance = supervisor.Starting, 7, "a"
			if searches {
				n.state.SnapshotSearch = new(clock.Now())
			}
			for range 5 {
				n.search, _ = n.search.next(n.state, clock.Now())
				n.believe(sample{})
				clock.Step(15 * time.Second)
			}
		}
		if got := readinessOf(n.told); got.Reason != string(noSnapshotFound) || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
