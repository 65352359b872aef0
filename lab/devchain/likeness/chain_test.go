package likeness

import (
	"context"
	"flag"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/lab/devchain/chain"
)

var (
	blocks = flag.Int64("blocks", 12, "how many blocks the chain makes under load before and after each event; 300 are about two minutes")
	load   = flag.Int("load", 20, "transactions per second")
)

// TestChain is the life of a chain: four validators under load, one killed and back, a
// fifth node by state sync, an upgrade that halts them all, and the new version. In the
// end all agree on every state, and nobody signed twice.
func TestChain(t *testing.T) {
	t.Parallel()
	local := newChain(t, 4)
	withSnapshots(t, local, 5)
	begun := time.Now()
	startAll(t, local, v1)
	watcher := chain.Watch(t.Context(), local.All)
	defer watcher.Stop()
	validators := local.All()
	sending := chain.StartLoad(t.Context(), validators, *load)
	defer sending.Stop()
	untilHeight(t, validators[0], 1)
	t.Logf("first block after %.1f s", time.Since(begun).Seconds())
	grow := func(n *chain.Node) int64 {
		t.Helper()
		status := untilHeight(t, n, 1)
		return untilHeight(t, n, status.Height+*blocks).Height
	}
	grow(validators[0])

	// One is killed; the others go on without it, and it comes back and signs.
	killed := validators[3]
	signal(t, killed.Process(), syscall.SIGKILL)
	ends(t, killed.Process(), 137)
	grow(validators[0])
	start(t, killed, v1)
	back := untilHeight(t, killed, grow(validators[0])).Height
	untilRecord(t, watcher, "the validator that was killed signs", func(r chain.Record) bool {
		for _, block := range r.Blocks[min(int(back), len(r.Blocks)):] {
			if strings.Contains(strings.Join(block.Signed, " "), killed.Address) {
				return true
			}
		}
		return false
	})

	// A fifth node begins with a snapshot.
	untilSnapshot(t, local)
	fifth := addStateSync(t, local, "fifth")
	start(t, fifth, v1)
	first := untilHeight(t, fifth, 1)
	if first.Earliest < 2 {
		t.Errorf("the fifth node has the chain from its beginning: %+v", first)
	}
	untilHeight(t, fifth, first.Height+*blocks)

	// The chain halts for an upgrade, and goes on with the next version.
	plan := schedule(t, validators[0], "v2", *blocks)
	halted := 0
	for _, n := range validators {
		untilStopped(t, n, plan.Height)
		if n.Process().Wait() == 2 {
			halted++
		}
	}
	if halted < 3 {
		t.Errorf("%d of four validators halted; with two thirds of them the last block is made", halted)
	}
	if p := fifth.Process(); p != nil {
		signal(t, p, syscall.SIGKILL)
		<-p.Done()
	}
	startAll(t, local, v2)
	for _, n := range local.Nodes {
		untilHeight(t, n, plan.Height+*blocks)
		if version, err := n.Version(t.Context()); err != nil || version != "v2" {
			t.Errorf("%s runs %s, %v", n.Name, version, err)
		}
	}
	sending.Stop()

	untilRecord(t, watcher, "all nodes tell a state of the new version", func(r chain.Record) bool {
		return len(r.Heights) == len(local.Nodes) && r.Height() > plan.Height
	})
	watcher.Stop()
	record := watcher.Record()
	if _, err := record.WriteTo(t.Output()); err != nil {
		t.Error(err)
	}
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
	agreeOnBlocks(t, local, plan.Height)
}

// untilStopped waits for the end of a validator at an upgrade. One that did not get the
// last votes stays alive, one block below, and is ended here.
func untilStopped(t *testing.T, n *chain.Node, height int64) {
	t.Helper()
	p := n.Process()
	until(t, n.Name+" halts", func(ctx context.Context) bool {
		select {
		case <-p.Done():
			return true
		default:
		}
		status, err := n.Status(ctx)
		return err == nil && status.Height == height-1 && othersEnded(ctx, n)
	})
	signal(t, p, syscall.SIGKILL)
	<-p.Done()
}

// othersEnded tells whether a node has lost all its peers, so that nothing more can
// come.
func othersEnded(ctx context.Context, n *chain.Node) bool {
	var body struct {
		Connections []peerConnection `json:"peer_connections"`
	}
	_, err := n.Get(ctx, "/net_info", nil, &body)
	return err == nil && len(body.Connections) <= 1
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
