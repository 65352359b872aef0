package search

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/configure"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	driver "github.com/sei-operator/sei-operator/internal/sidecar/node"
	"github.com/sei-operator/sei-operator/internal/sidecar/signer"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

const nodeUID = "0b9c7d1e-node"

// world is one pod in memory: its volume, its containers, its clock.
type world struct {
	t        *testing.T
	home     seid.Home
	sabotage sabotage
	clock    *steppingClock
	tasks    *memory
	oracle   oracle
	story    story
	random   *rand.Rand      // of the acts alone
	over     context.Context //nolint:containedctx // the world is as long as the search
	running  sync.WaitGroup

	mu sync.Mutex
	// chance is what the world decides by; random belongs to whoever acts.
	chance    *rand.Rand
	nodes     int
	living    *node
	container *container
	signals   chan os.Signal
	sidecar   *sidecar
}

// steppingClock is the wall clock of the machine, which somebody sets at times. Timers do
// not go by it.
type steppingClock struct {
	clock.RealClock

	mu  sync.Mutex
	off time.Duration
}

func (c *steppingClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Round(0).Add(c.off)
}

func (c *steppingClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *steppingClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// newWorld makes the volume.
func newWorld(t *testing.T, home string, seed uint64, fault sabotage) *world {
	t.Helper()
	w := &world{
		t: t, home: seid.Home(home), sabotage: fault, clock: &steppingClock{}, tasks: newMemory(),
		random: rand.New(rand.NewPCG(seed, 1)), chance: rand.New(rand.NewPCG(seed, 2)),
	}
	key, _ := fakeseid.NodeKey("node")
	for name, content := range map[string]string{
		"config/config.toml":             "mode = \"full\"\n",
		"config/app.toml":                "[api]\nenable = false\n[grpc]\nenable = false\n[grpc-web]\nenable = false\n",
		"config/client.toml":             "chain-id = \"sample-1\"\n",
		"config/node_key.json":           string(key),
		"data/priv_validator_state.json": string(seid.FreshSignState()),
	} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// pick is a number below n, for what the world decides.
func (w *world) pick(n time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.chance.Int64N(int64(n)))
}

// pass lets time pass, which is the time of the bubble: nobody waits for it.
func pass(d time.Duration) { <-time.After(d) }

// newNode is a seid that begins. It is what the oracle is about.
func (w *world) newNode() *node {
	slow, quick := w.pick(3*time.Minute), w.pick(2*time.Second)
	lot := w.pick(8)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes++
	n := &node{pid: 100 + w.nodes, answers: time.Now().Add(quick), closing: quick / 4, ended: make(chan struct{})}
	switch int(lot) {
	case 0:
		n.answers = time.Now().Add(slow)
	case 1:
		n.closing = slow
	case 2:
		n.closing = 5 * slow
	}
	w.living = n
	w.story.add("seid %d starts", n.pid)
	w.oracle.starts(n)
	return n
}

// answers tells whether there is a seid with an RPC.
func (w *world) answers() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.living != nil && w.living.lives() && !time.Now().Before(w.living.answers)
}

// supervise runs a supervisor, and the next one when it has ended, as the kubelet does.
func (w *world) supervise() {
	for number := 1; w.over.Err() == nil; number++ {
		c := &container{world: w, number: number, socket: newSocket()}
		signals := make(chan os.Signal, 32)
		s := supervisor.New(supervisor.Config{
			Socket: filepath.Join(string(w.home), "socket"), Home: string(w.home), Command: []string{"seid", "start"}, Env: []string{},
			Clock: w.clock, Launcher: c, Dial: w.dialSeid, Signals: signals,
			// Probes alone would be a third of the work, and nothing here depends on how soon
			// they see an answer.
			Timing: supervisor.Timing{Poll: time.Second},
			Listen: func(context.Context) (net.Listener, func(), error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.container, w.signals = c, signals
				return c.socket, func() {}, nil
			},
		})
		_, _ = s.Run(w.over) // one that was killed says that it could not start seid
		c.kill(true)
		w.story.add("supervisor %d has ended", number)
		pass(w.pick(500 * time.Millisecond))
	}
}

// inside is the container that runs or ran last.
func (w *world) inside() (*container, chan os.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.container, w.signals
}

// signal is SIGTERM to the supervisor.
func (w *world) signal() {
	if _, signals := w.inside(); signals != nil {
		select {
		case signals <- syscall.SIGTERM:
		default:
		}
	}
}

