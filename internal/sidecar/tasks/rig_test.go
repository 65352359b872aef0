package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/configure"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/signer"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

func TestMain(m *testing.M) {
	fakeseid.Main()
	goleak.VerifyTestMain(m)
}

const (
	// patience ends a test that would otherwise hang; no test waits for it to pass.
	patience = time.Minute
	nodeUID  = "0b9c7d1e-node"
	chainID  = "sample-1"
)

// world is what a sidecar acts on, and survives it: a home, a supervisor in this
// process, and a seid that is a process of its own.
type world struct {
	t       *testing.T
	root    string
	home    seid.Home
	socket  string
	control *fakeseid.Control
	at      map[fakeseid.Endpoint]string
	client  *supervisor.Client
	http    *http.Client

	publicKey, nodeID string
	// wall is the clock of the machine, by which tasks are submitted and holds are dated; nil
	// for the real one.
	wall *clocktesting.FakeClock
	// serving is the script of every seid, grace that of the supervisor.
	serving []fakeseid.Step
	grace   time.Duration
}

func newWorld(t *testing.T) *world {
	t.Helper()
	//nolint:usetesting // the path of a unix socket has room for a hundred characters
	root, err := os.MkdirTemp("", "tasks")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	w := &world{
		t: t, root: root, home: seid.Home(filepath.Join(root, "home")), socket: filepath.Join(root, "s"),
		http:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		grace: patience,
	}
	w.client = supervisor.NewClient(w.socket)
	for _, name := range []string{"config.toml", "app.toml", "client.toml"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "seid", "testdata", "config", name))
		if err != nil {
			t.Fatal(err)
		}
		w.write("config/"+name, string(content))
	}
	signing, publicKey := fakeseid.SigningKey("signing")
	node, nodeID := fakeseid.NodeKey("node")
	w.publicKey, w.nodeID = publicKey, nodeID
	w.write("config/priv_validator_key.json", string(signing))
	w.write("config/node_key.json", string(node))
	w.write("config/genesis.json", genesisOf(chainID))
	w.write("data/priv_validator_state.json", string(seid.FreshSignState()))
	w.mount(seid.ModeFullNode)
	if err := os.MkdirAll(w.path("genesis"), 0o750); err != nil {
		t.Fatal(err)
	}
	return w
}

func genesisOf(chain string) string { return `{"chain_id":"` + chain + `","app_state":{}}` + "\n" }

// mount puts the operator's document where the sidecar finds it.
func (w *world) mount(mode seid.Mode) {
	w.t.Helper()
	writeFile(w.t, w.path("mounted.json"), `{"serial":1,"chainId":"`+chainID+`","mode":"`+string(mode)+`"}`)
}

// path is beside the home.
func (w *world) path(name string) string { return filepath.Join(w.root, name) }

