package likeness

import (
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sei-operator/sei-operator/lab/devchain/chain"
	"github.com/sei-operator/sei-operator/lab/devchain/home"
)

// startAsProcessOne starts a node as a container does: as the first process of all.
func startAsProcessOne(t *testing.T, n *chain.Node, log io.Writer, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	first := exec.CommandContext(ctx, v1, append([]string{"start", "--home", string(n.Home)}, args...)...)
	first.Stdout, first.Stderr = log, log
	first.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	if err := first.Start(); err != nil {
		if os.Getenv("SEI_LAB_NODE") == "required" {
			t.Fatalf("NOT TESTED, and SEI_LAB_NODE=required: nobody can be process 1 here: %v", err)
		}
		t.Skipf("this machine gives no process namespaces, so nobody can be process 1 here: %v", err)
	}
	return first
}

// The first fact: exit code 2 is not "upgrade needed". As process 1 of a container
// seid ends with 2 when it gets a signal before it catches any; as a child it is
// killed.
func TestFact01ExitCodeTwoIsNotUpgradeNeeded(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	configure(t, n, nil, map[string]string{"api.enable": "true"})
	first := startAsProcessOne(t, n, nil)
	until(t, "RPC is open", func(ctx context.Context) bool { return open(ctx, port(n, "26657")) })
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err == nil || first.ProcessState.ExitCode() != 2 {
		t.Errorf("as process 1 it ended with %v", first.ProcessState)
	}
	if _, err := os.Stat(n.Home.UpgradeInfo()); err == nil {
		t.Error("there is an upgrade-info.json")
	}

	child := start(t, n, v1)
	until(t, "RPC is open", func(ctx context.Context) bool { return open(ctx, port(n, "26657")) })
	signal(t, child, syscall.SIGTERM)
	ends(t, child, 143)
}

// The second fact: the handler is installed late. RPC answers first; REST, gRPC and
// gRPC-web each cost five seconds, and only then a signal is caught.
func TestFact02SignalHandlerIsInstalledLate(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	configure(t, n, nil, map[string]string{"api.enable": "true", "grpc.enable": "true", "grpc-web.enable": "true"})
	p := start(t, n, v1)
	for _, address := range []string{port(n, "26657"), port(n, "1317"), port(n, "9090"), port(n, "9091")} {
		until(t, address+" opens", func(ctx context.Context) bool { return open(ctx, address) })
	}
	// All are open, and it still dies of a signal.
	signal(t, p, syscall.SIGTERM)
	ends(t, p, 143)

	p = start(t, n, v1)
	untilSignals(t, n)
	signal(t, p, syscall.SIGTERM)
	ends(t, p, 0, "Stopping Node")

	// A validator has none of these services.
	configure(t, n, nil, servicesOff())
	p = start(t, n, v1)
	untilSignals(t, n)
	signal(t, p, syscall.SIGTERM)
	ends(t, p, 0)
}

// The fourth fact: a network of two validators never starts, until a third node
// is connected with both.
func TestFact04TwoValidatorsNeverStart(t *testing.T) {
	t.Parallel()
	local := newChain(t, 2)
	startAll(t, local, v1)
	for _, n := range local.Nodes {
		until(t, n.Name+" has its peer", func(ctx context.Context) bool {
			return len(connections(ctx, t, n)) == 1
		})
		// Each line is a second in which it would have begun, if one peer was enough.
		before := strings.Count(n.Process().Output(), `msg="not caught up yet"`)
		untilLogged(t, n, `msg="not caught up yet"`, before+3)
		status, err := n.Status(t.Context())
		if err != nil || status.Height != 0 || !status.CatchingUp {
			t.Errorf("%s: %+v, %v", n.Name, status, err)
		}
	}
	start(t, addNode(t, local, "third", home.Full, nil, nil), v1)
	for _, n := range local.Nodes {
		untilHeight(t, n, 3)
	}
}

