package supervisor

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sei-operator/sei-operator/test/fakeseid"
)

// Of a state these tests compare what does not depend on the machine.
var stable = cmp.Options{cmpopts.IgnoreFields(State{}, "Since"), cmpopts.IgnoreFields(Exit{}, "Time")}

func (r *rig) expect(what string, got, want State) {
	r.t.Helper()
	if diff := cmp.Diff(want, got, stable); diff != "" {
		r.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestLife(t *testing.T) {
	r := newRig(t)
	r.run()
	state, err := r.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.expect("before the first start", state, State{State: Waiting, SafeToStop: true})

	first, p := r.start(Approval{})
	if first.Instance == "" {
		t.Error("an instance without a name")
	}
	r.expect("started", first, State{State: Starting, Instance: first.Instance, PID: p.PID, UnsafeBecause: Booting})
	running := State{State: Running, Instance: first.Instance, PID: p.PID, SafeToStop: true}
	r.expect("settled", r.settle(p, 0), running)
	again, err := r.client.Start(t.Context(), StartRequest{})
	if err != nil {
		t.Fatal(err)
	}
	r.expect("started while it runs", again, running)

	stopped, err := r.client.Stop(t.Context(), StopRequest{Instance: first.Instance})
	if err != nil {
		t.Fatal(err)
	}
	exit := &Exit{Instance: first.Instance, Cause: Requested, How: Clean}
	counts := map[Cause]int{Requested: 1}
	r.expect("stopped", stopped, State{State: Stopped, Instance: first.Instance, SafeToStop: true, LastExit: exit, Restarts: counts})

	second, p := r.start(Approval{})
	if second.Instance == first.Instance {
		t.Error("two instances with one name")
	}
	r.expect("started again", second, State{
		State: Starting, Instance: second.Instance, PID: p.PID, UnsafeBecause: Booting, LastExit: exit, Restarts: counts,
	})
}

func TestConcurrentStartsStartOne(t *testing.T) {
	r := newRig(t)
	r.run()
	var calls sync.WaitGroup
	instances := make(chan string, 8)
	for range 8 {
		calls.Go(func() {
			state, err := r.client.Start(t.Context(), StartRequest{})
			if err != nil {
				t.Error(err)
			}
			instances <- state.Instance
		})
	}
	calls.Wait()
	close(instances)
	want := r.await("started", phase(Starting)).Instance
	for got := range instances {
		if got != want {
			t.Errorf("started %s and %s", got, want)
		}
	}
}

func TestRequestsForAnEarlierInstanceDoNothing(t *testing.T) {
	r := newRig(t)
	r.run()
	first, _ := r.settled(0)
	second, err := r.client.Restart(t.Context(), RestartRequest{StopRequest: StopRequest{Instance: first.Instance}})
	if err != nil || second.Instance == first.Instance || second.State != Starting {
		t.Fatalf("restart: %+v, %v", second, err)
	}
	r.settle(r.control.Next(t), 0)

	// The sidecar crashed before it heard the answer, and repeats itself.
	for name, call := range map[string]func() (State, error){
		"restart": func() (State, error) {
			return r.client.Restart(t.Context(), RestartRequest{StopRequest: StopRequest{Instance: first.Instance}})
		},
		"stop": func() (State, error) {
			return r.client.Stop(t.Context(), StopRequest{Instance: first.Instance})
		},
	} {
		state, err := call()
		if err != nil || state.Instance != second.Instance || state.State != Running || state.Restarts[Requested] != 1 {
			t.Errorf("%s of the earlier instance: %+v, %v", name, state, err)
		}
	}

	// Also when the later one has been stopped meanwhile.
	if _, err := r.client.Stop(t.Context(), StopRequest{}); err != nil {
		t.Fatal(err)
	}
	state, err := r.client.Restart(t.Context(), RestartRequest{StopRequest: StopRequest{Instance: first.Instance}})
	if err != nil || state.State != Stopped {
		t.Errorf("restart of the earlier instance of a stopped one: %+v, %v", state, err)
	}
	state, err = r.client.Restart(t.Context(), RestartRequest{StopRequest: StopRequest{Instance: second.Instance}})
	if err != nil || state.State != Starting {
		t.Errorf("restart of the stopped one: %+v, %v", state, err)
	}
}

func TestRestartOfASupervisorThatNeverStarted(t *testing.T) {
	r := newRig(t)
	r.run()
	// The container was replaced in the middle of a restart.
	state, err := r.client.Restart(t.Context(), RestartRequest{StopRequest: StopRequest{Instance: "of another container"}})
	if err != nil || state.State != Starting {
		t.Fatalf("%+v, %v", state, err)
	}
}

func TestStopBeforeItIsSafe(t *testing.T) {
	r := newRig(t)
	r.run()
	first, p := r.start(Approval{})
	if _, err := r.client.Stop(t.Context(), StopRequest{}); reason(err) != ReasonNotSafe {
		t.Fatalf("stop without waiting: %v", err)
	}
	waited := async(func() (State, error) {
		return r.client.Stop(t.Context(), StopRequest{SafeWait: Duration(20 * time.Second)})
	})
	r.clock.pass(t, 20*time.Second)
	if _, err := r.answer(waited); reason(err) != ReasonNotSafe {
		t.Fatalf("stop with a wait that was too short: %v", err)
	}
	state, err := r.client.State(t.Context())
	if err != nil || state.State != Starting || state.PID != p.PID {
		t.Fatalf("a refused stop touched seid: %+v, %v", state, err)
	}

	forced, err := r.client.Stop(t.Context(), StopRequest{Force: true})
	if err != nil || forced.State != Stopped {
		t.Fatalf("forced: %+v, %v", forced, err)
	}
	want := Exit{Instance: first.Instance, Code: 143, Signal: "SIGTERM", Time: r.clock.Now(), Cause: Requested, How: Unsafe}
	if *forced.LastExit != want {
		t.Errorf("last exit: %+v", *forced.LastExit)
	}
}

func TestStopWaitsUntilItIsSafe(t *testing.T) {
	r := newRig(t)
	r.run()
	_, p := r.start(Approval{})
	stop := async(func() (State, error) {
		return r.client.Stop(t.Context(), StopRequest{SafeWait: Duration(time.Hour)})
	})
	r.settle(p, 0)
	state, err := r.answer(stop)
	if err != nil || state.LastExit.How != Clean || state.LastExit.Code != 0 {
		t.Fatalf("%+v, %v", state, err)
	}
}

func TestSecondSignal(t *testing.T) {
	r := newRig(t)
	r.run()
	_, p := r.settled(1)
	stop := async(func() (State, error) { return r.client.Stop(t.Context(), StopRequest{}) })
	if got := p.Signal(t); got != "SIGTERM" {
		t.Fatal(got)
	}
	r.await("stopping", phase(Stopping))
	r.clock.pass(t, 45*time.Second)
	state, err := r.answer(stop)
	if err != nil || state.LastExit.How != SecondSignal || state.LastExit.Code != 0 {
		t.Fatalf("%+v, %v", state.LastExit, err)
	}
}

func TestNeverKilled(t *testing.T) {
	r := newRig(t)
	r.run()
	first, p := r.settled(-1)
	stop := async(func() (State, error) { return r.client.Stop(t.Context(), StopRequest{}) })
	p.Signal(t)
	r.clock.pass(t, 45*time.Second)
	p.Signal(t)
	r.clock.pass(t, 45*time.Second)
	if _, err := r.answer(stop); reason(err) != ReasonStillRunning {
		t.Fatalf("stop: %v", err)
	}
	state := r.await("running again", phase(Running))
	if state.PID != p.PID || !state.SafeToStop {
		t.Fatalf("%+v", state)
	}

	// What it was asked for happens later, and is what was asked for.
	p.Do(t, fakeseid.Exit(0))
	state = r.await("stopped", phase(Stopped))
	if state.LastExit.Cause != Requested || state.LastExit.Instance != first.Instance || state.Terminating {
		t.Fatalf("%+v", state)
	}
	r.start(Approval{})
}

func TestCallerGoesAway(t *testing.T) {
	r := newRig(t)
	r.run()
	first, p := r.settled(-1)
	ctx, cancel := context.WithCancel(t.Context())
	restart := async(func() (State, error) { return r.client.Restart(ctx, RestartRequest{}) })
	p.Signal(t)
	cancel()
	if _, err := r.answer(restart); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	p.Do(t, fakeseid.Exit(0))
	second := r.control.Next(t)
	state := r.await("started again", func(s State) bool { return s.Instance != first.Instance && s.State == Starting })
	if state.PID != second.PID || state.Restarts[Requested] != 1 {
		t.Fatalf("%+v", state)
	}
}

func TestStopCancelsTheStartOfARestart(t *testing.T) {
	r := newRig(t)
	r.run()
	_, p := r.settled(-1)
	restart := async(func() (State, error) { return r.client.Restart(t.Context(), RestartRequest{}) })
	p.Signal(t)
	stop := async(func() (State, error) { return r.client.Stop(t.Context(), StopRequest{}) })
	awaitNoNext(r)
	p.Do(t, fakeseid.Exit(0))
	if _, err := r.answer(restart); reason(err) != ReasonSuperseded {
		t.Errorf("restart: %v", err)
	}
	if state, err := r.answer(stop); err != nil || state.State != Stopped {
		t.Errorf("stop: %+v, %v", state, err)
	}
}

// awaitNoNext waits until a stop has joined: nothing of that shows outside.
func awaitNoNext(r *rig) {
	r.t.Helper()
	for deadline := time.After(patience); ; {
		r.current.mu.Lock()
		next := r.current.child.next
		r.current.mu.Unlock()
		if next == nil {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			r.t.Fatal("the stop never joined")
		}
	}
}

func TestStartDuringAStopFollowsIt(t *testing.T) {
	r := newRig(t)
	r.run()
	first, p := r.settled(-1)
	stop := async(func() (State, error) { return r.client.Stop(t.Context(), StopRequest{}) })
	p.Signal(t)
	start := async(func() (State, error) { return r.client.Start(t.Context(), StartRequest{}) })
	p.Do(t, fakeseid.Exit(0))
	if _, err := r.answer(stop); err != nil {
		t.Fatal(err)
	}
	state, err := r.answer(start)
	if err != nil || state.Instance == first.Instance {
		t.Fatalf("%+v, %v", state, err)
	}
}

func TestProgramThatIsNotThere(t *testing.T) {
	r := newRig(t)
	r.cfg.Command = []string{"/no/such/seid", "start"}
	r.run()
	if _, err := r.client.Start(t.Context(), StartRequest{}); reason(err) != ReasonStartFailed {
		t.Fatal(err)
	}
	if code := r.end(); code != 127 || !errors.Is(r.failure, os.ErrNotExist) {
		t.Fatalf("code %d, %v", code, r.failure)
	}
}
