package probe

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/loopback"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

func TestMain(m *testing.M) {
	fakeseid.Main()
	goleak.VerifyTestMain(m)
}

func TestLive(t *testing.T) {
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v0/livez" || r.Method != http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(code)
	}))
	addr := server.Listener.Addr().String()
	if err := Live(t.Context(), addr, ""); err != nil {
		t.Error(err)
	}
	for _, code = range []int{http.StatusServiceUnavailable, http.StatusFound, http.StatusNoContent} {
		oneLine(t, Live(t.Context(), addr, ""))
	}
	server.Close()
	oneLine(t, Live(t.Context(), addr, ""))
	oneLine(t, Live(t.Context(), "not an address", ""))
}

// With access control the sidecar answers only who has the certificates.
func TestLiveBehindTheProxy(t *testing.T) {
	dir := t.TempDir()
	if err := loopback.Ensure(dir); err != nil {
		t.Fatal(err)
	}
	config, err := loopback.ServerConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Listener = tls.NewListener(server.Listener, config)
	server.Start()
	defer server.Close()
	addr := server.Listener.Addr().String()
	if err := Live(t.Context(), addr, dir); err != nil {
		t.Error(err)
	}
	oneLine(t, Live(t.Context(), addr, ""))
	oneLine(t, Live(t.Context(), addr, t.TempDir()))
}

func oneLine(t *testing.T, err error) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

// node runs a fake seid.
func node(t *testing.T) (*fakeseid.Process, Endpoints) {
	t.Helper()
	control := fakeseid.NewControl(t)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), fakeseid.Executable(t), "start")
	cmd.Env = control.Env()
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	host := fakeseid.Host(t)
	at := fakeseid.Addresses(host)
	return control.Next(t), Endpoints{RPC: at[fakeseid.RPC], P2P: at[fakeseid.P2P]}
}

func TestReady(t *testing.T) {
	p, at := node(t)
	oneLine(t, Ready(t.Context(), seid.ModeFullNode, at))

	p.Do(t, fakeseid.Open(fakeseid.RPC, at.RPC), fakeseid.Tell(fakeseid.Facts{Height: 100, MaxPeerHeight: 400}))
	for _, mode := range []seid.Mode{seid.ModeFullNode, seid.ModeValidator, seid.ModeArchive, seid.ModeReplayer} {
		if err := Ready(t.Context(), mode, at); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
	p.Do(t, fakeseid.Tell(fakeseid.Facts{Height: 99, MaxPeerHeight: 400}))
	err := Ready(t.Context(), seid.ModeFullNode, at)
	if oneLine(t, err); !strings.Contains(err.Error(), "301 blocks behind") {
		t.Error(err)
	}
}

func TestReadySeed(t *testing.T) {
	p, at := node(t)
	p.Do(t, fakeseid.Open(fakeseid.RPC, at.RPC))
	oneLine(t, Ready(t.Context(), seid.ModeSeed, at))
	p.Do(t, fakeseid.Open(fakeseid.P2P, at.P2P))
	if err := Ready(t.Context(), seid.ModeSeed, at); err != nil {
		t.Error(err)
	}
}

func TestReadyEndsWithItsContext(t *testing.T) {
	var config net.ListenConfig
	silent, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	oneLine(t, Ready(ctx, seid.ModeFullNode, Endpoints{RPC: silent.Addr().String()}))
}