// The fifth fact: with exactly one peer a full node follows, in steps, and is for ever
// catching up; with two it is not.
func TestFact05OnePeerIsForEverCatchingUp(t *testing.T) {
	t.Parallel()
	local, sole := newSole(t)
	n := addNode(t, local, "lonely", home.Full, map[string]string{"p2p.pex": "false"}, servicesOff())
	other := addNode(t, local, "other", home.Full, map[string]string{"p2p.pex": "false"}, servicesOff())
	start(t, sole, v1)
	untilHeight(t, sole, 5)
	start(t, n, v1)
	// It is asked twice how high its peer is, and follows each time.
	first := untilHeight(t, n, 1)
	second := untilHeight(t, n, first.Height+1)
	untilLogged(t, n, `msg="not caught up yet"`, 5)
	status, err := n.Status(t.Context())
	if err != nil || !status.CatchingUp || !second.CatchingUp {
		t.Errorf("%+v, %+v, %v", second, status, err)
	}
	configure(t, other, map[string]string{"p2p.persistent-peers": `"` + sole.Peer() + "," + n.Peer() + `"`}, nil)
	start(t, other, v1)
	until(t, "it has caught up", func(ctx context.Context) bool {
		status, err := n.Status(ctx)
		return err == nil && !status.CatchingUp
	})
}

