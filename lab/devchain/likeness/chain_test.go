package likeness

import (
	"context"
	"flag"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/lab/devchain/chain"
)

var (
	span = flag.Duration("span", 2*time.Minute, "how long the chain makes blocks under load before its upgrade, by the times of its blocks")
	load = flag.Int("load", 20, "transactions per second")
)

const (
	// blocks is how many of them the chain makes before and after each event.
	blocks = 15
	// away is how many of them a validator that is killed misses: more than fit into the
	// queues of the engine, so that none may be lost on the way to it.
	away = 80
)

// life is a chain that lives.
type life struct {
	*chain.Local

	t          *testing.T
	validators []*chain.Node
	watcher    *chain.Watcher
}

// TestChain is the life of a chain: four validators under load, one killed and back, a
// fifth node by state sync, a long while of it, an upgrade that halts them all, and the
// new version. In the end all agree on every state, and nobody signed twice.
func TestChain(t *testing.T) {
	t.Parallel()
	local := newChain(t, 4)
	withSnapshots(t, local, 5)
	begun := time.Now()
	startAll(t, local, v1)
	l := &life{Local: local, t: t, validators: local.All(), watcher: chain.Watch(t.Context(), local.All)}
	defer l.watcher.Stop()
	sending := chain.StartLoad(t.Context(), func() []*chain.Node { return l.validators }, *load)
	defer sending.Stop()
	untilHeight(t, l.validators[0], 1)
	t.Logf("first block after %.1f s", time.Since(begun).Seconds())
	l.grow(l.validators[0])

	killed := l.validators[3]
	l.kill(killed)
	fifth := l.stateSync()
	l.age(*span)
	upgrade := l.upgrade(fifth)
	sending.Stop()

	untilRecord(t, l.watcher, "all nodes tell a state of the new version", func(r chain.Record) bool {
		return len(r.Heights) == len(l.Nodes) && r.Height() > upgrade
	})
	l.watcher.Stop()
	record := l.watcher.Record()
	if _, err := record.WriteTo(t.Output()); err != nil {
		t.Error(err)
	}
	t.Logf("%d transactions were accepted, %d refused, in %.0f s", sending.Accepted(), sending.Refused(), time.Since(begun).Seconds())
	if wrong := record.Disagreements(); len(wrong) > 0 {
		t.Errorf("the nodes disagree: %v", wrong)
	}
	if record.Evidence() != 0 {
		t.Errorf("%d pieces of evidence", record.Evidence())
	}
	if record.Txs() == 0 || sending.Accepted() == 0 {
		t.Error("there was no load")
	}
	if gaps := record.Gaps(); len(gaps[killed.Name]) == 0 {
		t.Errorf("nobody missed the validator that was killed: %v", gaps)
	}
	agreeOnBlocks(t, local, upgrade)
}

// grow waits for some blocks.
func (l *life) grow(n *chain.Node) int64 {
	l.t.Helper()
	status := untilHeight(l.t, n, 1)
	return untilHeight(l.t, n, status.Height+blocks).Height
}

// age waits until the chain has made blocks for so long. Its own times say so, not those
// of this test, and they are the same on all nodes.
func (l *life) age(span time.Duration) {
	l.t.Helper()
	at := func(height int64) time.Time {
		block, err := l.validators[0].Block(l.t.Context(), height)
		if err != nil {
			l.t.Fatal(err)
		}
		return block.Time
	}
	first, age := at(1), time.Duration(0)
	for age < span { // A chain that stands still is given up by grow.
		age = at(l.grow(l.validators[0])).Sub(first)
	}
	l.t.Logf("the chain is %.0f s old", age.Seconds())
}

// kill kills a validator; the others go on without it, and it comes back and signs.
func (l *life) kill(n *chain.Node) {
	l.t.Helper()
	signal(l.t, n.Process(), syscall.SIGKILL)
	ends(l.t, n.Process(), 137)
	untilHeight(l.t, l.validators[0], untilHeight(l.t, l.validators[0], 1).Height+away)
	start(l.t, n, v1)
	back := untilHeight(l.t, n, l.grow(l.validators[0])).Height
	untilRecord(l.t, l.watcher, "the validator that was killed signs", func(r chain.Record) bool {
		return slices.ContainsFunc(r.Blocks[min(int(back), len(r.Blocks)):], func(b chain.Block) bool {
			return slices.Contains(b.Signed, n.Address)
		})
	})
}

