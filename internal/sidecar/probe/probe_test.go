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
	"time"

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
func node(t *testing.T) (*fakeseid.Process, Node) {
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
	return control.Next(t), Node{RPC: at[fakeseid.RPC], P2P: at[fakeseid.P2P], Home: seid.Home(t.TempDir())}
}

// now is when all probes of these tests happen.
func now() time.Time { return time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC) }

func (n Node) as(mode seid.Mode) Node {
	n.Mode = mode
	return n
}

func TestReady(t *testing.T) {
	p, at := node(t)
	oneLine(t, Ready(t.Context(), at, now))
	following := fakeseid.Facts{ChainID: "sei", NodeID: "id", Height: 100, MaxPeerHeight: 400, Peers: 1, BlockTime: now()}
	p.Do(t, fakeseid.Open(fakeseid.RPC, at.RPC), fakeseid.Tell(following))
	for _, mode := range []seid.Mode{seid.ModeFullNode, seid.ModeValidator, seid.ModeArchive, seid.ModeReplayer} {
		if err := Ready(t.Context(), at.as(mode), now); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
	for what, c := range map[string]struct {
		facts func(*fakeseid.Facts)
		lacks string // empty: nothing
	}{
		"too far behind":                   {func(f *fakeseid.Facts) { f.Height = 99 }, "at height 99 the node is 301 blocks behind"},
		"no peer, nothing":                 {func(f *fakeseid.Facts) { *f = fakeseid.Facts{ChainID: "sei", NodeID: "id", CatchingUp: true} }, "height 0: seid has no block"},
		"a peer, and no block":             {func(f *fakeseid.Facts) { f.Height, f.MaxPeerHeight = 0, 0 }, "height 0: seid has no block"},
		"no peer":                          {func(f *fakeseid.Facts) { f.Peers, f.Known, f.MaxPeerHeight = 0, 3, 0 }, "no connection to a peer; 3 addresses known"},
		"the only validator":               {func(f *fakeseid.Facts) { f.Peers, f.Validator, f.Validators = 0, "A", []string{"A"} }, ""},
		"one of two validators":            {func(f *fakeseid.Facts) { f.Peers, f.Validator, f.Validators = 0, "A", []string{"A", "B"} }, "no connection"},
		"a node of another only validator": {func(f *fakeseid.Facts) { f.Peers, f.Validators = 0, []string{"A"} }, "no connection"},
		"behind, by not so many blocks":    {func(f *fakeseid.Facts) { f.BlockTime = now().Add(-432 * time.Second) }, "the last block is 7m12s old, peer height 400, own 100"},
		"the chain stands still":           {func(f *fakeseid.Facts) { f.BlockTime, f.MaxPeerHeight = now().Add(-time.Hour), 101 }, ""},
		"up after an hour, just connected": {func(f *fakeseid.Facts) { f.BlockTime, f.MaxPeerHeight = now().Add(-time.Hour), 0 }, "the last block is 1h0m0s old, and no peer or witness has told its height yet"},
		// It asks no peer for its height, and others follow it.
		"the only validator stands still": {func(f *fakeseid.Facts) {
			f.BlockTime, f.MaxPeerHeight, f.Validator, f.Validators = now().Add(-time.Hour), 0, "A", []string{"A"}
		}, ""},
	} {
		facts := following
		c.facts(&facts)
		p.Do(t, fakeseid.Tell(facts))
		err := Ready(t.Context(), at, now)
		if c.lacks == "" {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if oneLine(t, err); err != nil && !strings.Contains(err.Error(), c.lacks) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestWitnesses: when the last block is old, others of the chain are asked that seid's
// configuration names.
func TestWitnesses(t *testing.T) {
	p, at := node(t)
	facts := fakeseid.Facts{ChainID: "sei", NodeID: "id", Height: 100, MaxPeerHeight: 100, Peers: 1, BlockTime: now().Add(-time.Hour)}
	p.Do(t, fakeseid.Open(fakeseid.RPC, at.RPC), fakeseid.Tell(facts))
	witness, there := node(t)
	witness.Do(t, fakeseid.Open(fakeseid.RPC, there.RPC))
	if err := os.Mkdir(at.Home.ConfigDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	// One of them answers nothing, and another one is no address.
	config := "[statesync]\nrpc-servers = \"http://" + there.P2P + ", " + there.RPC + ",::\"\n"
	if err := os.WriteFile(at.Home.File(seid.ConfigTOML), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		tells fakeseid.Facts
		lacks string
	}{
		"as high":          {fakeseid.Facts{ChainID: "sei", NodeID: "id", Height: 101}, ""},
		"higher":           {fakeseid.Facts{ChainID: "sei", NodeID: "id", Height: 102}, "the last block is 1h0m0s old, witness height 102, own 100"},
		"of another chain": {fakeseid.Facts{ChainID: "other", NodeID: "id", Height: 102}, ""},
	} {
		witness.Do(t, fakeseid.Tell(c.tells))
		err := Ready(t.Context(), at, now)
		if c.lacks == "" && err != nil || c.lacks != "" && (err == nil || !strings.Contains(err.Error(), c.lacks)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Nobody is asked while the node follows the chain.
	witness.Do(t, fakeseid.Tell(fakeseid.Facts{ChainID: "sei", NodeID: "id", Height: 1000}))
	facts.BlockTime = now().Add(-5 * time.Minute)
	p.Do(t, fakeseid.Tell(facts))
	if err := Ready(t.Context(), at, now); err != nil {
		t.Errorf("with a recent block: %v", err)
	}
}

func TestReadySeed(t *testing.T) {
	p, at := node(t)
	at.Mode = seid.ModeSeed
	p.Do(t, fakeseid.Open(fakeseid.RPC, at.RPC))
	oneLine(t, Ready(t.Context(), at, now))
	p.Do(t, fakeseid.Open(fakeseid.P2P, at.P2P))
	if err := Ready(t.Context(), at, now); err != nil {
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
	oneLine(t, Ready(ctx, Node{RPC: silent.Addr().String()}, now))
}
