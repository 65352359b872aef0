package agents

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/client"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/server"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// process is the seid of a real sidecar, as a test wants it to be.
type process struct {
	mu      sync.Mutex
	node    server.Node
	changed chan struct{}
}

func (p *process) Node() server.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node
}

func (p *process) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

func (p *process) set(change func(*server.Node)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.node)
	close(p.changed)
	p.changed = make(chan struct{})
}

// sidecar is a real one, but for its node.
type sidecar struct {
	address string
	consent *consent.Consent
	process *process
	stop    func() // ends it, as a container ends
}

// start runs a sidecar at an address of this machine.
func start(tb testing.TB, uid, listen string, more ...engine.Definition) *sidecar {
	tb.Helper()
	s := &sidecar{process: &process{changed: make(chan struct{})}}
	var err error
	check := func() {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	s.consent, err = consent.Open(tb.TempDir(), uid, nil)
	check()
	kept, err := store.Open(tb.TempDir(), store.Options{})
	check()
	bus := server.NewBus(0)
	tasks, err := engine.New(engine.Options{Store: kept, Notify: bus.Task, Definitions: append(more, []engine.Definition{
		{
			Type: "mark-ready", Deadline: time.Hour, Decode: engine.Strict[struct{}],
			Run: func(context.Context, engine.Execution) (any, error) {
				return struct{}{}, s.consent.Approve("key", "node", 0)
			},
		},
		{
			Type: "endless", Deadline: time.Hour, Decode: engine.Strict[struct{}],
			Run: func(ctx context.Context, _ engine.Execution) (any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		},
	}...)})
	check()
	tasks.Resume(tb.Context())
	answers, err := server.New(server.Options{
		NodeUID: uid, Engine: tasks, Consent: s.consent, Node: s.process, Bus: bus, Gatherer: prometheus.NewRegistry(),
	})
	check()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", listen)
	check()
	s.address = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = answers.Run(ctx, l)
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
		_ = tasks.Close(context.WithoutCancel(ctx))
		_ = kept.Close()
	})
	tb.Cleanup(s.stop)
	return s
}

// follow has a fleet follow real sidecars; it ends before them.
func follow(t *testing.T, s *sidecar, adapt ...func(*Options)) *rig {
	t.Helper()
	r := newRig(t, Transport(), adapt...)
	t.Cleanup(r.end)
	r.Follow(target(alpha, s.address))
	return r
}

func request(kind string) api.TaskRequest {
	return api.TaskRequest{ID: uuid.New(), Type: kind, Params: json.RawMessage(`{}`)}
}

func TestATaskOfARealSidecar(t *testing.T) {
	s := start(t, "uid-alpha", "127.0.0.1:0")
	r := follow(t, s)
	r.until(t, alpha, "a connection", isConnected)
	task := request("mark-ready")
	for range 2 { // the same id is the same task
		if err := r.Submit(t.Context(), alpha, task); err != nil {
			t.Fatal(err)
		}
	}
	view := r.until(t, alpha, "the approval", func(v View) bool { return v.Status.Approved })
	if view.Status.Approval.NodeUID != "uid-alpha" || view.Status.Status != api.StatusReady {
		t.Errorf("the status is %+v", view.Status)
	}
	got, err := r.Task(t.Context(), alpha, task.ID, time.Minute)
	if err != nil || got.Status != api.TaskCompleted || got.Run != 1 {
		t.Errorf("the task is %+v, %v", got, err)
	}
	other := request("endless")
	other.ID = task.ID
	if err := r.Submit(t.Context(), alpha, other); client.Reason(err) != api.ReasonIDConflict || !r.View(alpha).Connected {
		t.Errorf("another task with the same id: %v", err)
	}
}

// TestASidecarFromBefore: an image of the sidecar may be pinned, so that the operator is
// newer. A dry run must reach it as one, and never as an apply.
func TestASidecarFromBefore(t *testing.T) {
	type document struct {
		Document any `json:"document"`
	}
	run := func(context.Context, engine.Execution) (any, error) { return struct{}{}, nil }
	s := start(t, "uid-alpha", "127.0.0.1:0",
		engine.Definition{Type: "config-apply", Deadline: time.Hour, Decode: engine.Strict[document], Run: run},
		engine.Definition{Type: "config-validate", Deadline: time.Hour, Decode: engine.Strict[document], Run: run},
		engine.Definition{Type: "discover-peers", Deadline: time.Hour, Decode: engine.Strict[struct{ Peers []string }], Run: run},
	)
	r := follow(t, s)
	r.until(t, alpha, "a connection", isConnected)
	for params, want := range map[string]string{
		`{"document":{"serial":1}}`:               "config-apply",
		`{"dryRun":true}`:                         "config-validate",
		`{"dryRun":true,"document":{"serial":1}}`: "config-validate",
		`{"peers":[]}`:                            "discover-peers",
	} {
		task := api.TaskRequest{ID: uuid.New(), Type: "config-apply", Params: json.RawMessage(params)}
		if err := r.Submit(t.Context(), alpha, task); err != nil {
			t.Fatalf("%s: %v", params, err)
		}
		if got, err := r.Task(t.Context(), alpha, task.ID, time.Minute); err != nil || got.Type != want || got.Status != api.TaskCompleted {
			t.Errorf("%s: it ran %+v, %v", params, got, err)
		}
	}
}