// stateSync adds a fifth node, which begins with a snapshot.
func (l *life) stateSync() *chain.Node {
	l.t.Helper()
	untilSnapshot(l.t, l.Local)
	fifth := addStateSync(l.t, l.Local, "fifth")
	start(l.t, fifth, v1)
	first := untilHeight(l.t, fifth, 1)
	if first.Earliest < 2 {
		l.t.Errorf("the fifth node has the chain from its beginning: %+v", first)
	}
	// However old a chain is, a state sync takes no longer for it.
	if _, body := get(l.t.Context(), l.t, fifth.RPC()+"/commit?height=1"); !strings.Contains(body, "height is not available") {
		l.t.Errorf("the fifth node has fetched the headers of all blocks: %s", body)
	}
	untilHeight(l.t, fifth, first.Height+blocks)
	return fifth
}

// upgrade halts the chain for an upgrade, and goes on with the next version. It returns
// the height.
func (l *life) upgrade(fifth *chain.Node) int64 {
	l.t.Helper()
	plan := schedule(l.t, l.validators[0], "v2", blocks)
	l.untilHalted(plan.Height)
	for _, n := range l.validators {
		// Those that did not get the last votes stay alive, and are ended here.
		signal(l.t, n.Process(), syscall.SIGKILL)
		if code := n.Process().Wait(); code != 2 && code != 137 {
			l.t.Errorf("%s ended with %d", n.Name, code)
		}
	}
	signal(l.t, fifth.Process(), syscall.SIGKILL)
	<-fifth.Process().Done()
	for _, n := range l.validators {
		start(l.t, n, v2)
	}
	// One that is further behind must not be given the new version: that refuses blocks
	// of the old one. It comes to the upgrade by itself.
	start(l.t, fifth, v1)
	ends(l.t, fifth.Process(), 2)
	start(l.t, fifth, v2)
	for _, n := range l.Nodes {
		untilHeight(l.t, n, plan.Height+blocks)
		if version, err := n.Version(l.t.Context()); err != nil || version != "v2" {
			l.t.Errorf("%s runs %s, %v", n.Name, version, err)
		}
	}
	return plan.Height
}

// untilHalted waits until the chain stands still at an upgrade. A validator that made
// the last block ends with it; one that did not get the last votes stays alive and
// seems healthy, one block below.
func (l *life) untilHalted(height int64) {
	l.t.Helper()
	until(l.t, "the chain halts", func(ctx context.Context) bool {
		ended := 0
		for _, n := range l.validators {
			select {
			case <-n.Process().Done():
				ended++
				continue
			default:
			}
			if status, err := n.Status(ctx); err != nil || status.Height < height-1 {
				return false
			}
		}
		return ended > 0
	})
}

func untilRecord(t *testing.T, watcher *chain.Watcher, what string, wanted func(chain.Record) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := watcher.Until(ctx, wanted); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// agreeOnBlocks compares the block of the upgrade and the last common one.
func agreeOnBlocks(t *testing.T, local *chain.Local, height int64) {
	t.Helper()
	want, err := local.Nodes[0].Block(t.Context(), height+1)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range local.Nodes[1:] {
		got, err := n.Block(t.Context(), height+1)
		if err != nil || got.Hash != want.Hash || got.AppHash != want.AppHash {
			t.Errorf("%s has another block %d: %+v, %v", n.Name, height+1, got, err)
		}
	}
}

// The keys and the genesis of a chain, as Kubernetes takes them.
func TestManifests(t *testing.T) {
	t.Parallel()
	network, err := chain.NewNetwork(chain.Options{ChainID: "loop-1", Validators: 2})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := network.Manifests(&out, "here"); err != nil {
		t.Fatal(err)
	}
	for text, times := range map[string]int{
		"kind: Secret": 4, "kind: ConfigMap": 1, "namespace: here": 5, "  genesis.json: ": 1,
		"  priv_validator_key.json: ": 2, "  node_key.json: ": 2, "name: loop-1-validator-1-signing-key": 1,
	} {
		if got := strings.Count(out.String(), text); got != times {
			t.Errorf("%q is there %d times, not %d", text, got, times)
		}
	}
	dir := t.TempDir()
	if err := network.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"genesis.json", "validator-0/node_key.json", "validator-1/priv_validator_key.json"} {
		if _, err := os.Stat(dir + "/" + name); err != nil {
			t.Error(err)
		}
	}
}
