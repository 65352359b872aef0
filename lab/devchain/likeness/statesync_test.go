package likeness

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/sei-operator/sei-operator/lab/devchain/chain"
	"github.com/sei-operator/sei-operator/lab/devchain/home"
)

// withSnapshots makes the validators of a chain take snapshots.
func withSnapshots(t *testing.T, local *chain.Local, interval int) {
	t.Helper()
	for _, n := range local.Nodes {
		configure(t, n, nil, map[string]string{
			"state-sync.snapshot-interval": fmt.Sprint(interval),
			// One that is being fetched must not go away, and these come fast.
			"state-sync.snapshot-keep-recent": "1000",
		})
	}
}

// untilSnapshot waits until all have a snapshot, and two blocks above it.
func untilSnapshot(t *testing.T, local *chain.Local) {
	t.Helper()
	for _, n := range local.Nodes {
		untilLogged(t, n, `msg="completed state snapshot"`, 1)
	}
}

// addStateSync adds a node that begins with a snapshot, and trusts a block that two
// nodes told.
func addStateSync(t *testing.T, local *chain.Local, name string) *chain.Node {
	t.Helper()
	trusted, err := local.Nodes[0].Block(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return addNode(t, local, name, home.Full, map[string]string{
		"statesync.enable":         "true",
		"statesync.rpc-servers":    fmt.Sprintf("%q", local.Nodes[0].RPC()+","+local.Nodes[1].RPC()),
		"statesync.trust-height":   "1",
		"statesync.trust-hash":     fmt.Sprintf("%q", trusted.Hash),
		"statesync.discovery-time": `"5s"`,
	}, servicesOff())
}

// The third fact: killed between the end of a state sync and the next block, a volume
// is dead; killed before or after that, it is not. And RPC is closed during the state
// sync, while metrics are open.
func TestFact03KilledAfterStateSyncTheVolumeIsDead(t *testing.T) {
	t.Parallel()
	local := newChain(t, 3)
	withSnapshots(t, local, 4)
	startAll(t, local, v1)
	untilSnapshot(t, local)
	n := addStateSync(t, local, "synced")
	syncing := func(ctx context.Context) string {
		value, _ := metric(ctx, t, n, "tendermint_consensus_state_syncing{")
		return value
	}
	p := start(t, n, v1)
	until(t, "it state-syncs", func(ctx context.Context) bool { return syncing(ctx) == "1" })
	// A signal is not caught here, and harms nothing.
	signal(t, p, syscall.SIGTERM)
	ends(t, p, 143)

	// No block comes after the snapshot.
	if err := os.WriteFile(n.Home.Hold(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p = start(t, n, v1)
	until(t, "it state-syncs", func(ctx context.Context) bool { return syncing(ctx) == "1" })
	until(t, "the state sync is over", func(ctx context.Context) bool {
		// In this order: what was open then was open while it still synced.
		isOpen, value := open(ctx, port(n, "26657")), syncing(ctx)
		if isOpen && value == "1" {
			t.Fatal("RPC is open during the state sync")
		}
		return value == "0"
	})
	status := untilHeight(t, n, 1)
	// However late this answer is: the next block may be stored by now, but none is executed.
	snapshot := status.Earliest + 1
	if status.Height != snapshot && status.Height != snapshot+1 {
		t.Errorf("the first answer after a state sync is %+v", status)
	}
	if !status.CatchingUp {
		untilLogged(t, n, `msg="switching to consensus"`, 1)
	}
	signal(t, p, syscall.SIGKILL)
	ends(t, p, 137)
	if err := os.Remove(n.Home.Hold()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ends(t, start(t, n, v1), 1,
			fmt.Sprintf("Error: error starting node: error on replay: could not find FinalizeBlock responses for height #%d", snapshot))
	}

	// Only this helps.
	if code, _, failed := seid(t, "tendermint", "unsafe-reset-all", "--home", string(n.Home)); code != 0 {
		t.Fatalf("%d: %s", code, failed)
	}
	p = start(t, n, v1)
	status = untilHeight(t, n, 1)
	// The last block may not have been executed yet, so some more than one.
	untilHeight(t, n, status.Height+3)
	signal(t, p, syscall.SIGKILL)
	ends(t, p, 137)
	start(t, n, v1)
	untilHeight(t, n, status.Height+6)
	if _, height, ok := strings.Cut(fetch(t.Context(), t, n.RPC()+"/status"), `"snapshot_height":"`); !ok || !strings.HasPrefix(height, `0"`) {
		t.Error("/status tells of a snapshot")
	}
}

// State sync that cannot work ends the node with 1; with one peer it waits without a
// word, and can be aborted.
func TestStateSyncFailures(t *testing.T) {
	t.Parallel()
	local := newChain(t, 3)
	withSnapshots(t, local, 4)
	startAll(t, local, v1)
	untilSnapshot(t, local)
	n := addStateSync(t, local, "synced")
	const prefix = "Error: error starting node: problem starting service '*statesync.Reactor': "
	configure(t, n, map[string]string{"statesync.trust-hash": `"` + strings.Repeat("AB", 32) + `"`}, nil)
	ends(t, start(t, n, v1), 1, prefix, "expected header's hash ABAB", `msg="state sync failed; shutting down this node"`)
	configure(t, n, map[string]string{"statesync.rpc-servers": `"` + local.Nodes[0].RPC() + `"`}, nil)
	ends(t, start(t, n, v1), 1, "at least 2 RPC servers are required, got 1")

	// The other one is known to all by now.
	n = addStateSync(t, local, "lonely")
	configure(t, n, map[string]string{"p2p.persistent-peers": `"` + local.Nodes[0].Peer() + `"`, "p2p.pex": "false"}, nil)
	p := start(t, n, v1)
	until(t, "it has its peer", func(ctx context.Context) bool {
		live, _ := metric(ctx, t, n, "tendermint_p2p_peers{")
		return live == "1"
	})
	if open(t.Context(), port(n, "26657")) {
		t.Error("RPC is open")
	}
	signal(t, p, syscall.SIGTERM)
	ends(t, p, 143)
}

// A state sync asks each peer for snapshots once, when it connects. One that begins before
// there is any waits for ever, however many there are later: until a peer comes again, or
// until it is started again. Nothing is lost by that, and meanwhile RPC is closed.
func TestStateSyncAsksEachPeerOnce(t *testing.T) {
	t.Parallel()
	local := newChain(t, 3)
	validators := local.All()
	withSnapshots(t, local, 40)
	startAll(t, local, v1)
	untilHeight(t, validators[0], 1)
	// The chain stands still while it is asked for the first time.
	for _, v := range validators {
		if err := os.WriteFile(v.Home.Hold(), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := addStateSync(t, local, "early")
	configure(t, n, map[string]string{"p2p.pex": "false"}, nil)
	p := start(t, n, v1)
	const none = `msg="no snapshots discovered, sleeping" `
	untilLogged(t, n, `msg="discovering snapshots" `, 1)
	untilLogged(t, n, none, 1)
	const completed = `msg="completed state snapshot"`
	for _, v := range validators {
		if strings.Contains(v.Process().Output(), completed) {
			t.Fatal("there was a snapshot from the beginning")
		}
		if err := os.Remove(v.Home.Hold()); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range validators {
		untilLogged(t, v, completed, 1)
	}
	untilLogged(t, n, none, strings.Count(p.Output(), none)+2)
	if strings.Contains(p.Output(), "discovered and added new snapshot") || open(t.Context(), port(n, "26657")) {
		t.Error("it asked again")
	}

	again := validators[2]
	signal(t, again.Process(), syscall.SIGKILL)
	ends(t, again.Process(), 137)
	start(t, again, v1)
	if status := untilHeight(t, n, 1); status.Earliest < 2 {
		t.Errorf("it did not begin with a snapshot: %+v", status)
	}
}

// Snapshots: as many are kept as were asked for.
func TestSnapshotsAreKept(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	configure(t, n, nil, map[string]string{"state-sync.snapshot-interval": "2", "state-sync.snapshot-keep-recent": "2"})
	p := start(t, n, v1)
	untilLogged(t, n, `msg="completed state snapshot"`, 4)
	untilSignals(t, n)
	signal(t, p, syscall.SIGTERM)
	ends(t, p, 0)
	entries, err := os.ReadDir(n.Home.Data() + "/snapshots")
	if err != nil || len(entries) != 3 { // and metadata.db
		t.Errorf("%v, %v", entries, err)
	}
}
