package supervisor

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sei-operator/sei-operator/test/fakeseid"
)

// Of a state these tests compare what does not depend on the machine or on chance.
var stable = cmp.Options{cmpopts.IgnoreFields(State{}, "Since", "Stops"), cmpopts.IgnoreFields(Exit{}, "Time")}

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
	r.expect("settled", r.settle(p, fakeseid.AtOnce), running)
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
	first, _ := r.settled(fakeseid.AtOnce)
	second, err := r.client.Restart(t.Context(), RestartRequest{StopRequest: StopRequest{Instance: first.Instance}})
	if err != nil || second.Instance == first.Instance || second.State != Starting {
		t.Fatalf("restart: %+v, %v", second, err)
	}
	r.settle(r.control.Next(t), fakeseid.AtOnce)

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
}

// TestRestartWhereNoneLives: whoever asks for a restart has seen one live. If it has
// ended meanwhile, a hold may have been answered, and nobody may start one.
func TestRestartWhereNoneLives(t *testing.T) {
	r := newRig(t)
	r.run()
	// The container was replaced in the middle of a restart.
	if _, err := r.client.Restart(t.Context(), RestartRequest{StopRequest: StopRequest{Instance: "of another container"}}); reason(err) != ReasonEnded {
		t.Fatalf("before the first start: %v", err)
	}
	first, _ := r.settled(fakeseid.AtOnce)
	if _, err := r.client.Stop(t.Context(), StopRequest{}); err != nil {
		t.Fatal(err)
	}
	for _, instance := range []string{first.Instance, ""} {
		if _, err := r.client.Restart(t.Context(), RestartRequest{StopRequest: StopRequest{Instance: instance}}); reason(err) != ReasonEnded {
			t.Errorf("restart of %q: %v", instance, err)
		}
	}
	if state, err := r.client.State(t.Context()); err != nil || state.State != Stopped || state.PID != 0 {
		t.Errorf("%+v, %v", state, err)
	}
}

