package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/server"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const uid = "5f0c7c1e-0000-4000-8000-000000000001"

// fakeNode is a node whose state a test sets.
type fakeNode struct {
	mu      sync.Mutex
	node    server.Node
	changed chan struct{}
}

func (f *fakeNode) Node() server.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.node
}

func (f *fakeNode) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

func (f *fakeNode) set(change func(*server.Node)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.node)
	close(f.changed)
	f.changed = make(chan struct{})
}

// rig is a sidecar without a node.
type rig struct {
	*server.Server
	consent *consent.Consent
	engine  *engine.Engine
	store   *store.Store
	bus     *server.Bus
	node    *fakeNode
	// slow tasks say when they begin, and end when they are told.
	entered chan uuid.UUID
	leave   chan struct{}
}

type settings struct {
	dir   string // of the store
	ring  int
	clock clock.WithTickerAndDelayedExecution
	adapt func(*server.Options)
}

type echoParams struct {
	Text   string      `json:"text"`
	Number json.Number `json:"number,omitempty"`
}

func newRig(tb testing.TB, s settings) *rig {
	tb.Helper()
	r := &rig{
		bus: server.NewBus(s.ring), node: &fakeNode{changed: make(chan struct{})},
		entered: make(chan uuid.UUID, 100), leave: make(chan struct{}),
	}
	if s.dir == "" {
		s.dir = tb.TempDir()
	}
	var err error
	check := func() {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	r.consent, err = consent.Open(tb.TempDir(), uid, nil)
	check()
	r.store, err = store.Open(s.dir, store.Options{})
	check()
	registry := prometheus.NewRegistry()
	r.engine, err = engine.New(engine.Options{
		Store: r.store, Notify: r.bus.Task, Registerer: registry,
		Definitions: []engine.Definition{
			{
				Type: "echo", Deadline: maxTime, Decode: engine.Strict[echoParams],
				Run: engine.Typed(func(_ context.Context, _ engine.Execution, p echoParams) (any, error) {
					if p.Text == "fail" {
						return p, engine.Retryable("Refused", "asked to fail")
					}
					return p, nil
				}),
			},
			{
				Type: "slow", Deadline: maxTime, Decode: engine.Strict[struct{}],
				Run: func(ctx context.Context, x engine.Execution) (any, error) {
					r.entered <- x.ID()
					select {
					case <-r.leave:
						return nil, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				},
			},
		},
	})
	check()
	r.engine.Resume(tb.Context())
	options := server.Options{
		NodeUID: uid, Engine: r.engine, Consent: r.consent, Node: r.node, Bus: r.bus, Gatherer: registry, Clock: s.clock,
		Problems: func() []api.Problem {
			var found []api.Problem
			for _, p := range r.store.Problems() {
				found = append(found, api.Problem{Reason: p.Reason, Message: p.Message})
			}
			return found
		},
	}
	if s.adapt != nil {
		s.adapt(&options)
	}
	r.Server, err = server.New(options)
	check()
	tb.Cleanup(func() {
		if err := r.engine.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
		if err := r.store.Close(); err != nil {
			tb.Error(err)
		}
	})
	return r
}

// do sends a request as the operator would.
func (r *rig) do(tb testing.TB, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	tb.Helper()
	request := httptest.NewRequestWithContext(tb.Context(), method, path, strings.NewReader(body))
	request.Header.Set(api.NodeUIDHeader, uid)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Del(headers[i])
		if headers[i+1] != "" {
			request.Header.Set(headers[i], headers[i+1])
		}
	}
	answer := httptest.NewRecorder()
	r.Handler().ServeHTTP(answer, request)
	return answer
}

func decode[T any](tb testing.TB, body io.Reader) T {
	tb.Helper()
	var v T
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		tb.Fatal(err)
	}
	return v
}

func (r *rig) submit(tb testing.TB, body string) uuid.UUID {
	tb.Helper()
	answer := r.do(tb, http.MethodPost, "/v0/tasks", body)
	if answer.Code != http.StatusCreated {
		tb.Fatalf("%d %s", answer.Code, answer.Body)
	}
	return decode[api.TaskSubmitted](tb, answer.Body).ID
}
