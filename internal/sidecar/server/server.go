// Package server is the HTTP API of the sidecar: it joins the engine, the consent
// and what is known of the node.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 32 << 10

	maxWait   = 60 * time.Second
	heartbeat = 15 * time.Second
)

// Node is what is known of the node and its process.
type Node struct {
	Seid             api.Seid
	Upgrade          api.Upgrade
	Config           api.Config
	NodeID           string // empty: not known, and NodeIDProblem says why
	NodeIDProblem    string
	SigningPublicKey string
	SignHeight       *int64
	SignGuard        api.SignGuard
	Height           int64
	FreeBytes        int64
	TotalBytes       int64
	Problems         []api.Problem
}

// NodeView knows the node. It answers from memory.
type NodeView interface {
	Node() Node
	// Changed returns a channel that is closed at the next change of Node().Seid.
	Changed() <-chan struct{}
}

// Options make a server.
type Options struct {
	// NodeUID is that of the SeiNode this sidecar serves.
	NodeUID string
	Engine  *engine.Engine
	Consent *consent.Consent
	Node    NodeView
	// Bus is the one that the engine notifies.
	Bus      *Bus
	Gatherer prometheus.Gatherer
	// AccessControl says that only the access proxy can call. It says in headers who
	// calls and what it has checked; without a proxy they say nothing.
	AccessControl bool
	// Problems tells what else is wrong, the store for example; may be nil.
	Problems func() []api.Problem
	Clock    clock.WithTickerAndDelayedExecution // default: the real one
	Log      *slog.Logger                        // default: none
	// Grace is how long calls may take to end at a shutdown; default 10 s.
	Grace time.Duration
	// StallTimeout is how long a reader of events may take nothing before it is cut
	// off; default 10 s.
	StallTimeout time.Duration
}

// Server is the HTTP API.
type Server struct {
	opts     Options
	handler  http.Handler
	metrics  http.Handler
	readers  readers
	stopping chan struct{}
	stopOnce sync.Once
}

var _ api.ServerInterface = (*Server)(nil)

// New makes a server.
func New(o Options) (*Server, error) {
	if o.NodeUID == "" || o.Engine == nil || o.Consent == nil || o.Node == nil || o.Bus == nil || o.Gatherer == nil {
		return nil, errors.New("a server needs the uid of its node, an engine, a consent, a view of the node, a bus and metrics")
	}
	if o.Problems == nil {
		o.Problems = func() []api.Problem { return nil }
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	if o.StallTimeout == 0 {
		o.StallTimeout = 10 * time.Second
	}
	s := &Server{
		opts:     o,
		metrics:  promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{}),
		stopping: make(chan struct{}),
	}
	mux := http.NewServeMux()
	api.HandlerWithOptions(s, api.StdHTTPServerOptions{BaseRouter: mux, ErrorHandlerFunc: badParameter})
	s.handler = s.forThisNode(s.guardReads(withJSONErrors(mux)))
	return s, nil
}

// Handler answers the calls.
func (s *Server) Handler() http.Handler { return s.handler }

// Run serves until the context ends, and then lets calls end. Streams and long polls
// end at once.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelWarn),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Before the first call: a reader that was told to read everything must not miss
	// what changes after it did.
	watch := s.watcher()
	var watching sync.WaitGroup
	watching.Go(func() { watch(ctx) })
	defer watching.Wait()

	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		s.stopOnce.Do(func() { close(s.stopping) })
		cancel()
		return errors.Join(fmt.Errorf("serve the API: %w", err), server.Close())
	case <-ctx.Done():
	}
	s.stopOnce.Do(func() { close(s.stopping) })
	grace, release := context.WithTimeout(context.WithoutCancel(ctx), s.opts.Grace)
	defer release()
	err := server.Shutdown(grace)
	if err != nil {
		err = errors.Join(fmt.Errorf("calls did not end in time: %w", err), server.Close())
	}
	<-served
	return err
}

// forThisNode refuses calls that are meant for another node: the IP address of a
// pod is soon that of another, and nobody may approve or hold the wrong node.
func (s *Server) forThisNode(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		named := r.Header.Values(api.NodeUIDHeader)
		for _, uid := range named {
			if uid != s.opts.NodeUID {
				refuse(w, http.StatusMisdirectedRequest, api.ReasonWrongNode, true, "this is the sidecar of another node; look up the address of the pod again")
				return
			}
		}
		if len(named) == 0 && !reads(r) {
			refuse(w, http.StatusPreconditionRequired, api.ReasonNodeUIDRequired, false, "a call that changes something has to name its node in the header "+api.NodeUIDHeader)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withJSONErrors gives the mux's own answers the shape of all others.
func withJSONErrors(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		answer := &statusOnly{header: w.Header()}
		handler.ServeHTTP(answer, r)
		if answer.status == http.StatusMethodNotAllowed {
			refuse(w, answer.status, api.ReasonMethodNotAllowed, false, r.Method+" is not allowed here")
			return
		}
		refuse(w, http.StatusNotFound, api.ReasonNotFound, false, "there is nothing at this path")
	})
}

// statusOnly keeps the status and the headers of an answer.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }
