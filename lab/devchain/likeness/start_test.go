package likeness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/viper"

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
		"syntax":             {config("moniker", `"`), 1, "While parsing config: "},
		"wrong type":         {config("rpc.max-open-connections", `"many"`), 1, "decoding failed due to the following error(s):"},
		"unknown mode":       {config("mode", `"sentry"`), 1, `error creating node: "sentry" is not a valid mode`},
		"archive mode":       {config("mode", `"archive"`), 1, `error creating node: "archive" is not a valid mode`},
		"unknown database":   {config("db-backend", `"nosuch"`), 1, "unknown db_backend nosuch"},
		"unknown level":      {config("log-level", `"chatty"`), 1, "failed to parse log level (chatty)"},
		"peer without id":    {config("p2p.persistent-peers", `"host:1"`), 1, "invalid peer address"},
		"no genesis":         {remove(home.Dir.Genesis), 2, "panic: "},
		"no sign state":      {remove(home.Dir.SignState), 1, "error creating node: "},
		"short id of a peer": {config("p2p.persistent-peers", `"abcd@host:1"`), 1, "invalid node ID length 4, expected 40"},
		"gas prices": {func(t *testing.T, n *chain.Node) {
			t.Helper()
			configure(t, n, nil, map[string]string{"minimum-gas-prices": `"cheap"`})
		}, 2, "panic: invalid minimum gas prices: "},
		"gRPC port is taken": {func(t *testing.T, n *chain.Node) {
			t.Helper()
			taken("9090")(t, n)
			configure(t, n, nil, map[string]string{"grpc.enable": "true"})
		}, 1, "address already in use"},
		"no validators": {func(t *testing.T, n *chain.Node) {
			t.Helper()
			genesis, err := home.DefaultGenesis("loop-1", nil, 0)
			if err == nil {
				err = os.WriteFile(n.Home.Genesis(), genesis, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, 1, "error on replay: validator set is nil in genesis and still empty after InitChain"},
		"client of no chain": {func(t *testing.T, n *chain.Node) {
			t.Helper()
			if err := os.Remove(n.Home.Config("client.toml")); err != nil {
				t.Fatal(err)
			}
		}, 2, "panic: genesis file chain-id=loop-1 does not equal config.toml chain-id="},
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

// What the modes differ in, and some of what they do not.
func TestInitModes(t *testing.T) {
	t.Parallel()
	modes := []string{"full", "validator", "archive", "seed"}
	read := map[string]*viper.Viper{}
	for _, mode := range modes {
		dir := home.Dir(filepath.Join(t.TempDir(), "home"))
		if code, _, failed := seid(t, "init", "m", "--chain-id", "loop-1", "--mode", mode, "--home", string(dir)); code != 0 {
			t.Fatalf("%s: %d, %s", mode, code, failed)
		}
		read[mode] = viper.New()
		for _, file := range []string{"config.toml", "app.toml"} {
			read[mode].SetConfigFile(dir.Config(file))
			if err := read[mode].MergeInConfig(); err != nil {
				t.Fatal(err)
			}
		}
	}
	const everywhere, here = "tcp://0.0.0.0:", "tcp://127.0.0.1:"
	services := []any{true, false, true, false}
	same := func(value any) []any { return []any{value, value, value, value} }
	for key, want := range map[string][]any{
		"mode":                         {"full", "validator", "full", "seed"},
		"rpc.laddr":                    {everywhere + "26657", here + "26657", everywhere + "26657", here + "26657"},
		"p2p.laddr":                    {everywhere + "26656", here + "26656", everywhere + "26656", here + "26656"},
		"tx-index.indexer":             {"[kv]", "[null]", "[kv]", "[null]"},
		"p2p.max-connections":          {100, 100, 100, 1000},
		"p2p.allow-duplicate-ip":       {false, false, false, true},
		"min-retain-blocks":            {100000, 0, 0, 0},
		"evm.http_enabled":             services,
		"evm.ws_enabled":               services,
		"api.enable":                   services,
		"grpc.enable":                  services,
		"grpc-web.enable":              services,
		"state-store.ss-enable":        same(true),
		"state-store.ss-keep-recent":   same(100000),
		"state-sync.snapshot-interval": same(0),
		"concurrency-workers":          same(10),
		"instrumentation.prometheus":   same(false),
		"minimum-gas-prices":           same("0.01usei"),
		"log-level":                    same("info"),
	} {
		for i, mode := range modes {
			if got := fmt.Sprint(read[mode].Get(key)); got != fmt.Sprint(want[i]) {
				t.Errorf("%s of mode %s is %s, not %v", key, mode, got, want[i])
			}
		}
	}
}

// The reset removes the chain and what was signed, and keeps configuration and keys.
func TestUnsafeResetAll(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	config := os.DirFS(n.Home.Config(""))
	before := map[string]string{}
	for _, name := range []string{"config.toml", "app.toml", "genesis.json", "node_key.json", "priv_validator_key.json"} {
		content, err := fs.ReadFile(config, name)
		if err != nil {
			t.Fatal(err)
		}
		before[name] = string(content)
	}
	wasm := filepath.Join(string(n.Home), "wasm")
	if err := os.Mkdir(wasm, 0o700); err != nil {
		t.Fatal(err)
	}
	p := start(t, n, v1)
	untilHeight(t, n, 2)
	signal(t, p, syscall.SIGKILL)
	ends(t, p, 137)
	if code, _, failed := seid(t, "tendermint", "unsafe-reset-all", "--home", string(n.Home)); code != 0 {
		t.Fatalf("%d: %s", code, failed)
	}
	entries, err := os.ReadDir(n.Home.Data())
	if err != nil || len(entries) != 1 || filepath.Join(n.Home.Data(), entries[0].Name()) != n.Home.SignState() {
		t.Errorf("%v, %v", entries, err)
	}
	if state, err := os.ReadFile(n.Home.SignState()); err != nil || !strings.Contains(string(state), `"height": "0"`) {
		t.Errorf("%s, %v", state, err)
	}
	if _, err := os.Stat(wasm); err == nil {
		t.Error("wasm is still there")
	}
	for name, want := range before {
		if content, err := fs.ReadFile(config, name); err != nil || string(content) != want {
			t.Errorf("%s has changed: %v", name, err)
		}
	}
}

// A second process on the same home ends, and the first is unharmed. After a clean stop
// and after a kill the node goes on where it was.
func TestOneProcessForAHome(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	first := start(t, n, v1)
	status := untilHeight(t, n, 2)
	untilSignals(t, n)
	second := start(t, n, v1)
	ends(t, second, 2, "panic: failed to initialize database: resource temporarily unavailable")
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
	untilSignals(t, n)
	signal(t, p, syscall.SIGTERM)
	ends(t, p, 0)
}
