package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/client"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

// running brings a pod up to a running seid.
func running(t *testing.T) (p *pod, sidecar, supervisor *process, node *fakeseid.Process) {
	t.Helper()
	p = newPod(t)
	sidecar, supervisor, node = p.bringUp()
	return p, sidecar, supervisor, node
}

func (p *pod) bringUp() (sidecar, supervisor *process, node *fakeseid.Process) {
	p.t.Helper()
	sidecar, supervisor = p.serve(), p.supervise()
	p.must("config-apply", map[string]any{"document": intent(1, nil)})
	p.must("mark-ready", map[string]any{})
	node = p.control.Next(p.t)
	p.untilStatus("seid runs", func(s api.Status) bool { return s.Seid.State == api.SeidRunning && s.Seid.RPC })
	return sidecar, supervisor, node
}

// TestNothingRunsWithoutApproval: an empty volume, both containers up, and seid
// waits; approved, it runs with the configuration it was given.
func TestNothingRunsWithoutApproval(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.serve()
	p.supervise()
	p.untilStatus("the supervisor is there", func(s api.Status) bool { return s.Seid.State == api.SeidWaiting })
	if err := p.client.Healthz(t.Context()); client.Reason(err) != api.ReasonNotApproved {
		t.Fatalf("healthz before approval: %v", err)
	}
	p.must("config-apply", map[string]any{"document": intent(1, map[string]string{"config.moniker": "changed"})})
	p.must("config-apply", map[string]any{"dryRun": true})
	p.must("mark-ready", map[string]any{})
	node := p.control.Next(t)
	status := p.untilStatus("seid runs", func(s api.Status) bool { return s.Seid.State == api.SeidRunning })
	if status.Seid.Pid != node.PID || !status.Approved || status.Config.Serial != 1 || status.NodeID == "" {
		t.Errorf("the status does not tell what is: %+v", status)
	}
	if err := p.client.Healthz(t.Context()); err != nil {
		t.Errorf("healthz after approval: %v", err)
	}
	content, err := os.ReadFile(p.home.File(seid.ConfigTOML))
	if err != nil || !strings.Contains(string(content), `moniker = "changed"`) {
		t.Errorf("the configuration is not in the file (%v):\n%s", err, content)
	}
}

// TestRestartInPlace: ten restarts in a row, each another process, the sidecar and
// the supervisor stay, and health is never lost.
func TestRestartInPlace(t *testing.T) {
	t.Parallel()
	p, sidecar, supervisor, node := running(t)
	for range 10 {
		p.must("restart-seid", map[string]any{})
		next := p.control.Next(t)
		if next.PID == node.PID || alive(node.PID) {
			t.Fatalf("seid %d was not replaced", node.PID)
		}
		node = next
		if err := p.client.Healthz(t.Context()); err != nil {
			t.Fatalf("health was lost over a restart: %v", err)
		}
	}
	for _, process := range []*process{sidecar, supervisor} {
		select {
		case <-process.ended:
			t.Errorf("%v ended", process.command.Args)
		default:
		}
	}
}

// TestSidecarComesAndGoes: killed at any time, it leaves seid alone, and the next
// one knows all it knew.
func TestSidecarComesAndGoes(t *testing.T) {
	t.Parallel()
	p, sidecar, _, node := running(t)
	sidecar.signal(syscall.SIGKILL)
	sidecar.wait()
	if !alive(node.PID) {
		t.Fatal("seid died with the sidecar")
	}
	next := p.serve()
	status := p.untilStatus("it sees seid", func(s api.Status) bool { return s.Seid.State == api.SeidRunning })
	if status.Seid.Pid != node.PID || !status.Approved || status.Config.Serial != 1 {
		t.Errorf("the next sidecar knows less: %+v", status)
	}
	next.signal(syscall.SIGTERM)
	if code := next.wait(); code != 0 || !alive(node.PID) {
		t.Errorf("an orderly end: code %d, seid alive: %v", code, alive(node.PID))
	}
}

