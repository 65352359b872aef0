package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
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

// asProgram makes this test binary the program itself, under the name it holds.
const asProgram = "SEI_SIDECAR_TEST_NAME"

func TestMain(m *testing.M) {
	if name := os.Getenv(asProgram); name != "" {
		wrapStore = mortalStore(os.Getenv(dieAt))
		// A file that may not grow is then an error, as a full disk is.
		signal.Ignore(syscall.SIGXFSZ)
		// What the program starts is not the program.
		if err := os.Unsetenv(asProgram); err != nil {
			panic(err)
		}
		os.Exit(execute(append([]string{name}, os.Args[1:]...)))
	}
	fakeseid.Main()
	os.Exit(m.Run())
}

// httpClient is shared by all clients here.
var httpClient = &http.Client{}

// uid is that of the SeiNode of every pod here.
const uid = "0d5c9a6e-3c43-4b7a-9d55-5a8b7a1c2f10"

// pod is what a pod is to its containers: a volume, a shared directory and a
// loopback of its own. Every container is a real process.
type pod struct {
	t        testing.TB
	home     seid.Home
	socket   string
	document string
	host     string
	// program is what the containers run; empty for this test binary itself.
	program string
	control *fakeseid.Control
	script  []fakeseid.Step
	client  *client.Client
	// dieAt is the transition at which the next sidecar kills itself.
	dieAt string
	// env is that of the containers, beside what the test needs.
	env  []string
	last json.RawMessage // the last status that was seen
}

func newPod(tb testing.TB) *pod {
	tb.Helper()
	//nolint:usetesting // the path of a unix socket has room for a hundred characters
	dir, err := os.MkdirTemp("", "pod")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	host := fakeseid.Host(tb)
	p := &pod{
		t: tb, home: seid.Home(filepath.Join(dir, "home")), socket: filepath.Join(dir, "s"),
		document: filepath.Join(dir, "document.json"), host: host, control: fakeseid.NewControl(tb),
	}
	p.script = fakeseid.Serving(fakeseid.Addresses(host), facts(100))
	p.client, err = client.New(client.Options{
		BaseURL: "http://" + p.address(), HTTPClient: httpClient, NodeUID: uid,
	})
	if err != nil {
		tb.Fatal(err)
	}
	// A validator has none of the services that delay its signal handler.
	if code := p.start("sei-run", "init", "--home", string(p.home), "--chain-id", "pacific-1", "--mode", "validator",
		"--moniker", "mine", "--seid", fakeseid.Executable(tb)).wait(); code != 0 {
		tb.Fatalf("init ended with %d", code)
	}
	return p
}

// facts are what seid says of itself.
func facts(maxPeerHeight int64) fakeseid.Facts {
	return fakeseid.Facts{
		ChainID: "pacific-1", NodeID: strings.Repeat("0", 40), Height: 100, MaxPeerHeight: maxPeerHeight, Peers: 1,
	}
}

func (p *pod) address() string { return net.JoinHostPort(p.host, "7777") }

// process is one of the pod's containers.
type process struct {
	t       testing.TB
	command *exec.Cmd
	stderr  *fakeseid.Output
	ended   chan struct{}
}

func (p *pod) start(name string, args ...string) *process {
	p.t.Helper()
	program, environment := p.program, p.control.Env(p.script...)
	if program == "" {
		program, environment = os.Args[0], append(environment, asProgram+"="+name, dieAt+"="+p.dieAt)
	}
	command := exec.CommandContext(context.WithoutCancel(p.t.Context()), program, args...)
	command.Args[0] = name
	command.Env = append(environment, p.env...)
	started := &process{t: p.t, command: command, stderr: &fakeseid.Output{}, ended: make(chan struct{})}
	command.Stderr = started.stderr
	if err := command.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(started.ended)
		_ = command.Wait()
	}()
	p.t.Cleanup(func() {
		_ = command.Process.Kill()
		<-started.ended
		if p.t.Failed() {
			p.t.Logf("%s %v:\n%s", name, args, started.stderr)
		}
	})
	return started
}