// killSupervisor is SIGKILL to the supervisor, which is the end of its container.
func (w *world) killSupervisor() {
	if c, _ := w.inside(); c != nil {
		c.kill(true)
		w.signal() // it is dead, and may return
	}
}

// sidecar is one life of a sidecar.
type sidecar struct {
	engine *engine.Engine
	end    context.CancelFunc
	ended  context.Context //nolint:containedctx // a life is what it stands for

	mu     sync.Mutex
	dead   bool
	calls  []*wire
	client *supervisor.Client
}

// attend runs a sidecar, and the next one when it was killed.
func (w *world) attend() {
	for w.over.Err() == nil {
		w.live()
		pass(w.pick(300 * time.Millisecond))
	}
}

// live is one life, put together as the sidecar puts itself together.
func (w *world) live() {
	ended, end := context.WithCancel(w.over)
	s := &sidecar{ended: ended, end: end}
	s.client = supervisor.NewClientOver(func(context.Context) (net.Conn, error) { return w.dial(s) })
	dir := filepath.Join(string(w.home), ".sei-sidecar")
	allowed, err := consent.Open(dir, nodeUID, w.clock)
	if err != nil {
		w.t.Error(err)
		return
	}
	local := &http.Client{Transport: roundTripper(w.rpc)}
	rpc, err := seid.NewClient(local, "http://seid")
	if err != nil {
		w.t.Error(err)
		return
	}
	config := configure.New(w.home, dir, "")
	key := signer.New(signer.Options{Home: w.home, Consent: allowed, HTTP: local, ChainID: func() string { return "sample-1" }})
	s.engine, err = engine.New(engine.Options{
		Store: w.tasks, Clock: w.clock, Notify: w.told,
		Definitions: tasks.Definitions(tasks.Dependencies{
			Home: w.home, Consent: allowed, Supervisor: s.client, Config: config, Signer: key, LocalRPC: rpc, HTTP: local, Clock: w.clock,
		}),
	})
	if err != nil {
		w.t.Error(err)
		return
	}
	drives := driver.New(driver.Options{
		Home: w.home, Consent: allowed, Config: config, Supervisor: s.client, Signer: key,
		RPC: rpc, HTTP: local, Witnesses: local, Metrics: "http://seid/metrics", Clock: w.clock, Log: slog.New(slog.DiscardHandler),
	})
	w.mu.Lock()
	w.sidecar = s
	w.mu.Unlock()
	s.engine.Resume(ended)
	drives.Run(ended)
	s.hangUp()
	if err := s.engine.Close(context.WithoutCancel(ended)); err != nil {
		w.t.Error(err)
	}
}

// dial is a connection from the sidecar to the supervisor.
func (w *world) dial(s *sidecar) (net.Conn, error) {
	c, _ := w.inside()
	if c == nil {
		return nil, refused
	}
	c.socket.mu.Lock()
	gone := c.socket.closed
	c.socket.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone || s.dead {
		return nil, refused
	}
	w.mu.Lock()
	caller, called := connect(w.chance, c.listen(faults[w.sabotage](c)))
	after := delay(w.chance)
	w.mu.Unlock()
	s.calls = append(slices.DeleteFunc(s.calls, func(one *wire) bool {
		open, _ := one.is()
		return !open
	}), caller)
	c.socket.arrive(called, after)
	return caller, nil
}

// hangUp ends all that the sidecar asks for. What it has sent still arrives.
func (s *sidecar) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	for _, call := range s.calls {
		_ = call.Close()
	}
}

func (w *world) current() *sidecar {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sidecar
}

// killSidecar is SIGKILL to the sidecar.
func (w *world) killSidecar() {
	if s := w.current(); s != nil {
		s.end()
		s.hangUp()
	}
}

// submit asks the sidecar for a task. One that is not there hears nothing.
func (w *world) submit(kind string, params any) {
	text, err := json.Marshal(params)
	if err != nil {
		panic(err)
	}
	if s := w.current(); s != nil && s.ended.Err() == nil {
		// A sidecar that is about to begin or to end refuses, and the caller goes away.
		_, _ = s.engine.Submit(s.ended, engine.Request{Type: kind, Params: text})
	}
}

func (w *world) String() string {
	return fmt.Sprintf("%d starts, %s", w.nodes, &w.oracle)
}