func (w *world) write(name, content string) {
	w.t.Helper()
	writeFile(w.t, filepath.Join(string(w.home), name), content)
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// read is a file of the home; empty if it is not there.
func (w *world) read(name string) string {
	w.t.Helper()
	content, err := os.ReadFile(filepath.Join(string(w.home), name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return string(content)
}

// supervise runs a supervisor, and the next one when it ends, as the kubelet does.
func (w *world) supervise() {
	w.t.Helper()
	w.control = fakeseid.NewControl(w.t)
	if w.at == nil {
		w.at = fakeseid.Addresses(fakeseid.Host(w.t))
	}
	if w.serving == nil {
		w.serving = fakeseid.Serving(w.at, fakeseid.Facts{ChainID: chainID, NodeID: w.nodeID, Height: 7})
	}
	cfg := supervisor.Config{
		Socket: w.socket, Home: string(w.home),
		Command: []string{fakeseid.Executable(w.t), "start", "--home", string(w.home)},
		Env:     w.control.Env(w.serving...),
		Stdout:  discard{}, Stderr: discard{},
		Endpoints: supervisor.Endpoints{
			RPC: w.at[fakeseid.RPC], Metrics: w.at[fakeseid.Metrics], P2P: w.at[fakeseid.P2P],
			REST: w.at[fakeseid.REST], GRPC: w.at[fakeseid.GRPC], GRPCWeb: w.at[fakeseid.GRPCWeb],
		},
		Timing: supervisor.Timing{
			Poll: time.Millisecond, Settle: time.Nanosecond, ServiceStart: time.Nanosecond,
			HoldBack: time.Nanosecond, Grace: w.grace,
		},
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if _, err := supervisor.New(cfg).Run(ctx); err != nil {
				w.t.Error(err)
			}
		}
	})
	w.t.Cleanup(func() {
		// Whatever the test left running ends now, also if it does not listen.
		state, err := w.client.State(context.WithoutCancel(w.t.Context()))
		cancel()
		if err == nil && state.PID != 0 {
			_ = syscall.Kill(state.PID, syscall.SIGKILL)
		}
		running.Wait()
	})
	w.awaitState("a supervisor", func(supervisor.State) bool { return true })
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func (w *world) awaitState(what string, is func(supervisor.State) bool) supervisor.State {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var last supervisor.State
	for state, err := range w.client.Watch(ctx) {
		if err == nil && is(state) {
			return state
		}
		last = state
	}
	w.t.Fatalf("never %s; the last state was %+v", what, last)
	return last
}

func safe(s supervisor.State) bool { return s.State == supervisor.Running && s.SafeToStop }

func (w *world) state() supervisor.State {
	w.t.Helper()
	state, err := w.client.State(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return state
}

// seid starts a seid without asking anybody.
func (w *world) seid() (supervisor.State, *fakeseid.Process) {
	w.t.Helper()
	if _, err := w.client.Start(w.t.Context(), supervisor.StartRequest{}); err != nil {
		w.t.Fatal(err)
	}
	p := w.control.Next(w.t)
	return w.awaitState("safe to stop", safe), p
}

// life is one life of a sidecar.
type life struct {
	*engine.Engine
	t     *testing.T
	w     *world
	m     *mortal
	tasks *tasks
	store *store.Store
	end   sync.Once
	drive sync.WaitGroup
	dying chan struct{}
	stop  context.CancelFunc
}

type option func(*tasks)

func withClock(c clock.WithTicker) option { return func(t *tasks) { t.Clock = c } }

// live begins a life. Whoever is mortal may end it early.
func (w *world) live(m *mortal, options ...option) *life {
	w.t.Helper()
	dir := filepath.Join(string(w.home), ".sei-sidecar")
	var wall clock.WithDelayedExecution = clock.RealClock{}
	if w.wall != nil {
		wall = w.wall
	}
	may, err := consent.Open(dir, nodeUID, wall)
	if err != nil {
		w.t.Fatal(err)
	}
	rpc := "127.0.0.1:1"
	if w.at != nil {
		rpc = w.at[fakeseid.RPC]
	}
	local, err := seid.NewClient(w.http, "http://"+rpc)
	if err != nil {
		w.t.Fatal(err)
	}
	l := &life{t: w.t, w: w, m: m, dying: make(chan struct{}), tasks: newTasks(Dependencies{
		Home: w.home, Consent: may, Supervisor: w.client,
		Config:     configure.New(w.home, dir, w.path("mounted.json")),
		Signer:     signer.New(signer.Options{Home: w.home, Consent: may, Mounted: w.path("signing.json")}),
		GenesisDir: w.path("genesis"), LocalRPC: local, HTTP: w.http, Downloads: w.http, Clock: clock.RealClock{},
	})}
	l.store, err = store.Open(dir, store.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	l.store.After(may.Sequence())
	var kept engine.Store = l.store
	if m != nil {
		kept = &mortalStore{l.store, m}
		l.tasks.Supervisor = &mortalSupervisor{w.client, m}
		l.tasks.interrupt = m.point
	}
	for _, set := range options {
		set(l.tasks)
	}
	l.Engine, err = engine.New(engine.Options{Store: kept, Definitions: l.tasks.definitions(), Clock: wall})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	l.stop = cancel
	w.t.Cleanup(l.close)
	l.Resume(ctx)
	return l
}

// loseTasks removes all that the sidecar knew of tasks.
func (w *world) loseTasks() {
	w.t.Helper()
	if err := os.RemoveAll(filepath.Join(string(w.home), ".sei-sidecar", "tasks")); err != nil {
		w.t.Fatal(err)
	}
}

// driven makes seid run exactly when it may, as the sidecar does beside its tasks.
func (l *life) driven() *life {
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.t.Context()))
	stop := l.stop
	l.stop = func() { cancel(); stop() }
	l.drive.Go(func() {
		_ = l.tasks.await(ctx, func(state supervisor.State, err error) (bool, error) {
			if err == nil && (l.m == nil || !l.m.dead()) {
				l.push(ctx, state)
			}
			return false, nil
		})
	})
	return l
}

// push is one step of the driver. What fails is tried again with the next.
func (l *life) push(ctx context.Context, state supervisor.State) {
	switch approval, err := l.tasks.approved(); {
	case err == nil && state.PID == 0 && state.ParkedBecause == "":
		_, _ = l.w.client.Start(ctx, supervisor.StartRequest{Approval: approval})
	case err != nil && state.PID != 0:
		_, _ = l.w.client.Stop(ctx, supervisor.StopRequest{Instance: state.Instance, SafeWait: supervisor.Duration(patience)})
	}
}

// close ends the life. To tasks that run it is as if the process had died.
func (l *life) close() {
	l.end.Do(func() {
		close(l.dying)
		l.stop()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.Context()), patience)
		defer cancel()
		if err := errors.Join(l.Close(ctx), l.store.Close()); err != nil {
			l.t.Error(err)
		}
		l.drive.Wait()
	})
}