func (q *process) signal(sig syscall.Signal) {
	q.t.Helper()
	if err := q.command.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		q.t.Fatal(err)
	}
}

// wait returns the exit code; that of a signal is -1.
func (q *process) wait() int {
	q.t.Helper()
	select {
	case <-q.ended:
		return q.command.ProcessState.ExitCode()
	case <-time.After(patience):
		q.t.Fatalf("%v did not end:\n%s", q.command.Args, q.stderr)
		return 0
	}
}

// patience ends a test that would otherwise hang.
const patience = 20 * time.Second

// supervise starts the seid container.
func (p *pod) supervise() *process {
	p.t.Helper()
	return p.start("sei-run", "--home", string(p.home), "--socket", p.socket, "--seid-host", p.host, "--",
		fakeseid.Executable(p.t), "start", "--home", string(p.home))
}

// serve starts the sidecar container, and returns when it answers.
func (p *pod) serve() *process {
	p.t.Helper()
	started := p.start("sei-sidecar", "serve", "--home", string(p.home), "--socket", p.socket, "--node-uid", uid,
		"--listen", p.address(), "--seid-host", p.host, "--document", p.document)
	p.until("the sidecar answers", func(ctx context.Context) bool {
		select {
		case <-started.ended:
			p.t.Fatalf("the sidecar ended:\n%s", started.stderr)
		default:
		}
		_, err := p.client.Status(ctx)
		return err == nil
	})
	return started
}

// until asks again and again; what is asked are other processes, which can only be
// asked.
func (p *pod) until(what string, met func(context.Context) bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !met(ctx) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			p.t.Fatalf("%s: not within %s; the last status: %s", what, patience, p.last)
		}
	}
}

// untilStatus waits for a status.
func (p *pod) untilStatus(what string, met func(api.Status) bool) api.Status {
	p.t.Helper()
	var last api.Status
	p.until(what, func(ctx context.Context) bool {
		status, err := p.client.Status(ctx)
		if err != nil {
			return false
		}
		last = status
		p.last, _ = json.Marshal(status)
		return met(status)
	})
	return last
}

// run carries out a task and returns how it ended.
func (p *pod) run(kind string, params any) api.TaskResult {
	p.t.Helper()
	result, err := p.client.Wait(p.t.Context(), p.submit(kind, params), 30*time.Second)
	if err != nil {
		p.t.Fatalf("waiting for %s: %v", kind, err)
	}
	return result
}

// submit sends a task and does not wait for it.
func (p *pod) submit(kind string, params any) uuid.UUID {
	p.t.Helper()
	request := newTask(p.t, kind, params)
	if err := p.accept(request); err != nil {
		p.t.Fatalf("submitting %s: %v", kind, err)
	}
	return request.ID
}

func newTask(tb testing.TB, kind string, params any) api.TaskRequest {
	tb.Helper()
	content, err := json.Marshal(params)
	if err != nil {
		tb.Fatal(err)
	}
	return api.TaskRequest{ID: uuid.New(), Type: kind, Params: content}
}

// accept submits a task as soon as the sidecar has read what an earlier one left
// unfinished.
func (p *pod) accept(request api.TaskRequest) (err error) {
	p.t.Helper()
	p.until("tasks are accepted", func(ctx context.Context) bool {
		_, err = p.client.Submit(ctx, request)
		return client.Reason(err) != api.ReasonStoreUnavailable
	})
	return err
}

// must carries out a task that has to succeed.
func (p *pod) must(kind string, params any) api.TaskResult {
	p.t.Helper()
	result := p.run(kind, params)
	if result.Status != api.TaskCompleted {
		p.t.Fatalf("%s ended as %s: %s: %s", kind, result.Status, result.Reason, result.Error)
	}
	return result
}

// mount writes the document that the operator mounts.
func (p *pod) mount(intent seid.Intent) {
	p.t.Helper()
	content, err := json.Marshal(intent)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(p.document, content, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func intent(serial int64, overrides map[string]string) seid.Intent {
	return seid.Intent{Serial: serial, ChainID: "pacific-1", Mode: seid.ModeValidator, Overrides: overrides}
}

// alive tells whether a process exists.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