// TestStartDecidedBeforeAStop: it may arrive long after it, and whoever stopped seid
// has told others that it does not run.
func TestStartDecidedBeforeAStop(t *testing.T) {
	r := newRig(t)
	r.run()
	before, err := r.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Stop(t.Context(), StopRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Start(t.Context(), StartRequest{AsOf: &before.Stops}); reason(err) != ReasonSuperseded {
		t.Fatalf("start: %v", err)
	}
	after := r.await("the stop", func(s State) bool { return s.Stops == before.Stops+1 })
	if state, err := r.client.Start(t.Context(), StartRequest{AsOf: &after.Stops}); err != nil || state.PID == 0 {
		t.Fatalf("%+v, %v", state, err)
	}
	p := r.control.Next(t)
	r.settle(p, fakeseid.WhenTold)
	stop := async(func() (State, error) { return r.client.Stop(t.Context(), StopRequest{}) })
	p.Signal(t)
	if _, err := r.client.Restart(t.Context(), RestartRequest{AsOf: &after.Stops}); reason(err) != ReasonSuperseded {
		t.Errorf("restart: %v", err)
	}
	p.Do(t, fakeseid.CloseStores())
	if state, err := r.answer(stop); err != nil || state.PID != 0 {
		t.Errorf("stop: %+v, %v", state, err)
	}
}

// TestStartDecidedUnderAnotherSupervisor: what a caller knows of the stops of the last one
// says nothing of this one's, also where both have granted as many.
func TestStartDecidedUnderAnotherSupervisor(t *testing.T) {
	r := newRig(t)
	r.run()
	before, err := r.client.Stop(t.Context(), StopRequest{})
	if err != nil {
		t.Fatal(err)
	}
	r.signals <- syscall.SIGTERM
	r.end()
	r.run()
	if _, err := r.client.Stop(t.Context(), StopRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Start(t.Context(), StartRequest{AsOf: &before.Stops}); reason(err) != ReasonSuperseded {
		t.Fatalf("start: %v", err)
	}
}

// TestStartOfACallerWhoLeft is not carried out: nobody knows of it any more.
func TestStartOfACallerWhoLeft(t *testing.T) {
	r := newRig(t)
	r.run()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.current.start(ctx, StartRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("start: %v", err)
	}
	if state, err := r.client.State(t.Context()); err != nil || state.PID != 0 {
		t.Errorf("%+v, %v", state, err)
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
	r.settle(p, fakeseid.AtOnce)
	state, err := r.answer(stop)
	if err != nil || state.LastExit.How != Clean || state.LastExit.Code != 0 {
		t.Fatalf("%+v, %v", state, err)
	}
}

// TestSeedNeedsASecondSignal: it dies of it, and that is known.
func TestSeedNeedsASecondSignal(t *testing.T) {
	r := newRig(t)
	r.config("mode = \"seed\"\n", noServices)
	r.run()
	_, p := r.start(Approval{})
	p.Do(t, fakeseid.Catch(fakeseid.WhenTold), fakeseid.Open(fakeseid.P2P, r.at[fakeseid.P2P]))
	r.await("running", phase(Running))
	r.clock.advance(time.Second)
	r.await("safe to stop", func(s State) bool { return s.SafeToStop })
	stop := async(func() (State, error) { return r.client.Stop(t.Context(), StopRequest{}) })
	p.Signal(t)
	r.clock.pass(t, 45*time.Second)
	state, err := r.answer(stop)
	if err != nil || state.LastExit.How != SecondSignal || state.LastExit.Signal != "SIGTERM" {
		t.Fatalf("%+v, %v", state.LastExit, err)
	}
}

// TestSlowShutdownIsWaitedFor: seid's handler is gone with the first signal, so a
// second one would tear its stores.
func TestSlowShutdownIsWaitedFor(t *testing.T) {
	for name, ask := range map[string]func(*rig) <-chan answer{
		"from outside": func(r *rig) <-chan answer {
			r.signals <- syscall.SIGTERM
			return nil
		},
		"over the socket": func(r *rig) <-chan answer {
			return async(func() (State, error) { return r.client.Stop(t.Context(), StopRequest{}) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.run()
			_, p := r.settled(fakeseid.WhenTold)
			asked := ask(r)
			if got := p.Signal(t); got != "SIGTERM" {
				t.Fatal(got)
			}
			for range 4 {
				r.clock.advance(time.Minute)
				r.signals <- syscall.SIGTERM // Whoever is impatient changes nothing.
				r.signals <- syscall.SIGHUP
			}
			r.await("terminating", func(s State) bool { return s.Terminating && s.State == Stopping })
			p.Do(t, fakeseid.CloseStores())
			if asked != nil {
				if _, err := r.answer(asked); err != nil {
					t.Error(err)
				}
			}
			if code := r.end(); code != 0 || !fakeseid.StoresClean(t, r.home) {
				t.Errorf("code %d, stores clean: %t", code, fakeseid.StoresClean(t, r.home))
			}
			left, err := recall(r.socket)
			if err != nil || left.LastExit.How != Clean || left.LastExit.Signal != "" {
				t.Errorf("%+v, %v", left.LastExit, err)
			}
		})
	}
}

// TestStopThatIsNotOver: seid is told once, however often somebody asks.
func TestStopThatIsNotOver(t *testing.T) {
	r := newRig(t)
	r.run()
	first, p := r.settled(fakeseid.WhenTold)
	for i := range 3 {
		stop := async(func() (State, error) { return r.client.Stop(t.Context(), StopRequest{}) })
		if i == 0 {
			p.Signal(t)
		}
		r.clock.pass(t, 10*time.Minute)
		if _, err := r.answer(stop); reason(err) != ReasonStillRunning {
			t.Fatalf("stop: %v", err)
		}
	}
	if state, err := r.client.State(t.Context()); err != nil || state.State != Stopping || state.PID != p.PID {
		t.Fatalf("%+v, %v", state, err)
	}

	// What it was asked for happens later, and is what was asked for.
	p.Do(t, fakeseid.CloseStores())
	state := r.await("stopped", phase(Stopped))
	if state.LastExit.Cause != Requested || state.LastExit.Instance != first.Instance || state.Terminating || !fakeseid.StoresClean(t, r.home) {
		t.Fatalf("%+v", state)
	}
	r.start(Approval{})
}

func TestCallerGoesAway(t *testing.T) {
	r := newRig(t)
	r.run()
	first, p := r.settled(fakeseid.WhenTold)
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
	_, p := r.settled(fakeseid.WhenTold)
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
	first, p := r.settled(fakeseid.WhenTold)
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