// TestASidecarThatRefusesBothWords: what is wrong with the params is said of those that
// the caller gave, also by a sidecar that does not know the earlier type.
func TestASidecarThatRefusesBothWords(t *testing.T) {
	refuse := func(json.RawMessage) (any, error) { return nil, errors.New("the first peer is no peer") }
	s := start(t, "uid-alpha", "127.0.0.1:0", engine.Definition{
		Type: "config-apply", Deadline: time.Hour, Decode: refuse,
		Run: func(context.Context, engine.Execution) (any, error) { return struct{}{}, nil },
	})
	r := follow(t, s)
	r.until(t, alpha, "a connection", isConnected)
	err := r.Submit(t.Context(), alpha, api.TaskRequest{ID: uuid.New(), Type: "config-apply", Params: json.RawMessage(`{"peers":["x"]}`)})
	if err == nil || !strings.Contains(err.Error(), "the first peer is no peer") {
		t.Errorf("submitted with %v", err)
	}
}

func TestATaskIsDeleted(t *testing.T) {
	s := start(t, "uid-alpha", "127.0.0.1:0")
	r := follow(t, s)
	r.until(t, alpha, "a connection", isConnected)
	task := request("endless")
	if err := r.Submit(t.Context(), alpha, task); err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(t.Context(), alpha, task.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Task(t.Context(), alpha, task.ID, 0); !client.NotFound(err) {
		t.Errorf("the task that was deleted: %v", err)
	}
}

func TestRefreshSeesWhatHasNoEvent(t *testing.T) {
	s := start(t, "uid-alpha", "127.0.0.1:0")
	r := follow(t, s)
	r.until(t, alpha, "a connection", isConnected)
	s.process.mu.Lock()
	s.process.node.NodeID = "0123"
	s.process.mu.Unlock()
	view, err := r.Refresh(t.Context(), alpha)
	if err != nil || view.Status.NodeID != "0123" || r.View(alpha).Status.NodeID != "0123" {
		t.Errorf("%+v, %v", view, err)
	}
}

func TestASidecarRestarts(t *testing.T) {
	// Nobody else takes ports of this address, so it can come back at the same one.
	s := start(t, "uid-alpha", "127.0.0.2:0")
	s.process.set(func(n *server.Node) { n.NodeID = "0123" })
	r := follow(t, s)
	r.until(t, alpha, "a connection", isConnected)
	s.stop()
	view := r.until(t, alpha, "the end of it", func(v View) bool {
		return v.Problem == "nothing listens at the pod's address; the container of the sidecar may be starting or crashing"
	})
	if view.Connected || view.Status.NodeID != "0123" {
		t.Errorf("what was known of the node is lost: %+v", view)
	}
	if err := r.Submit(t.Context(), alpha, request("mark-ready")); !errors.Is(err, ErrNotConnected) {
		t.Errorf("a call: %v", err)
	}
	if view, err := r.Refresh(t.Context(), alpha); !errors.Is(err, ErrNotConnected) || view.Status.NodeID != "0123" {
		t.Errorf("a refresh: %+v, %v", view, err)
	}
	next := start(t, "uid-alpha", s.address[len("http://"):])
	next.process.set(func(n *server.Node) { n.NodeID = "4567" })
	r.until(t, alpha, "the next one", func(v View) bool { return v.Connected && v.Status.NodeID == "4567" })
}

func TestAnAddressThatBelongsToAnotherNode(t *testing.T) {
	s := start(t, "uid-beta", "127.0.0.1:0")
	r := follow(t, s)
	view := r.until(t, alpha, "the refusal", func(v View) bool { return v.Problem != problemNew })
	if view.Connected || view.Problem != "the pod's address belongs to another node now" {
		t.Errorf("the view is %+v", view)
	}
}

// The stream was opened before the address went to another pod, and cannot tell.
func TestACallThatReachesAnotherNode(t *testing.T) {
	n, s := &network{}, newScript()
	address, end := n.serve("alpha", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			s.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusMisdirectedRequest)
		_, _ = w.Write([]byte(`{"reason":"WrongNode","error":"this is another node","retryable":true}`))
	}))
	defer end()
	r := newRig(t, n.transport())
	defer r.end()
	r.Follow(target(alpha, address))
	r.until(t, alpha, "a connection", isConnected)
	r.woken()
	err := r.Submit(t.Context(), alpha, request("mark-ready"))
	if client.Reason(err) != api.ReasonWrongNode || r.woken() == 0 {
		t.Errorf("it ended with %v, or nobody was woken", err)
	}
}

func TestTheClockOfATest(t *testing.T) {
	n, s := &network{}, newScript()
	address, end := n.serve("alpha", s)
	defer end()
	fake := clocktesting.NewFakeClock(time.Now())
	r := newRig(t, n.transport(), func(o *Options) { o.Clock = fake })
	defer r.end()
	r.Follow(target(alpha, address))
	r.until(t, alpha, "a connection", isConnected)
	s.set(func(status *api.Status) { status.Approved = true })
	fake.Step(pollEvery)
	r.until(t, alpha, "the poll", func(v View) bool { return v.Status.Approved })
}

