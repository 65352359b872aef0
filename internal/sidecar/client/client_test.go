package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/client"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/server"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const uid = "uid-1"

type node struct{}

func (node) Node() server.Node {
	return server.Node{NodeID: "node", Seid: api.Seid{State: api.SeidRunning}}
}
func (node) Changed() <-chan struct{} { return nil }

type sidecar struct {
	url     string
	consent *consent.Consent
	leave   chan struct{}
}

// start runs a whole sidecar, but for its node.
func start(tb testing.TB) *sidecar {
	tb.Helper()
	s := &sidecar{leave: make(chan struct{})}
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
	tasks, err := engine.New(engine.Options{Store: kept, Notify: bus.Task, Definitions: []engine.Definition{
		{
			Type: "quick", Deadline: time.Hour, Decode: engine.Strict[map[string]json.Number],
			Run: func(_ context.Context, x engine.Execution) (any, error) { return x.Payload(), nil },
		},
		{
			Type: "slow", Deadline: time.Hour, Decode: engine.Strict[struct{}],
			Run: func(ctx context.Context, _ engine.Execution) (any, error) {
				select {
				case <-s.leave:
					return nil, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			},
		},
	}})
	check()
	tasks.Resume(tb.Context())
	answers, err := server.New(server.Options{
		NodeUID: uid, Engine: tasks, Consent: s.consent, Node: node{}, Bus: bus, Gatherer: prometheus.NewRegistry(),
	})
	check()
	listener := httptest.NewServer(answers.Handler())
	s.url = listener.URL
	tb.Cleanup(func() {
		listener.Close()
		_ = tasks.Close(context.WithoutCancel(tb.Context()))
		_ = kept.Close()
	})
	return s
}

func dial(tb testing.TB, url, uid string) *client.Client {
	tb.Helper()
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(client.Options{BaseURL: url, HTTPClient: &http.Client{Transport: transport}, NodeUID: uid})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestATaskOverTheNetwork(t *testing.T) {
	c, ctx := dial(t, start(t).url, uid), t.Context()
	request := api.TaskRequest{ID: uuid.New(), Type: "quick", Params: json.RawMessage(`{"n":9007199254740993}`)}
	for range 2 {
		id, err := c.Submit(ctx, request)
		must(t, err)
		if id != request.ID {
			t.Fatalf("the task is %s", id)
		}
	}
	got, err := c.Wait(ctx, request.ID, 30*time.Second)
	must(t, err)
	if got.Status != api.TaskCompleted || string(got.Result) != `{"n":9007199254740993}` {
		t.Fatalf("it became %+v", got)
	}
	request.Params = json.RawMessage(`{"n":1}`)
	if _, err := c.Submit(ctx, request); client.Reason(err) != api.ReasonIDConflict || client.NotFound(err) {
		t.Errorf("another payload: %v", err)
	}
}

func TestTasksAreListedAndDeleted(t *testing.T) {
	c, ctx := dial(t, start(t).url, uid), t.Context()
	slow, err := c.Submit(ctx, api.TaskRequest{Type: "slow"})
	must(t, err)
	got, err := c.Get(ctx, slow)
	must(t, err)
	if got.ID != slow || got.Status != api.TaskRunning {
		t.Errorf("it is %+v", got)
	}
	all, err := c.List(ctx)
	must(t, err)
	if len(all) != 1 || all[0].ID != slow {
		t.Errorf("the list is %+v", all)
	}
	must(t, c.Delete(ctx, slow))
	if _, err := c.Get(ctx, slow); !client.NotFound(err) {
		t.Errorf("of a task that is gone: %v", err)
	}
	if err := c.Delete(ctx, slow); !client.NotFound(err) {
		t.Errorf("of a task that is gone: %v", err)
	}
}

func TestTheNodeOverTheNetwork(t *testing.T) {
	s := start(t)
	c, ctx := dial(t, s.url, uid), t.Context()
	if err := c.Healthz(ctx); client.Reason(err) != api.ReasonNotApproved {
		t.Errorf("health: %v", err)
	}
	must(t, s.consent.Approve("key", "node", 0))
	must(t, c.Healthz(ctx))
	got, err := c.Status(ctx)
	must(t, err)
	if !got.Approved || got.Status != api.StatusReady || got.Seid.State != api.SeidRunning {
		t.Errorf("the status is %+v", got)
	}
	id, err := c.NodeID(ctx)
	must(t, err)
	if id != "node" {
		t.Errorf("the node id is %q", id)
	}
}

func TestTheSidecarOfAnotherNode(t *testing.T) {
	s := start(t)
	c, ctx := dial(t, s.url, "uid-2"), t.Context()
	for name, call := range map[string]func() error{
		"submit":  func() error { _, err := c.Submit(ctx, api.TaskRequest{Type: "slow"}); return err },
		"get":     func() error { _, err := c.Get(ctx, uuid.New()); return err },
		"delete":  func() error { return c.Delete(ctx, uuid.New()) },
		"status":  func() error { _, err := c.Status(ctx); return err },
		"node id": func() error { _, err := c.NodeID(ctx); return err },
		"health":  func() error { return c.Healthz(ctx) },
		"events": func() error {
			for _, err := range c.Events(ctx, "") {
				return err
			}
			return nil
		},
	} {
		e, ok := errors.AsType[*client.Error](call())
		if !ok || e.StatusCode != http.StatusMisdirectedRequest || e.Reason != api.ReasonWrongNode || !e.Retryable {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// answers serves the same to everybody.
func answers(t *testing.T, status int, kind, body string) *client.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return dial(t, s.URL, uid)
}

func TestAnswersOfSomethingElse(t *testing.T) {
	for name, c := range map[string]struct {
		status    int
		body      string
		retryable bool
	}{
		"a page":              {404, "<html>not here</html>", false},
		"nothing":             {404, "", false},
		"another JSON":        {404, `{"message":"no"}`, false},
		"a proxy in trouble":  {502, "bad gateway", true},
		"a proxy that limits": {429, "slow down", true},
		"a proxy that denies": {403, "Forbidden", false},
	} {
		_, err := answers(t, c.status, "text/html", c.body).Get(t.Context(), uuid.New())
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.StatusCode != c.status || e.Reason != "UnexpectedAnswer" || e.Retryable != c.retryable {
			t.Errorf("%s: %v", name, err)
		}
		// Nobody may take this for "there is no such task" and submit it again.
		if client.NotFound(err) {
			t.Errorf("%s is taken for a task that is not there", name)
		}
	}
	if _, err := answers(t, 200, "application/json", "{").Status(t.Context()); err == nil {
		t.Error("half an answer was understood")
	}
	if _, err := answers(t, 200, "application/json", strings.Repeat(" ", 33<<20)).Status(t.Context()); err == nil {
		t.Error("an answer without an end was read")
	}
}

func TestEvents(t *testing.T) {
	c := dial(t, start(t).url, uid)
	submit := func(params string) {
		t.Helper()
		_, err := c.Submit(t.Context(), api.TaskRequest{Type: "quick", Params: json.RawMessage(params)})
		must(t, err)
	}
	take := func(lastID string, count int, begun func()) (events []client.Event) {
		t.Helper()
		for e, err := range c.Events(t.Context(), lastID) {
			must(t, err)
			if events = append(events, e); len(events) == 1 {
				begun()
			}
			if len(events) == count {
				break
			}
		}
		return events
	}
	first := take("", 3, func() { submit(`{"n":1}`) })
	submit(`{"n":2}`)
	second := take(first[2].ID, 2, func() {}) // the next stream goes on behind the last
	var kinds []api.EventKind
	for _, e := range append(first, second...) {
		kinds = append(kinds, e.Kind)
	}
	if want := []api.EventKind{api.EventReset, api.EventTask, api.EventTask, api.EventTask, api.EventTask}; !slices.Equal(kinds, want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
	var task api.TaskEvent
	must(t, json.Unmarshal(first[2].Data, &task))
	if task.Status != api.TaskCompleted {
		t.Errorf("the last event is %s", first[2].Data)
	}
}

func TestEventsEndWithTheirContext(t *testing.T) {
	c := dial(t, start(t).url, uid)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, last = range c.Events(ctx, "") {
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("they ended with %v", last)
	}
}

func TestStreamsThatAreNone(t *testing.T) {
	const kind = "text/event-stream; charset=utf-8"
	for name, c := range map[string]struct {
		kind, body string
		want       error
		events     int
	}{
		"another type":             {"text/html", "data: 1\n\n", client.ErrStreamMalformed, 0},
		"an end at once":           {kind, "", client.ErrStreamEnded, 0},
		"an end in an event":       {kind, "data: 1\n\nid: 2\ndata: 2\n", client.ErrStreamEnded, 1},
		"comments and empty lines": {kind, ":\n\n:hello\r\n\r\n\n\nid: 1\n\nretry: 5\ndata:1\n\n", client.ErrStreamEnded, 1},
		"data on two lines":        {kind, "data: [1,\ndata: 2]\n\n", client.ErrStreamEnded, 1},
		"data that is no JSON":     {kind, "data: hello\n\n", client.ErrStreamMalformed, 0},
		"no data":                  {kind, "data\n\n", client.ErrStreamMalformed, 0},
		"a line too long":          {kind, "data: 1\n\ndata: " + strings.Repeat("1", 70000) + "\n\n", client.ErrStreamMalformed, 1},
		"an event too long":        {kind, strings.Repeat("data: "+strings.Repeat("1", 60000)+"\n", 20) + "\n", client.ErrStreamMalformed, 0},
		"a comment too long":       {kind, ":" + strings.Repeat("1", 70000), client.ErrStreamMalformed, 0},
	} {
		var last error
		events := 0
		for _, err := range answers(t, 200, c.kind, c.body).Events(t.Context(), "") {
			if last = err; err == nil {
				events++
			}
		}
		if !errors.Is(last, c.want) || events != c.events {
			t.Errorf("%s: %d events, then %v", name, events, last)
		}
	}
}

// silence is a network that accepts a call and never says another word.
type silence struct{ said string }

func (s silence) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.said == "" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	body, writer := io.Pipe()
	go func() {
		_, _ = io.WriteString(writer, s.said)
		<-r.Context().Done()
		_ = writer.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, Request: r}, nil
}

func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New(client.Options{BaseURL: "http://sidecar", HTTPClient: &http.Client{Transport: silence{}}, NodeUID: uid})
		if err != nil {
			t.Fatal(err)
		}
		for name, call := range map[string]struct {
			do   func(context.Context) error
			want time.Duration
		}{
			"status": {func(ctx context.Context) error { _, err := c.Status(ctx); return err }, 10 * time.Second},
			"wait":   {func(ctx context.Context) error { _, err := c.Wait(ctx, uuid.New(), 30*time.Second); return err }, 40 * time.Second},
			"within the caller's time": {func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_, err := c.Status(ctx)
				return err
			}, time.Second},
		} {
			begin := time.Now()
			if err := call.do(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != call.want {
				t.Errorf("%s: %v after %s", name, err, time.Since(begin))
			}
		}
		for _, said := range []string{"", ":\n\n", "data: 1\n\n"} {
			c, err := client.New(client.Options{BaseURL: "http://sidecar", HTTPClient: &http.Client{Transport: silence{said}}, NodeUID: uid})
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			var last error
			for _, last = range c.Events(t.Context(), "") {
			}
			if !errors.Is(last, client.ErrStreamSilent) || time.Since(begin) != 45*time.Second {
				t.Errorf("after %q: %v after %s", said, last, time.Since(begin))
			}
		}
	})
}

func TestIncompleteOptions(t *testing.T) {
	for _, o := range []client.Options{{}, {BaseURL: "http://a", NodeUID: uid}, {BaseURL: "http://a", HTTPClient: &http.Client{}}} {
		if _, err := client.New(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// The proxy in front of a sidecar asks about what the header says, so every call says
// what it does.
func TestEveryCallSaysWhatItDoes(t *testing.T) {
	var did []string
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		did = append(did, r.Method+" "+strings.Join(r.Header.Values(api.ActionHeader), "+"))
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"id":"5f0c7c1e-0000-4000-8000-000000000001"}`)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case strings.HasPrefix(r.URL.Path, "/v0/tasks/"):
			_, _ = io.WriteString(w, `{"type":"hold"}`)
		case r.URL.Path == "/v0/tasks":
			_, _ = io.WriteString(w, `[]`)
		default:
			_, _ = io.WriteString(w, `{}`)
		}
	}))
	defer listener.Close()
	httpClient := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	c, err := client.New(client.Options{BaseURL: listener.URL, HTTPClient: httpClient, NodeUID: uid})
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.New()
	_, submitErr := c.Submit(t.Context(), api.TaskRequest{ID: id, Type: "restart-seid"})
	_, getErr := c.Get(t.Context(), id)
	_, listErr := c.List(t.Context())
	_, statusErr := c.Status(t.Context())
	_, nodeIDErr := c.NodeID(t.Context())
	if err := errors.Join(submitErr, getErr, listErr, statusErr, nodeIDErr, c.Healthz(t.Context()), c.Delete(t.Context(), id)); err != nil {
		t.Error(err)
	}
	for range c.Events(t.Context(), "") { // it is not a stream, and ends at once
	}
	want := []string{
		"POST restart-seid", "GET sidecar", "GET sidecar", "GET sidecar", "GET sidecar", "GET sidecar",
		"GET sidecar", "DELETE hold", "GET sidecar",
	}
	if !slices.Equal(did, want) {
		t.Errorf("the calls said %q", did)
	}
}