func (l *life) submit(kind, params string) uuid.UUID {
	l.t.Helper()
	id, err := l.Submit(l.t.Context(), engine.Request{Type: kind, Params: json.RawMessage(params)})
	if err != nil {
		l.t.Fatal(err)
	}
	return id
}

func (l *life) ended(id uuid.UUID) store.Task {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	task, err := l.Wait(ctx, id)
	if err != nil {
		l.t.Fatal(err)
	}
	if task.Status == store.Running {
		l.t.Fatalf("%s has not ended", task.Type)
	}
	return task
}

func (l *life) run(kind, params string) store.Task {
	l.t.Helper()
	return l.ended(l.submit(kind, params))
}

// done runs a task that completes, and gives its result.
func done[R any](l *life, kind, params string) R {
	l.t.Helper()
	return result[R](l.t, l.run(kind, params))
}

func result[R any](t *testing.T, task store.Task) R {
	t.Helper()
	if task.Status != store.Completed {
		t.Fatalf("%s: %s: %s", task.Type, task.Reason, task.Error)
	}
	return resultOf[R](t, task)
}

func resultOf[R any](t *testing.T, task store.Task) R {
	t.Helper()
	var r R
	if err := json.Unmarshal(task.Result, &r); err != nil {
		t.Fatalf("%s: the result %q: %v", task.Type, task.Result, err)
	}
	return r
}

// fails runs a task that fails for this reason.
func (l *life) fails(reason string, retryable bool, kind, params string) store.Task {
	l.t.Helper()
	task := l.run(kind, params)
	failed(l.t, task, reason, retryable)
	return task
}

func failed(t *testing.T, task store.Task, reason string, retryable bool) {
	t.Helper()
	if task.Status != store.Failed || task.Reason != reason || task.Retryable != retryable {
		t.Fatalf("%s: it is %s, %q, retryable %t (%s), not %q, retryable %t", task.Type, task.Status, task.Reason, task.Retryable, task.Error, reason, retryable)
	}
	if task.Error == "" {
		t.Errorf("%s: it failed without a word", task.Type)
	}
}