func TestAnotherTargetReplacesTheStream(t *testing.T) {
	first, second := start(t, "uid-alpha", "127.0.0.1:0"), start(t, "uid-alpha", "127.0.0.1:0")
	second.process.set(func(n *server.Node) { n.NodeID = "second" })
	r := follow(t, first)
	r.until(t, alpha, "a connection", isConnected)
	r.woken()
	r.Follow(target(alpha, first.address))
	if !r.View(alpha).Connected {
		t.Error("following the same pod again broke the connection")
	}
	next := target(alpha, second.address)
	next.PodUID = "pod-2"
	r.Follow(next)
	view := r.until(t, alpha, "the next pod", isConnected)
	if view.PodUID != "pod-2" || view.Status.NodeID != "second" {
		t.Errorf("the view is %+v", view)
	}
}

func TestANodeThatNobodyFollows(t *testing.T) {
	s := start(t, "uid-alpha", "127.0.0.1:0")
	r := follow(t, s)
	r.until(t, alpha, "a connection", isConnected)
	r.Forget(alpha)
	r.Forget(alpha)
	for name, node := range map[string]types.NamespacedName{"forgotten": alpha, "never followed": {Name: "beta"}} {
		if diff := cmp.Diff(View{}, r.View(node)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if _, err := r.Task(t.Context(), node, uuid.New(), 0); !errors.Is(err, ErrNotConnected) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATargetThatCannotBeCalled(t *testing.T) {
	r := newRig(t, Transport())
	defer r.end()
	r.Follow(Target{Node: alpha, NodeUID: "uid-alpha", PodUID: "pod"})
	if view := r.View(alpha); view.Connected || view.Problem == "" || view.PodUID != "pod" {
		t.Errorf("the view is %+v", view)
	}
	r.Forget(alpha)
	r.end()
	r.Follow(target(alpha, "http://127.0.0.1:1"))
	if view := r.View(alpha); view.PodUID != "" {
		t.Errorf("after the end somebody is followed: %+v", view)
	}
}

func TestATaskNeedsAnID(t *testing.T) {
	s := start(t, "uid-alpha", "127.0.0.1:0")
	r := follow(t, s)
	r.until(t, alpha, "a connection", isConnected)
	if err := r.Submit(t.Context(), alpha, api.TaskRequest{Type: "mark-ready"}); err == nil {
		t.Error("a task was submitted that nobody can ask for")
	}
}

func TestCallsThatChangeSomethingAreCounted(t *testing.T) {
	s := start(t, "uid-alpha", "127.0.0.1:0")
	var calls []Call
	broken := errors.New("broken")
	before, after := false, false
	r := follow(t, s, func(o *Options) {
		o.Around = func(ctx context.Context, call Call, do func(context.Context) error) error {
			calls = append(calls, call)
			if before {
				return broken
			}
			err := do(ctx)
			if after {
				return broken
			}
			return err
		}
	})
	task := request("endless")
	if err := r.Submit(t.Context(), types.NamespacedName{Name: "beta"}, task); !errors.Is(err, ErrNotConnected) {
		t.Fatal(err)
	}
	r.until(t, alpha, "a connection", isConnected)
	before = true
	if err := r.Submit(t.Context(), alpha, task); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if _, err := r.Task(t.Context(), alpha, task.ID, 0); !client.NotFound(err) {
		t.Errorf("a call that failed before it was made: %v", err)
	}
	before, after = false, true
	if err := r.Submit(t.Context(), alpha, task); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if got, err := r.Task(t.Context(), alpha, task.ID, 0); err != nil || got.ID != task.ID {
		t.Errorf("a call that failed after it was made: %+v, %v", got, err)
	}
	after = false
	if err := r.Delete(t.Context(), alpha, task.ID); err != nil {
		t.Fatal(err)
	}
	submit := Call{Node: alpha, Method: MethodSubmit, TaskType: "endless", Params: task.Params, TaskID: task.ID}
	if diff := cmp.Diff([]Call{submit, submit, {Node: alpha, Method: MethodDelete, TaskID: task.ID}}, calls); diff != "" {
		t.Error(diff)
	}
}

// A pod address that was given to somebody else must not lead the operator anywhere.
func TestARedirectIsNotFollowed(t *testing.T) {
	n := &network{}
	followed := false
	elsewhere, endElsewhere := n.serve("elsewhere", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	defer endElsewhere()
	address, end := n.serve("alpha", http.RedirectHandler(elsewhere, http.StatusFound))
	defer end()
	r := newRig(t, n.transport())
	r.Follow(target(alpha, address))
	view := r.until(t, alpha, "the refusal", func(v View) bool { return v.Problem != problemNew })
	r.end()
	if followed || view.Problem != "something that is not a sidecar answers at the pod's address, with HTTP 302" {
		t.Errorf("followed: %t, the view is %+v", followed, view)
	}
}
