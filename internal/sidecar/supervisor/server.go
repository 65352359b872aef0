package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// maxBody bounds a request.
	maxBody = 16 << 10
	// writeTimeout is how long a reader may take one line of a watch.
	writeTimeout = 10 * time.Second
)

// serve answers requests until the function it returns is called, which waits for
// answers under way and for watchers to read the last state.
func (s *Supervisor) serve(ctx context.Context, listener net.Listener) (end func()) {
	server := &http.Server{
		Handler:           s.handler(),
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ReadHeaderTimeout: writeTimeout,
		MaxHeaderBytes:    maxBody,
	}
	s.work.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.cfg.Log.Error("the socket is closed", "error", err)
		}
	})
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Timing.Flush)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // Whoever reads so slowly has had its time.
		}
	}
}

func (s *Supervisor) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, s.current()) })
	mux.HandleFunc("GET /watch", s.watch)
	mux.HandleFunc("POST /start", act(s.start))
	mux.HandleFunc("POST /stop", act(s.stop))
	mux.HandleFunc("POST /restart", act(s.restart))
	return mux
}

// act turns a request into a call and its outcome into an answer.
func act[R any](do func(context.Context, R) (State, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request R
		if err := decode(http.MaxBytesReader(w, r.Body, maxBody), &request); err != nil {
			reply(w, http.StatusBadRequest, refuse(ReasonInvalid, "the request is not valid: %v", err))
			return
		}
		state, err := do(r.Context(), request)
		refusal, refused := errors.AsType[*Error](err)
		switch {
		case err == nil:
			reply(w, http.StatusOK, state)
		case refused && refusal.Reason == ReasonTerminating:
			reply(w, http.StatusServiceUnavailable, refusal)
		case refused:
			reply(w, http.StatusConflict, refusal)
		default:
			// The caller went away, so nobody reads this.
			reply(w, http.StatusServiceUnavailable, refuse(ReasonUnreachable, "%v", err))
		}
	}
}

// decode reads exactly one document with known fields. No body is an empty
// document.
func decode(body io.Reader, into any) error {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one document")
	}
	return nil
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // A caller that is gone needs no answer.
}

// watch writes the state, and again whenever it changed, one document per line.
// A slow reader misses states in between but never the last: what matters of
// those it missed is in lastExit, instance and the counters.
func (s *Supervisor) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	control := http.NewResponseController(w)
	encoder := json.NewEncoder(w)
	for last := false; ; {
		state, changed := s.snapshot()
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
		if encoder.Encode(state) != nil || control.Flush() != nil || last {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-s.closing:
			// The state may have changed in the same moment.
			select {
			case <-changed:
				last = true
			default:
				return
			}
		}
	}
}