// TestPodMovesWhileTheOperatorIsDown: a new supervisor and a new sidecar on the
// same volume start seid by themselves, with the newest document.
func TestPodMovesWhileTheOperatorIsDown(t *testing.T) {
	t.Parallel()
	p, sidecar, supervisor, node := running(t)
	supervisor.signal(syscall.SIGTERM)
	if code := supervisor.wait(); code != 0 {
		t.Fatalf("the supervisor ended with %d", code)
	}
	node.AwaitExit(t)
	sidecar.signal(syscall.SIGTERM)
	sidecar.wait()

	p.mount(intent(7, map[string]string{"config.moniker": "moved"}))
	p.serve()
	p.supervise()
	p.control.Next(t)
	status := p.untilStatus("seid runs", func(s api.Status) bool { return s.Seid.State == api.SeidRunning })
	content, err := os.ReadFile(p.home.File(seid.ConfigTOML))
	if err != nil || !strings.Contains(string(content), `moniker = "moved"`) || status.Config.Serial != 7 {
		t.Errorf("seid did not start with the newest document, serial %d (%v):\n%s", status.Config.Serial, err, content)
	}
}

// TestHoldAlwaysWins: over the death of the sidecar, a new supervisor, and an
// approval; only the release ends it.
func TestHoldAlwaysWins(t *testing.T) {
	t.Parallel()
	p, sidecar, supervisor, node := running(t)
	p.must("mark-not-ready", map[string]any{"reason": "being careful"})
	p.must("stop-seid", map[string]any{})
	node.AwaitExit(t)
	sidecar.signal(syscall.SIGKILL)
	sidecar.wait()
	supervisor.signal(syscall.SIGKILL)
	supervisor.wait()

	p.serve()
	p.supervise()
	status := p.untilStatus("the supervisor is there", func(s api.Status) bool { return s.Seid.State == api.SeidWaiting })
	if !status.Held || status.HeldReason != "being careful" {
		t.Fatalf("the hold is gone: %+v", status)
	}
	if err := p.client.Healthz(t.Context()); client.Reason(err) != api.ReasonHeld {
		t.Errorf("healthz of a held node: %v", err)
	}
	for _, kind := range []string{"mark-ready", "restart-seid"} {
		if result := p.run(kind, map[string]any{}); result.Reason != "Held" || result.Retryable {
			t.Errorf("%s on a held node: %+v", kind, result)
		}
	}
	if status := p.untilStatus("still there", func(api.Status) bool { return true }); status.Seid.Pid != 0 {
		t.Fatal("a held seid runs")
	}
	p.must("release-hold", map[string]any{})
	p.control.Next(t)
}

// TestUpgradeHalt: the node halts, is parked and says for what; a new image, which
// is a new supervisor, goes on by itself.
func TestUpgradeHalt(t *testing.T) {
	t.Parallel()
	p, _, supervisor, node := running(t)
	node.Do(t, fakeseid.Halt(fakeseid.Plan{Name: "v7", Height: 101, Info: "{}", Line: true, File: true}))
	status := p.untilStatus("it is parked", func(s api.Status) bool { return s.Seid.State == api.SeidParked })
	if !status.Upgrade.Halted || status.Upgrade.Name != "v7" || status.Upgrade.Height != 101 || status.Seid.LastExit.Code != 2 {
		t.Errorf("the halt is not told: %+v", status)
	}
	supervisor.signal(syscall.SIGTERM)
	if code := supervisor.wait(); code != 0 {
		t.Errorf("a parked supervisor ended with %d", code)
	}
	p.supervise()
	p.control.Next(t)
	p.untilStatus("the new binary runs", func(s api.Status) bool { return s.Seid.State == api.SeidRunning && !s.Upgrade.Halted })
}

// TestCrashEndsTheContainer: an exit nobody asked for ends the supervisor with the
// same code, and the next supervisor is told to start within moments.
func TestCrashEndsTheContainer(t *testing.T) {
	t.Parallel()
	p, _, supervisor, node := running(t)
	node.Do(t, fakeseid.Exit(3))
	if code := supervisor.wait(); code != 3 {
		t.Fatalf("the container ended with %d", code)
	}
	p.supervise()
	p.control.Next(t)
	status := p.untilStatus("it runs again", func(s api.Status) bool { return s.Seid.State == api.SeidRunning })
	if status.Seid.LastExit.Code != 3 || status.Seid.LastExit.Cause != "Crashed" {
		t.Errorf("the crash is not told: %+v", status.Seid.LastExit)
	}
}

