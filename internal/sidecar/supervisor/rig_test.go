package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/test/fakeseid"
)

// rig is a home, a fake seid and a supervisor that runs in the test's process,
// with the test's clock.
type rig struct {
	t       *testing.T
	home    string
	socket  string
	clock   *fakeClock
	control *fakeseid.Control
	at      map[fakeseid.Endpoint]string
	client  *Client
	stdout  fakeseid.Output
	stderr  fakeseid.Output

	// cfg is that of the next supervisor.
	cfg     Config
	signals chan os.Signal
	ended   chan int
	failure error
	current *Supervisor
}

// noServices is an app.toml under which seid opens none.
const noServices = "[api]\nenable = false\n[grpc]\nenable = false\n[grpc-web]\nenable = false\n"

// newRig prepares a home in which seid opens no services and does no state sync.
func newRig(t *testing.T, steps ...fakeseid.Step) *rig {
	t.Helper()
	//nolint:usetesting // the path of a unix socket has room for a hundred characters
	dir, err := os.MkdirTemp("", "rig")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	host := fakeseid.Host(t)
	r := &rig{
		t: t, home: filepath.Join(dir, "home"), socket: filepath.Join(dir, "s"),
		clock: newFakeClock(), control: fakeseid.NewControl(t), at: fakeseid.Addresses(host),
	}
	r.client = NewClient(r.socket)
	for _, sub := range []string{"config", "data"} {
		if err := os.MkdirAll(filepath.Join(r.home, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.config("mode = \"full\"\n", "[api]\nenable = false\n[grpc]\nenable = false\n[grpc-web]\nenable = false\n")
	r.cfg = Config{
		Socket: r.socket, Home: r.home,
		Command: []string{fakeseid.Executable(t), "start", "--home", r.home},
		Env:     r.control.Env(steps...),
		Stdout:  &r.stdout, Stderr: &r.stderr,
		Endpoints: Endpoints{
			RPC: r.at[fakeseid.RPC], Metrics: r.at[fakeseid.Metrics], P2P: r.at[fakeseid.P2P],
			REST: r.at[fakeseid.REST], GRPC: r.at[fakeseid.GRPC], GRPCWeb: r.at[fakeseid.GRPCWeb],
		},
		Timing: Timing{Poll: time.Millisecond},
		Clock:  r.clock,
	}
	return r
}

// config writes the two configuration files.
func (r *rig) config(config, app string) {
	r.t.Helper()
	r.write("config/config.toml", []byte(config))
	r.write("config/app.toml", []byte(app))
}

func (r *rig) write(name string, text []byte) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.home, name), text, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// run starts a supervisor. The test's end ends it.
func (r *rig) run() {
	r.t.Helper()
	r.cfg.Signals = make(chan os.Signal, 8)
	s := New(r.cfg)
	ended := make(chan int, 1)
	r.current, r.signals, r.ended = s, r.cfg.Signals, ended
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var code int
		code, r.failure = s.Run(ctx)
		ended <- code
	}()
	r.t.Cleanup(func() {
		cancel()
		// Whatever the test left running ends now, whether or not that is safe.
		for {
			r.clock.advance(time.Hour)
			select {
			case <-gone:
				return
			case <-time.After(time.Millisecond):
			}
			s.mu.Lock()
			if s.child != nil {
				s.child.process.Signal(syscall.SIGKILL)
			}
			s.mu.Unlock()
		}
	})
	r.await("a supervisor", func(State) bool { return true })
}

// end returns the code the supervisor ended with.
func (r *rig) end() int {
	r.t.Helper()
	select {
	case code := <-r.ended:
		return code
	case <-time.After(patience):
		r.t.Fatal("the supervisor did not end")
		return 0
	}
}

// await watches until the state is as described.
func (r *rig) await(what string, is func(State) bool) State {
	r.t.Helper()
	return awaitState(r.t, r.client, what, is)
}

func awaitState(t *testing.T, client *Client, what string, is func(State) bool) State {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last State
	for state, err := range client.Watch(ctx) {
		if err == nil && is(state) {
			return state
		}
		last = state
	}
	t.Fatalf("never %s; the last state was %+v", what, last)
	return State{}
}

func phase(want Phase) func(State) bool {
	return func(s State) bool { return s.State == want }
}

// start asks for a start and returns the seid.
func (r *rig) start(approval Approval) (State, *fakeseid.Process) {
	r.t.Helper()
	state, err := r.client.Start(r.t.Context(), StartRequest{Approval: approval})
	if err != nil {
		r.t.Fatal(err)
	}
	return state, r.control.Next(r.t)
}

// settled starts a seid, brings it up, and waits until it may be stopped.
func (r *rig) settled(closing fakeseid.Closing) (State, *fakeseid.Process) {
	r.t.Helper()
	_, p := r.start(Approval{})
	return r.settle(p, closing), p
}

func (r *rig) settle(p *fakeseid.Process, closing fakeseid.Closing) State {
	r.t.Helper()
	p.Do(r.t, fakeseid.Catch(closing), fakeseid.Tell(fakeseid.Facts{ChainID: "test-1", NodeID: "id", Height: 7}), fakeseid.Open(fakeseid.RPC, r.at[fakeseid.RPC]))
	r.await("running", phase(Running))
	r.clock.advance(time.Second)
	return r.await("safe to stop", func(s State) bool { return s.SafeToStop })
}

// reason is the reason of an error.
func reason(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// async makes a call that takes its time.
func async(call func() (State, error)) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		state, err := call()
		done <- answer{state, err}
	}()
	return done
}

type answer struct {
	state State
	err   error
}

func (r *rig) answer(from <-chan answer) (State, error) {
	r.t.Helper()
	select {
	case a := <-from:
		return a.state, a.err
	case <-time.After(patience):
		r.t.Fatal("no answer")
		return State{}, nil
	}
}
