// Package likeness proves that a devchain behaves as seid was observed to behave. Each
// test has the name of the fact. Everything runs on loopback, without Kubernetes.
package likeness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/lab/devchain/chain"
	"github.com/sei-operator/sei-operator/lab/devchain/home"
	"github.com/sei-operator/sei-operator/lab/devchain/node"
)

// Two versions of the binary, so that an upgrade is a real one.
var v1, v2 string

// parallel is how many tests run at once: they wait for nodes far more than they work.
const parallel = "6"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	os.Exit(withBinaries(m.Run))
}

func withBinaries(run func() int) int {
	dir, err := os.MkdirTemp("", "likeness")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	v1, v2 = filepath.Join(dir, "v1", "seid"), filepath.Join(dir, "v2", "seid")
	for version, path := range map[string]string{"v1": v1, "v2": v2} {
		if err := chain.Build(context.Background(), path, version); err != nil { //nolint:forbidigo // before any test
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return run()
}

// patience ends a test that would otherwise hang; no test waits for it to pass.
const patience = 3 * time.Minute

// blockTime is short, so that the tests are.
const blockTime = 100 * time.Millisecond

// seeSources looks at what seid is built from. It is built by another process, so "go
// test" would not know that it has changed, and tell an old result.
var seeSources = sync.OnceValue(func() error {
	return filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			_, err = os.Stat(path)
		}
		return err
	})
})

func newChain(t *testing.T, validators int) *chain.Local {
	t.Helper()
	if err := seeSources(); err != nil {
		t.Fatal(err)
	}
	network, err := chain.NewNetwork(chain.Options{ChainID: "loop-1", Validators: validators, BlockTime: blockTime})
	if err != nil {
		t.Fatal(err)
	}
	local, err := chain.NewLocal(t.TempDir(), network)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range local.Nodes {
		// Votes wait this long at every hop.
		configure(t, n, map[string]string{"consensus.peer-gossip-sleep-duration": `"10ms"`}, nil)
	}
	t.Cleanup(func() {
		if err := local.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			for _, n := range local.Nodes {
				if p := n.Process(); p != nil {
					t.Logf("%s (%s):\n%s", n.Name, n.Host, p.Tail(60))
				}
			}
		}
	})
	return local
}

// newSole is a chain of one validator, which makes blocks at once.
func newSole(t *testing.T) (*chain.Local, *chain.Node) {
	t.Helper()
	local := newChain(t, 1)
	return local, local.Nodes[0]
}

func addNode(t *testing.T, local *chain.Local, name string, mode home.Mode, config, app map[string]string) *chain.Node {
	t.Helper()
	n, err := local.AddNode(name, mode, config)
	if err != nil {
		t.Fatal(err)
	}
	configure(t, n, nil, app)
	return n
}

func configure(t *testing.T, n *chain.Node, config, app map[string]string) {
	t.Helper()
	if err := errors.Join(n.Configure(config), n.ConfigureApp(app)); err != nil {
		t.Fatal(err)
	}
}

// servicesOff are the services that delay the signal handler.
func servicesOff() map[string]string {
	return map[string]string{"api.enable": "false", "grpc.enable": "false", "grpc-web.enable": "false"}
}

func start(t *testing.T, n *chain.Node, binary string, args ...string) *chain.Process {
	t.Helper()
	p, err := n.Start(binary, args...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func startAll(t *testing.T, local *chain.Local, binary string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := local.Start(ctx, binary); err != nil {
		t.Fatal(err)
	}
}

// until asks again and again; what is asked are other processes, which can only be
// asked.
func until(t *testing.T, what string, met func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !met(ctx) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// untilHeight waits for a block.
func untilHeight(t *testing.T, n *chain.Node, height int64) chain.Status {
	t.Helper()
	var last chain.Status
	// However long it takes: only a chain that stands still is given up.
	for last.Height < height {
		next := min(height, last.Height+1)
		until(t, fmt.Sprintf("%s reaches height %d, on its way to %d", n.Name, next, height), func(ctx context.Context) bool {
			alive(t, n)
			status, err := n.Status(ctx)
			if err == nil && status.Height >= next {
				last = status
			}
			return last.Height >= next
		})
	}
	return last
}

// alive fails the test if the node has ended, instead of waiting for it.
func alive(t *testing.T, n *chain.Node) {
	t.Helper()
	select {
	case <-n.Process().Done():
		t.Fatalf("%s ended with %d:\n%s", n.Name, n.Process().Wait(), n.Process().Tail(60))
	default:
	}
}

// untilLogged waits for a text in the node's output.
func untilLogged(t *testing.T, n *chain.Node, text string, times int) {
	t.Helper()
	until(t, fmt.Sprintf("%s says %q", n.Name, text), func(context.Context) bool {
		return strings.Count(n.Process().Output(), text) >= times
	})
}

// untilSignals waits until the present process of a node catches signals.
func untilSignals(t *testing.T, n *chain.Node) {
	t.Helper()
	untilLogged(t, n, node.HandlesSignals, 1)
}

// exitCode waits for the end of a process.
func exitCode(t *testing.T, p *chain.Process) int {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatalf("it did not end:\n%s", p.Tail(15))
	}
	return p.Wait()
}

// ends waits for the end of a process, and expects an exit code and texts.
func ends(t *testing.T, p *chain.Process, code int, texts ...string) {
	t.Helper()
	if got := exitCode(t, p); got != code {
		t.Fatalf("exit code %d instead of %d:\n%s", got, code, p.Tail(15))
	}
	for _, text := range texts {
		if output := p.Output(); !strings.Contains(output, text) {
			t.Errorf("it did not say %q:\n%s", text, p.Tail(15))
		}
	}
}

func signal(t *testing.T, p *chain.Process, sig syscall.Signal) {
	t.Helper()
	if err := p.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// open tells whether somebody listens.
func open(ctx context.Context, address string) bool {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// port is a port of a node.
func port(n *chain.Node, number string) string { return net.JoinHostPort(n.Host, number) }

// metric is the value of the first sample that begins with this text; ok tells
// whether there is one.
func metric(ctx context.Context, t *testing.T, n *chain.Node, sample string) (value string, ok bool) {
	t.Helper()
	for line := range strings.Lines(fetch(ctx, t, n.Metrics())) {
		if strings.HasPrefix(line, sample) {
			fields := strings.Fields(line)
			return fields[len(fields)-1], true
		}
	}
	return "", false
}

// fetch is the body of a page; nothing if nobody answers.
func fetch(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	_, body := get(ctx, t, url)
	return body
}

func get(ctx context.Context, t *testing.T, url string) (int, string) {
	t.Helper()
	return ask(ctx, t, http.MethodGet, url, "")
}

// call asks by POST, for an answer without spaces between its parts.
func call(ctx context.Context, t *testing.T, url, method, params string) (int, string) {
	t.Helper()
	code, body := ask(ctx, t, http.MethodPost, url, fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params))
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(body)); err != nil {
		return code, body
	}
	return code, compact.String()
}

func ask(ctx context.Context, t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(response.Body) // What came is what is looked at.
	return response.StatusCode, string(answer)
}