// TestSecondSidecarIsRefused: two on one home would fight.
func TestSecondSidecarIsRefused(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.serve()
	second := p.start("sei-sidecar", "serve", "--home", string(p.home), "--socket", p.socket, "--node-uid", uid,
		"--listen", p.host+":7778")
	if code := second.wait(); code != 1 || !strings.Contains(second.stderr.String(), "another sidecar") {
		t.Errorf("the second sidecar ended with %d:\n%s", code, second.stderr)
	}
}

// TestAnotherNodesCallIsRefused: pod addresses are used again.
func TestAnotherNodesCallIsRefused(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.serve()
	stranger, err := client.New(client.Options{BaseURL: "http://" + p.address(), HTTPClient: httpClient, NodeUID: uuid.NewString()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Submit(t.Context(), api.TaskRequest{Type: "mark-ready"}); client.Reason(err) != api.ReasonWrongNode {
		t.Errorf("a call for another node: %v", err)
	}
}

// TestEventsTellOfEverything: a stream shows task, seid and hold in order.
func TestEventsTellOfEverything(t *testing.T) {
	t.Parallel()
	p, _, _, _ := running(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	seen := map[api.EventKind]bool{}
	connected := false
	for event, err := range p.client.Events(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		seen[event.Kind] = true
		if !connected {
			connected = true
			p.must("mark-not-ready", map[string]any{})
		}
		if seen[api.EventReset] && seen[api.EventTask] && seen[api.EventSeid] && seen[api.EventHold] {
			return
		}
	}
	t.Errorf("the stream ended after %v", seen)
}

// TestProbes are the commands that the kubelet calls.
func TestProbes(t *testing.T) {
	t.Parallel()
	p, sidecar, _, node := running(t)
	live := func() int { return p.start("sei-sidecar", "probe", "live", "--address", p.address()).wait() }
	ready := func() int {
		return p.start("sei-run", "probe", "ready", "--mode", "validator", "--seid-host", p.host).wait()
	}
	if live() != 0 || ready() != 0 {
		t.Error("a healthy pod fails its probes")
	}
	node.Do(t, fakeseid.Tell(facts(1000)))
	if ready() == 0 {
		t.Error("a node 900 blocks behind is ready")
	}
	alone := facts(0)
	alone.Peers = 0
	if node.Do(t, fakeseid.Tell(alone)); ready() == 0 {
		t.Error("a node without peers is ready")
	}
	sidecar.signal(syscall.SIGKILL)
	sidecar.wait()
	if live() == 0 {
		t.Error("a dead sidecar lives")
	}
}

// TestWitnessesAreAskedThroughTheProxy of the environment, by the probe and by the
// sidecar: otherwise one of them finds the network at a standstill behind a firewall, and
// the other does not. What is on loopback is never asked there.
func TestWitnessesAreAskedThroughTheProxy(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 100)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.String()
		fmt.Fprint(w, `{"node_info":{"id":"x","network":"pacific-1"},`+
			`"sync_info":{"latest_block_height":"200","latest_block_time":"2026-01-01T00:00:00Z","catching_up":false}}`)
	}))
	t.Cleanup(proxy.Close)
	p := newPod(t)
	p.env = []string{"HTTP_PROXY=" + proxy.URL}
	p.serve()
	p.supervise()
	p.must("config-apply", map[string]any{"document": intent(1, map[string]string{"config.statesync.rpc-servers": "witness.example:26657"})})
	p.must("mark-ready", map[string]any{})
	const status = "http://witness.example:26657/status"
	for url := ""; url != status; {
		select {
		case url = <-asked:
		case <-time.After(patience):
			t.Fatal("the sidecar does not ask the witness through the proxy")
		}
	}
	probe := p.start("sei-run", "probe", "ready", "--mode", "validator", "--seid-host", p.host, "--home", string(p.home))
	if code := probe.wait(); code == 0 || !strings.Contains(probe.stderr.String(), "witness height 200, own 100") {
		t.Errorf("it ended with %d: %s", code, probe.stderr)
	}
	for len(asked) > 0 {
		if url := <-asked; !strings.HasPrefix(url, "http://witness.example") {
			t.Errorf("%s was asked through the proxy", url)
		}
	}
}
