package likeness

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sei-operator/sei-operator/lab/devchain/chain"
)

// closeSlowly makes a node take an hour to close, unless it is let go.
func closeSlowly(t *testing.T, n *chain.Node) {
	t.Helper()
	if err := os.WriteFile(n.Home.Close(), []byte("1h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func letGo(t *testing.T, n *chain.Node) {
	t.Helper()
	if err := os.Remove(n.Home.Close()); err != nil {
		t.Fatal(err)
	}
}

// untilItCloses waits until a node is in the middle of closing its state: nothing of it
// answers any more, and it writes.
func untilItCloses(t *testing.T, n *chain.Node) {
	t.Helper()
	untilLogged(t, n, `msg="Closing rewrite channel..."`, 1)
	written := filepath.Join(n.Home.Data(), "state_commit", "devchain-rewrite")
	size := func() int64 {
		info, err := os.Stat(written)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	before := int64(0)
	for range 3 {
		until(t, "it writes", func(context.Context) bool { return size() > before })
		before = size()
	}
	for _, number := range []string{"26656", "26657", "26660"} {
		if open(t.Context(), port(n, number)) {
			t.Errorf("port %s is open", number)
		}
	}
	alive(t, n)
}

// The handler is gone after the first signal: the second ends the process in the middle of
// closing, and what it held is torn. Whoever waits finds it whole.
func TestTheSecondSignalEndsItInTheMiddleOfClosing(t *testing.T) {
	t.Parallel()
	for first, second := range map[syscall.Signal]syscall.Signal{syscall.SIGTERM: syscall.SIGTERM, syscall.SIGINT: syscall.SIGTERM} {
		t.Run(first.String(), func(t *testing.T) {
			t.Parallel()
			_, n := newSole(t)
			// Waited for, it ends by itself, and goes on where it was.
			p := start(t, n, v1)
			before := untilHeight(t, n, 2)
			untilSignals(t, n)
			closeSlowly(t, n)
			signal(t, p, first)
			untilItCloses(t, n)
			letGo(t, n)
			ends(t, p, 0, `msg="Stopping Node"`, `msg="Closed memiavl db."`)
			p = start(t, n, v1)
			untilHeight(t, n, before.Height+1)

			untilSignals(t, n)
			closeSlowly(t, n)
			signal(t, p, first)
			untilItCloses(t, n)
			signal(t, p, second)
			ends(t, p, 128+int(second))
			if strings.Contains(p.Output(), "Closed memiavl db.") {
				t.Error("it has closed its state")
			}
			letGo(t, n)
			ends(t, start(t, n, v1), 2, "panic: failed to initialize database: ", "killed while it was being closed")
		})
	}
}

// As process 1 it ends with 2: the same code as a panic.
func TestTheSecondSignalAsProcessOne(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	closeSlowly(t, n)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	first := startAsProcessOne(t, n, log)
	says := func(what string) {
		t.Helper()
		until(t, what, func(context.Context) bool {
			text, err := os.ReadFile(log.Name())
			return err == nil && strings.Contains(string(text), what)
		})
	}
	says("signals are caught")
	for _, text := range []string{"Closing rewrite channel", ""} {
		if err := first.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		says(text)
	}
	if err := first.Wait(); err == nil || first.ProcessState.ExitCode() != 2 {
		t.Errorf("as process 1 it ended with %v", first.ProcessState)
	}
}

// What "double-sign-check-height" is for: a key that signed one of the last blocks ends the
// process when it would sign again, after RPC has opened; whether this node knows the blocks
// from the start or has to sync them first.
func TestDoubleSignCheck(t *testing.T) {
	t.Parallel()
	local := newChain(t, 4)
	startAll(t, local, v1)
	n := local.Nodes[0]
	untilHeight(t, n, 5)
	checks := []string{"--consensus.double-sign-check-height", "10"}
	const refusal = "panic: critical task failed: name=state.Run, service=Consensus: found signature from the same key"
	signal(t, n.Process(), syscall.SIGKILL)
	ends(t, n.Process(), 137)
	ends(t, start(t, n, v1, checks...), 2, refusal, "Starting RPC HTTP server", "switching to consensus")
	// The others go on without it. When it has signed none of the last blocks it starts.
	now := untilHeight(t, local.Nodes[1], untilHeight(t, local.Nodes[1], 1).Height+15).Height
	p := start(t, n, v1, checks...)
	for signs := false; !signs; now++ {
		alive(t, n)
		untilHeight(t, local.Nodes[1], now)
		block, err := local.Nodes[1].Block(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		signs = slices.Contains(block.Signed, n.Address)
	}
	signal(t, p, syscall.SIGKILL)
	ends(t, p, 137)

	_, sole := newSole(t)
	configure(t, sole, map[string]string{"consensus.double-sign-check-height": "10"}, nil)
	p = start(t, sole, v1)
	untilHeight(t, sole, 3)
	signal(t, p, syscall.SIGKILL)
	ends(t, p, 137)
	ends(t, start(t, sole, v1), 2, refusal)
}
