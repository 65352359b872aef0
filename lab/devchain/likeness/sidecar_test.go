package likeness

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sei-operator/sei-operator/lab/devchain/chain"
	"github.com/sei-operator/sei-operator/lab/devchain/home"
)

const nodeUID = "0d5c9a6e-3c43-4b7a-9d55-5a8b7a1c2f10"

// pod is the two containers of a node, as processes: the sidecar, and seid under its
// supervisor.
type pod struct {
	t       *testing.T
	program string
	dir     string
	home    home.Dir
	node    *chain.Node
}

// newPod is the pod of a chain's only validator, on an empty volume.
func newPod(t *testing.T, n *chain.Node) *pod {
	t.Helper()
	// The path of a socket has room for a hundred characters.
	dir, err := os.MkdirTemp("", "pod") //nolint:usetesting // its directories are too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &pod{t: t, program: filepath.Join(dir, "sei-sidecar"), dir: dir, home: home.Dir(filepath.Join(dir, "home")), node: n}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", p.program, "./cmd/sei-sidecar")
	build.Dir = filepath.Join("..", "..", "..")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the sidecar: %v\n%s", err, output)
	}
	return p
}

func (p *pod) start(log string, args ...string) *chain.Process {
	p.t.Helper()
	command := exec.CommandContext(context.WithoutCancel(p.t.Context()), p.program, args...)
	// In a pod all of this is on its usual ports; here many nodes share a machine.
	command.Env = append(os.Environ(),
		"SEID_RPC_LADDR=tcp://"+port(p.node, "26657"),
		"SEID_P2P_LADDR=tcp://"+port(p.node, "26656"),
		"SEID_INSTRUMENTATION_PROMETHEUS_LISTEN_ADDR="+port(p.node, "26660"))
	started, err := chain.Spawn(command, filepath.Join(p.dir, log))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = started.Signal(syscall.SIGKILL)
		<-started.Done()
		if p.t.Failed() {
			p.t.Logf("%s:\n%s", log, started.Tail(20))
		}
	})
	return started
}

func (p *pod) sidecar() *chain.Process {
	return p.start("sidecar.log", "serve", "--home", string(p.home), "--socket", p.dir+"/s", "--node-uid", nodeUID,
		"--listen", port(p.node, "7777"), "--seid-host", p.node.Host)
}

// run starts the container of seid with a version of it.
func (p *pod) run(binary string) *chain.Process {
	return p.start("run.log", "run", "--home", string(p.home), "--socket", p.dir+"/s", "--seid-host", p.node.Host,
		"--", binary, "start", "--home", string(p.home))
}

// call sends a request to the sidecar and decodes the answer.
func (p *pod) call(ctx context.Context, method, path string, body, result any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+port(p.node, "7777")+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Sei-Node-Uid", nodeUID)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %d %s", method, path, response.StatusCode, answer)
	}
	return json.Unmarshal(answer, result)
}

// do carries out a task that has to succeed.
func (p *pod) do(kind string, params any) {
	p.t.Helper()
	random := make([]byte, 16)
	_, _ = rand.Read(random)
	random[6], random[8] = random[6]&0x0f|0x40, random[8]&0x3f|0x80
	id := fmt.Sprintf("%x-%x-%x-%x-%x", random[:4], random[4:6], random[6:8], random[8:10], random[10:])
	var accepted map[string]any
	until(p.t, kind+" is accepted", func(ctx context.Context) bool {
		return p.call(ctx, http.MethodPost, "/v0/tasks", map[string]any{"id": id, "type": kind, "params": params}, &accepted) == nil
	})
	var result struct {
		Status string `json:"status"`
		Error  string `json:"error"`
	}
	until(p.t, kind+" ends", func(ctx context.Context) bool {
		return p.call(ctx, http.MethodGet, "/v0/tasks/"+id, nil, &result) == nil && result.Status != "running"
	})
	if result.Status != "completed" {
		p.t.Fatalf("%s: %+v", kind, result)
	}
}

// podStatus is the part of the sidecar's status that matters here.
type podStatus struct {
	Seid struct {
		State         string `json:"state"`
		PID           int    `json:"pid"`
		SafeToStop    bool   `json:"safeToStop"`
		ParkedBecause string `json:"parkedBecause"`
		RPC           bool   `json:"rpc"`
	} `json:"seid"`
	Upgrade *struct {
		Name   string `json:"name"`
		Height int64  `json:"height"`
		Halted bool   `json:"halted"`
	} `json:"upgrade"`
}

func (p *pod) untilStatus(what string, wanted func(podStatus) bool) podStatus {
	p.t.Helper()
	var status podStatus
	until(p.t, what, func(ctx context.Context) bool {
		status = podStatus{}
		return p.call(ctx, http.MethodGet, "/v0/status", nil, &status) == nil && wanted(status)
	})
	return status
}

// copyFile copies one of the chain's files over what "seid init" made.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTheRealSidecarDrivesIt: the sidecar and the supervisor initialise a devchain node,
// configure it, start it, restart it in place, recognise its halt for an upgrade, and go
// on with the next version.
func TestTheRealSidecarDrivesIt(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	p := newPod(t, n)
	ends(t, p.start("init.log", "init", "--home", string(p.home), "--chain-id", "loop-1", "--mode", "validator", "--moniker", "mine", "--seid", v1), 0)
	copyFile(t, n.Home.Genesis(), p.home.Genesis())
	for _, key := range []string{"priv_validator_key.json", "node_key.json"} {
		copyFile(t, n.Home.Config(key), p.home.Config(key))
	}
	p.sidecar()
	container := p.run(v1)
	p.do("config-apply", map[string]any{"document": map[string]any{"serial": 1, "chainId": "loop-1", "mode": "validator"}})
	p.do("config-apply", map[string]any{"dryRun": true})
	p.do("mark-ready", map[string]any{})
	running := func(s podStatus) bool { return s.Seid.State == "running" && s.Seid.RPC && s.Seid.SafeToStop }
	first := p.untilStatus("seid runs", running)
	p.do("restart-seid", map[string]any{})
	if second := p.untilStatus("seid runs again", running); second.Seid.PID == first.Seid.PID {
		t.Errorf("it is still process %d", second.Seid.PID)
	}

	plan := schedule(t, n, "v2", 10)
	halted := p.untilStatus("seid is halted", func(s podStatus) bool { return s.Upgrade != nil && s.Upgrade.Halted })
	if halted.Upgrade.Name != "v2" || halted.Upgrade.Height != plan.Height || halted.Seid.State != "parked" {
		t.Errorf("%+v", halted)
	}
	signal(t, container, syscall.SIGTERM)
	<-container.Done()
	container = p.run(v2)
	p.untilStatus("the new version runs", running)
	until(t, "the chain goes on", func(ctx context.Context) bool {
		status, err := n.Status(ctx)
		return err == nil && status.Height > plan.Height
	})
	signal(t, container, syscall.SIGTERM)
	ends(t, container, 0)
}