// The sixth fact: "catching_up": false does not mean at the tip. Readiness is told by
// /lag_status, which answers 417.
func TestFact06CatchingUpFalseIsNotAtTheTip(t *testing.T) {
	t.Parallel()
	local := newChain(t, 3)
	n := addNode(t, local, "follower", home.Full, map[string]string{"rpc.lag-threshold": "3"}, servicesOff())
	startAll(t, local, v1)
	until(t, "it has caught up", func(ctx context.Context) bool {
		status, err := n.Status(ctx)
		return err == nil && !status.CatchingUp && status.Height > 1
	})
	if err := os.WriteFile(n.Home.Hold(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "it lags", func(ctx context.Context) bool {
		code, _ := get(ctx, t, n.RPC()+"/lag_status")
		return code == 417
	})
	if status, err := n.Status(t.Context()); err != nil || status.CatchingUp || status.MaxPeer <= status.Height+3 {
		t.Errorf("%+v, %v", status, err)
	}
	if err := os.Remove(n.Home.Hold()); err != nil {
		t.Fatal(err)
	}
	until(t, "it does not lag", func(ctx context.Context) bool {
		code, _ := get(ctx, t, n.RPC()+"/lag_status")
		return code == 200
	})
}

type peerConnection struct {
	ID    string `json:"node_id"`
	State string `json:"state"`
}

func connections(ctx context.Context, t *testing.T, n *chain.Node) []peerConnection {
	t.Helper()
	var body struct {
		Connections []peerConnection `json:"peer_connections"`
	}
	if _, err := n.Get(ctx, "/net_info", nil, &body); err != nil {
		return nil
	}
	return body.Connections
}

// The seventh fact: /net_info counts known addresses, connected or not: one that does not
// exist, and a validator that is dead.
func TestFact07NetInfoCountsKnownAddresses(t *testing.T) {
	t.Parallel()
	local := newChain(t, 3)
	n := local.Nodes[0]
	nobody := strings.Repeat("ab", 20) + "@no-such-host.invalid:26656"
	configure(t, n, map[string]string{
		"p2p.persistent-peers": `"` + local.Nodes[1].Peer() + "," + local.Nodes[2].Peer() + "," + nobody + `"`,
	}, nil)
	startAll(t, local, v1)
	untilHeight(t, n, 1)
	until(t, "it has its two peers", func(ctx context.Context) bool { return len(connections(ctx, t, n)) == 2 })
	knows := func(count int) {
		t.Helper()
		var body struct {
			Known int              `json:"n_peers,string"`
			Peers []map[string]any `json:"peers"`
		}
		if _, err := n.Get(t.Context(), "/net_info", nil, &body); err != nil || body.Known != count || len(body.Peers) != count {
			t.Errorf("%+v, %v", body, err)
		}
	}
	knows(3)
	for _, one := range connections(t.Context(), t, n) {
		if one.State != "ready,connected" || len(one.ID) != 40 {
			t.Errorf("%+v", one)
		}
	}
	if live, _ := metric(t.Context(), t, n, "tendermint_p2p_peers{"); live != "2" {
		t.Errorf("the metric says %s", live)
	}
	signal(t, local.Nodes[2].Process(), syscall.SIGKILL)
	until(t, "it lost one", func(ctx context.Context) bool { return len(connections(ctx, t, n)) == 1 })
	knows(3)
}

// The eighth fact: a seed hangs when it is told to stop, and a second signal ends it.
// It serves neither RPC nor metrics. And it does what seeds are for.
func TestFact08SeedHangsOnSIGTERM(t *testing.T) {
	t.Parallel()
	local := newChain(t, 3)
	seed := addNode(t, local, "seed", home.Seed, nil, nil)
	n := addNode(t, local, "stranger", home.Full, map[string]string{
		"p2p.persistent-peers": `""`, "p2p.bootstrap-peers": `"` + seed.Peer() + `"`,
	}, servicesOff())
	startAll(t, local, v1)
	untilHeight(t, n, 1)
	for _, number := range []string{"26657", "26660"} {
		if open(t.Context(), port(seed, number)) {
			t.Errorf("port %s is open", number)
		}
	}
	p := seed.Process()
	signal(t, p, syscall.SIGTERM)
	untilLogged(t, seed, `msg="Stopping Node"`, 1)
	if !open(t.Context(), port(seed, "26656")) {
		t.Error("it did not hang")
	}
	signal(t, p, syscall.SIGTERM)
	ends(t, p, 143)
}

// haltedAt is the height at which a process said that it halts.
func haltedAt(t *testing.T, p *chain.Process) int64 {
	t.Helper()
	said := regexp.MustCompile(`msg="halting node per configuration" height=(\d+)`).FindAllStringSubmatch(p.Output(), -1)
	if len(said) == 0 {
		t.Fatalf("it did not halt:\n%s", p.Tail(20))
	}
	height, err := strconv.ParseInt(said[len(said)-1][1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return height
}

// The ninth fact: halt-height is not a stable stop. The block is committed, and with
// every restart the node creeps on.
func TestFact09HaltHeightIsNotAStableStop(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	p := start(t, n, v1, "--halt-height", "5")
	// It sends itself two signals. The second ends it where the handler of the first was
	// faster, which is rare.
	if code := exitCode(t, p); code != 0 && code != 143 {
		t.Fatalf("exit code %d:\n%s", code, p.Tail(15))
	}
	first := haltedAt(t, p)
	if first != 5 {
		t.Errorf("it halted at %d", first)
	}
	// Now it is past the height before its handler is there. A start that finds the last
	// block not written whole only repeats it, so the one after that creeps on.
	configure(t, n, nil, map[string]string{"api.enable": "true"})
	second := first
	for starts := 0; second <= first && starts < 2; starts++ {
		p = start(t, n, v1, "--halt-height", "5")
		if code := exitCode(t, p); code != 143 && code != 130 {
			t.Errorf("exit code %d", code)
		}
		second = haltedAt(t, p)
	}
	if second <= first {
		t.Errorf("it halted at %d and then at %d", first, second)
	}
	t.Run("as process 1", func(t *testing.T) {
		again := startAsProcessOne(t, n, nil, "--halt-height", "5")
		if err := again.Wait(); err == nil || again.ProcessState.ExitCode() != 2 {
			t.Errorf("it ended with %v", again.ProcessState)
		}
	})
	configure(t, n, nil, servicesOff())
	start(t, n, v1)
	untilHeight(t, n, first+2)
}
