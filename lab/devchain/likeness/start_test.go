package likeness

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sei-operator/sei-operator/lab/devchain/chain"
	"github.com/sei-operator/sei-operator/lab/devchain/home"
)

func digits(n int64) string { return strconv.FormatInt(n, 10) }

// seid runs a command to its end.
func seid(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), v1, args...)
	var out, failed strings.Builder
	command.Stdout, command.Stderr = &out, &failed
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), out.String(), failed.String()
}

func TestVersionCreatesTheConfiguration(t *testing.T) {
	t.Parallel()
	dir := home.Dir(t.TempDir())
	if code, out, _ := seid(t, "version", "--home", string(dir)); code != 0 || out != "v1\n" {
		t.Errorf("%d, %q", code, out)
	}
	for _, name := range []string{"config.toml", "app.toml", "client.toml"} {
		if _, err := os.Stat(dir.Config(name)); err != nil {
			t.Error(err)
		}
	}
}

func TestInit(t *testing.T) {
	t.Parallel()
	dir := home.Dir(filepath.Join(t.TempDir(), "home"))
	args := []string{"init", "m", "--chain-id", "loop-1", "--mode", "validator", "--home", string(dir)}
	if code, out, failed := seid(t, args...); code != 0 || out != "" || !strings.Contains(failed, `"chain_id": "loop-1"`) {
		t.Fatalf("%d, %q, %q", code, out, failed)
	}
	for path, mode := range map[string]fs.FileMode{
		dir.Config("client.toml"): 0o600, dir.Config("app.toml"): 0o600, dir.Config("config.toml"): 0o644,
		dir.Genesis(): 0o644, dir.Config("node_key.json"): 0o600, dir.Config("priv_validator_key.json"): 0o600,
		dir.Config("node_pubkey.txt"): 0o600, dir.Config("validator_pubkey.txt"): 0o600, dir.SignState(): 0o600,
		dir.Config(""): fs.ModeDir | 0o750,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if code, _, failed := seid(t, args...); code != 1 || !strings.Contains(failed, "use the --overwrite flag") {
		t.Errorf("a second time: %d, %s", code, failed)
	}
	if code, _, _ := seid(t, "init", "m", "--home", t.TempDir()); code != 2 {
		t.Errorf("without a chain id: %d", code)
	}
	if code, _, failed := seid(t, "init", "m", "--chain-id", "loop-1", "--mode", "foo", "--home", t.TempDir()); code != 1 ||
		!strings.Contains(failed, "invalid node mode: foo (valid modes: validator, full, seed, archive)") {
		t.Errorf("an unknown mode: %d, %s", code, failed)
	}
}

// What a node does not start with, and how it says so.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	remove := func(path func(home.Dir) string) func(*testing.T, *chain.Node) {
		return func(t *testing.T, n *chain.Node) {
			t.Helper()
			if err := os.Remove(path(n.Home)); err != nil {
				t.Fatal(err)
			}
		}
	}
	config := func(key, value string) func(*testing.T, *chain.Node) {
		return func(t *testing.T, n *chain.Node) {
			t.Helper()
			configure(t, n, map[string]string{key: value}, nil)
		}
	}
	taken := func(number string) func(*testing.T, *chain.Node) {
		return func(t *testing.T, n *chain.Node) {
			t.Helper()
			var listen net.ListenConfig
			listener, err := listen.Listen(t.Context(), "tcp", port(n, number))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = listener.Close() })
		}
	}
	for name, one := range map[string]struct {
		spoil func(*testing.T, *chain.Node)
		code  int
		text  string
	}{
		"syntax":            {config("moniker", `"`), 1, "While parsing config: "},
		"wrong type":        {config("rpc.max-open-connections", `"many"`), 1, "decoding failed due to the following error(s):"},
		"unknown mode":      {config("mode", `"sentry"`), 1, `error creating node: "sentry" is not a valid mode`},
		"archive mode":      {config("mode", `"archive"`), 1, `error creating node: "archive" is not a valid mode`},
		"unknown database":  {config("db-backend", `"nosuch"`), 1, "unknown db_backend nosuch"},
		"unknown level":     {config("log-level", `"chatty"`), 1, "failed to parse log level (chatty)"},
		"peer without id":   {config("p2p.persistent-peers", `"host:1"`), 1, "invalid peer address"},
		"no genesis":        {remove(home.Dir.Genesis), 2, "panic: "},
		"no sign state":     {remove(home.Dir.SignState), 1, "error creating node: "},
		"RPC port is taken": {taken("26657"), 1, "address already in use"},
		"P2P port is taken": {taken("26656"), 2, "panic: critical task failed: name=Run, service=router: acceptPeers"},
		"genesis of another": {func(t *testing.T, n *chain.Node) {
			t.Helper()
			if err := os.WriteFile(n.Home.Config("client.toml"), []byte(`chain-id = "other-1"`), 0o600); err != nil {
				t.Fatal(err)
			}
		}, 2, "panic: genesis file chain-id=loop-1 does not equal config.toml chain-id=other-1"},
		"torn sign state": {func(t *testing.T, n *chain.Node) {
			t.Helper()
			if err := os.WriteFile(n.Home.SignState(), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, 1, "error reading PrivValidator state from"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, n := newSole(t)
			one.spoil(t, n)
			ends(t, start(t, n, v1), one.code, one.text)
		})
	}
}

