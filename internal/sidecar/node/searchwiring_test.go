package node

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/signer"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// pipes is where a supervisor in memory listens.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p pipes) dial(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p <- theirs
	return ours, nil
}

// TestASearchInVainIsStopped: what is decided about a search reaches the supervisor, in
// time, about this seid alone, and never by force. A held node is left to those who stop it.
func TestASearchInVainIsStopped(t *testing.T) {
	for name, held := range map[string]bool{"it is to run": false, "it is held": true} {
		t.Run(name, func(t *testing.T) {
			home, dir := seid.Home(t.TempDir()), t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				state := supervisor.State{State: supervisor.Starting, PID: 7, Instance: "a", SnapshotSearch: &began, SafeToStop: true}
				var stops []supervisor.StopRequest
				var stopped time.Duration
				mux := http.NewServeMux()
				mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(state) })
				mux.HandleFunc("POST /stop", func(w http.ResponseWriter, r *http.Request) {
					var request supervisor.StopRequest
					if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
						t.Error(err)
					}
					stops, stopped = append(stops, request), time.Since(began)
					_ = json.NewEncoder(w).Encode(supervisor.State{State: supervisor.Stopped})
				})
				listener := make(pipes)
				server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Hour}
				go func() { _ = server.Serve(listener) }()

				may, err := consent.Open(dir, "uid", nil)
				if err == nil {
					err = may.Approve("", "id", 0)
				}
				if err == nil && held {
					err = may.Hold("task", "test", 1)
				}
				if err != nil {
					t.Fatal(err)
				}
				rpc, err := seid.NewClient(&http.Client{Transport: &http.Transport{
					DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed },
				}}, "http://seid")
				if err != nil {
					t.Fatal(err)
				}
				n := New(Options{
					Home: home, Consent: may, Supervisor: supervisor.NewClientOver(listener.dial), RPC: rpc, HTTP: http.DefaultClient, Metrics: "none",
					Signer: signer.New(signer.Options{Home: home, Consent: may}),
				})
				n.connected, n.state = true, state
				ctx, cancel := context.WithTimeout(t.Context(), firstSearch+3*samplePeriod)
				defer cancel()
				n.keepSampling(ctx)
				close(listener)
				_ = server.Close()
				synctest.Wait()

				if held {
					if len(stops) != 0 {
						t.Errorf("stopped by %+v", stops)
					}
					return
				}
				if want := (supervisor.StopRequest{Instance: "a"}); len(stops) != 1 || stops[0] != want {
					t.Fatalf("stopped by %+v, want %+v", stops, want)
				}
				if stopped < firstSearch || stopped > firstSearch+2*samplePeriod {
					t.Errorf("stopped after %s", stopped)
				}
			})
		})
	}
}
