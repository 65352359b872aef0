package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/test/fakeseid"
)

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestRequestsThatAreNotValid(t *testing.T) {
	handler := New(Config{Socket: "s", Home: t.TempDir(), Command: []string{"/no/such/seid"}}).handler()
	for name, c := range map[string]struct {
		method, path, body string
		code               int
	}{
		"unknown path":        {http.MethodGet, "/nothing", "", http.StatusNotFound},
		"wrong method":        {http.MethodGet, "/start", "", http.StatusMethodNotAllowed},
		"not JSON":            {http.MethodPost, "/start", "start!", http.StatusBadRequest},
		"an array":            {http.MethodPost, "/start", "[]", http.StatusBadRequest},
		"unknown field":       {http.MethodPost, "/stop", `{"pid":"x"}`, http.StatusBadRequest},
		"unknown inner field": {http.MethodPost, "/restart", `{"approval":{"key":"x"}}`, http.StatusBadRequest},
		"two documents":       {http.MethodPost, "/stop", "{}{}", http.StatusBadRequest},
		"too large":           {http.MethodPost, "/stop", `{"instance":"` + strings.Repeat("x", maxBody) + `"}`, http.StatusBadRequest},
		"negative wait":       {http.MethodPost, "/stop", `{"safeWait":"-1s"}`, http.StatusBadRequest},
		"endless wait":        {http.MethodPost, "/stop", `{"safeWait":"100000h"}`, http.StatusBadRequest},
		"a number as wait":    {http.MethodPost, "/stop", `{"safeWait":5}`, http.StatusBadRequest},
		"no body":             {http.MethodPost, "/stop", "", http.StatusOK},
		"a wait":              {http.MethodPost, "/stop", `{"safeWait":"1m30s","force":true}`, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body)))
			if w.Code != c.code {
				t.Fatalf("answered %d %s", w.Code, w.Body)
			}
			if c.code == http.StatusBadRequest {
				var e Error
				if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Reason != ReasonInvalid || e.Message == "" {
					t.Errorf("answered %s", w.Body)
				}
			}
		})
	}
}

// Whatever a request's body is, the answer is a state or a typed error, and
// nothing of it makes the supervisor run something else.
func FuzzRequests(f *testing.F) {
	for _, body := range []string{"", "{}", `{"instance":"x","safeWait":"1s","force":true}`, `{"approval":{"publicKey":"a","nodeId":"b"}}`, "[]", "null", `{"safeWait":null}`, "{}{}", `{"SAFEWAIT":"1s"}`} {
		for path := range 3 {
			f.Add(path, body)
		}
	}
	home := f.TempDir()
	f.Fuzz(func(t *testing.T, path int, body string) {
		s := New(Config{Socket: filepath.Join(home, "s"), Home: home, Command: []string{"/no/such/seid"}})
		paths := []string{"/start", "/stop", "/restart"}
		w := httptest.NewRecorder()
		target := paths[uint(path)%uint(len(paths))]
		s.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(body)))
		switch w.Code {
		case http.StatusOK:
			var state State
			if err := json.Unmarshal(w.Body.Bytes(), &state); err != nil || state.State == "" {
				t.Errorf("%s %q: %s", target, body, w.Body)
			}
		case http.StatusBadRequest, http.StatusConflict, http.StatusServiceUnavailable:
			var e Error
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Reason == "" {
				t.Errorf("%s %q: %s", target, body, w.Body)
			}
		default:
			t.Errorf("%s %q: HTTP %d", target, body, w.Code)
		}
	})
}

func TestSocket(t *testing.T) {
	r := newRig(t)
	// What a killed supervisor leaves: a socket that nobody listens on.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: r.socket})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	r.run()
	info, err := os.Stat(r.socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}

	code, err := New(r.cfg).Run(t.Context())
	if code == 0 || !errors.Is(err, ErrInUse) {
		t.Fatalf("a second supervisor ended with %d, %v", code, err)
	}
	if _, err := r.client.State(t.Context()); err != nil {
		t.Fatalf("the second disturbed the first: %v", err)
	}
}

func TestWatchGoesOnWithTheNextSupervisor(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	events := make(chan string)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for state, err := range r.client.Watch(ctx) {
			text := string(state.State)
			if err != nil {
				text = string(reason(err))
			}
			select {
			case events <- text:
			case <-ctx.Done():
				return
			}
		}
	}()
	expect := func(want string) {
		t.Helper()
		if got := <-events; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	expect(string(ReasonUnreachable))
	r.run()
	expect(string(Waiting))
	_, p := r.start(Approval{})
	expect(string(Starting))
	p.Do(t, fakeseid.Exit(1))
	expect(string(Stopped))
	for got := range events {
		if got == string(ReasonUnreachable) {
			break
		}
	}
	r.end()
	r.run()
	expect(string(Waiting))
	cancel()
	<-done
}

func TestUnreachable(t *testing.T) {
	client := NewClient(filepath.Join(t.TempDir(), "s"))
	_, err := client.State(t.Context())
	if reason(err) != ReasonUnreachable || !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

func TestWatcherThatStopsReadingEndsNothing(t *testing.T) {
	r := newRig(t)
	r.cfg.Timing.Flush = time.Nanosecond
	r.run()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	r.signals <- terminating[0]
	if code := r.end(); code != 0 {
		t.Fatal(code)
	}
}

func TestRunNeedsItsConfig(t *testing.T) {
	if code, err := New(Config{}).Run(t.Context()); code == 0 || err == nil {
		t.Errorf("ended with %d, %v", code, err)
	}
	long := Config{Socket: filepath.Join(t.TempDir(), strings.Repeat("x", 120)), Home: t.TempDir(), Command: []string{"seid"}}
	if code, err := New(long).Run(t.Context()); code == 0 || err == nil {
		t.Errorf("ended with %d, %v", code, err)
	}
}