// A second process on the same home ends, and the first is unharmed. After a clean stop
// and after a kill the node goes on where it was.
func TestOneProcessForAHome(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	first := start(t, n, v1)
	status := untilHeight(t, n, 2)
	second := start(t, n, v1)
	ends(t, second, 2, "panic: failed to initialize database: resource temporarily unavailable")
	untilSignals(t, n, 1)
	until(t, "the first goes on", func(ctx context.Context) bool {
		now, err := n.Status(ctx)
		return err == nil && now.Height > status.Height
	})
	signal(t, first, syscall.SIGTERM)
	ends(t, first, 0)
	p := start(t, n, v1)
	now := untilHeight(t, n, status.Height+2)
	signal(t, p, syscall.SIGKILL)
	ends(t, p, 137)
	start(t, n, v1)
	untilHeight(t, n, now.Height+1)
}

// A node that does not exchange peers stops as cleanly as another.
func TestCleanStopWithoutPEX(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	configure(t, n, map[string]string{"p2p.pex": "false"}, nil)
	p := start(t, n, v1)
	untilSignals(t, n, 1)
	signal(t, p, syscall.SIGTERM)
	ends(t, p, 0)
}

// Answers of the RPC: bare for a GET, in an envelope for a POST, errors with HTTP 200.
func TestRPCShapes(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	configure(t, n, map[string]string{"mode": `"validator"`}, nil)
	start(t, n, v1)
	untilHeight(t, n, 2)
	for path, want := range map[string]struct {
		code  int
		parts []string
	}{
		"/status":                {200, []string{`"node_info":{`, `"network":"loop-1"`, `"catching_up":false`, `"last_committed_block_height":"`, `"voting_power":"7000000000"`, `"application_info":{"version":"0"}`, `"rpc_address":"tcp://` + port(n, "26657")}},
		"/health":                {200, []string{"{}"}},
		"/lag_status":            {200, []string{`"lag":"0"`, `"max_peer_height":"0"`}},
		"/net_info":              {200, []string{`"listening":true`, `"n_peers":"0"`, `"peers":null`, `"peer_connections":null`}},
		"/abci_info":             {200, []string{`"data":"sei"`, `"version":"v1"`, `"minimum_gas_prices":"0.01usei"`}},
		"/block?height=1":        {200, []string{`"block_id":{"hash":"`, `"height":"1"`}},
		"/validators":            {200, []string{`"total":"1"`}},
		"/block?height=99999999": {200, []string{`"code":-32603`, `"message":"Internal error"`, "height must be less than or equal"}},
		"/block?height=x":        {200, []string{`"code":-32602`, `"message":"Invalid params"`}},
		"/nosuch":                {404, []string{"404 page not found"}},
	} {
		code, body := get(t.Context(), t, n.RPC()+path)
		if code != want.code || strings.Contains(body, "jsonrpc") || strings.Contains(body, "light_client_info") {
			t.Errorf("%s: %d %s", path, code, body)
		}
		for _, part := range want.parts {
			if !strings.Contains(body, part) {
				t.Errorf("%s has no %s: %s", path, part, body)
			}
		}
	}
}
