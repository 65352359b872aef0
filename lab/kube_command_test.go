//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/lab/kube"
	"github.com/sei-operator/sei-operator/lab/process"
)

// mainVariable makes the test binary be the lab command.
const mainVariable = "LAB_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func lab(t *testing.T, arguments ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], arguments...)
	command.Env = append(os.Environ(), mainVariable+"=1")
	return command
}

// running is a "run" that is ready.
type running struct {
	command *exec.Cmd
	stdin   io.Closer
	stdout  *bufio.Reader
	stderr  *bytes.Buffer
	info    kube.Info
}

// start starts a "kube run".
func start(t *testing.T, dir string, flags ...string) *running {
	t.Helper()
	r := startRun(t, append([]string{"kube", "run", "--dir", dir}, flags...)...)
	if len(r.info.Components) != 5 {
		t.Fatalf("components: %v", r.info.Components)
	}
	return r
}

func startRun(t *testing.T, arguments ...string) *running {
	t.Helper()
	r := &running{command: lab(t, arguments...), stderr: &bytes.Buffer{}}
	r.command.Stderr = r.stderr
	var err error
	if r.stdin, err = r.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := r.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.stdout = bufio.NewReader(out)
	if err := r.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.command.ProcessState == nil {
			_ = r.command.Process.Kill()
			_ = r.command.Wait()
		}
	})
	line, err := r.stdout.ReadBytes('\n')
	if err != nil {
		_ = r.command.Wait()
		t.Fatalf("not ready: %v\n%s", err, r.stderr)
	}
	if err := json.Unmarshal(line, &r.info); err != nil {
		t.Fatal(err)
	}
	for name, pid := range r.info.Components {
		if !process.Alive(pid) {
			t.Fatalf("%s does not run", name)
		}
	}
	return r
}

// wait returns the exit code, and checks that nothing more was written to standard output.
func (r *running) wait(t *testing.T) int {
	t.Helper()
	if rest, err := io.ReadAll(r.stdout); err != nil || len(rest) > 0 {
		t.Errorf("more output: %q, %v", rest, err)
	}
	var exit *exec.ExitError
	if err := r.command.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return r.command.ProcessState.ExitCode()
}

func (r *running) checkGone(t *testing.T) {
	t.Helper()
	for name, pid := range r.info.Components {
		if process.Alive(pid) {
			t.Errorf("%s (process %d) is alive", name, pid)
		}
	}
}

// checkClean wants the logs to be there, and nothing else.
func checkClean(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != "logs" {
		t.Errorf("left behind: %v", entries)
	}
	if info, err := os.Stat(filepath.Join(dir, "logs", "audit.log")); err != nil || info.Size() == 0 {
		t.Errorf("no logs: %v", err)
	}
}

func TestRunEndsWithItsInput(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	if err := r.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, r.stderr)
	}
	r.checkGone(t)
	checkClean(t, dir)
	if !strings.Contains(r.stderr.String(), "cluster ready in ") {
		t.Errorf("stderr: %s", r.stderr)
	}
}

func TestRunEndsAtSIGTERM(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	if err := r.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, r.stderr)
	}
	r.checkGone(t)
	checkClean(t, dir)
}

func TestKilledSupervisorTakesItsChildrenAlong(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	if err := r.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.wait(t)
	deadline := time.After(time.Minute)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for name, pid := range r.info.Components {
		for process.Alive(pid) {
			select {
			case <-ticker.C:
			case <-deadline:
				t.Fatalf("%s (process %d) outlived its supervisor", name, pid)
			}
		}
	}

	// The next one in the same place starts from nothing.
	again := start(t, dir)
	if err := again.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if code := again.wait(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, again.stderr)
	}
	checkClean(t, dir)
}

func TestDeathOfADaemonEndsTheCluster(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	if err := syscall.Kill(r.info.Components["kube-scheduler"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(t); code != 1 {
		t.Errorf("exit code %d", code)
	}
	r.checkGone(t)
	checkClean(t, dir)
	for _, part := range []string{"kube-scheduler ended unexpectedly", "signal: killed", filepath.Join(dir, "logs", "kube-scheduler.log")} {
		if !strings.Contains(r.stderr.String(), part) {
			t.Errorf("missing %q in %s", part, r.stderr)
		}
	}
}

func TestTwoClustersAtOnce(t *testing.T) {
	dir := t.TempDir()
	first, second := start(t, dir), start(t, t.TempDir())
	if first.info.Network == second.info.Network {
		t.Errorf("both have %s", first.info.Network)
	}
	third := lab(t, "kube", "run", "--dir", dir)
	if _, err := third.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	output, err := third.CombinedOutput()
	if err == nil || !strings.Contains(string(output), dir+" belongs to another cluster") {
		t.Errorf("%v: %s", err, output)
	}
	for _, r := range []*running{first, second} {
		if err := r.stdin.Close(); err != nil {
			t.Fatal(err)
		}
		if code := r.wait(t); code != 0 {
			t.Errorf("exit code %d\n%s", code, r.stderr)
		}
		r.checkGone(t)
	}
}

func TestBackground(t *testing.T) {
	cache := newCache(t)
	run := func(wantCode int, command string, parts ...string) {
		t.Helper()
		output := cache.lab(t, wantCode, "kube", command)
		for _, part := range parts {
			if !strings.Contains(output, part) {
				t.Errorf("%s: missing %q in\n%s", command, part, output)
			}
		}
	}
	run(1, "status", "no cluster is running")
	run(0, "down", "no cluster is running")
	defer run(0, "down") // However far we get.
	run(0, "up", "the cluster is ready", "export KUBECONFIG="+string(cache), "kubectl")
	info := cache.info(t, standInCluster)
	run(0, "up", "runs already", info.APIServer)
	run(0, "status", info.Version, "node-1", fmt.Sprintf("process %d", info.Components["etcd"]))

	run(0, "down", "has ended")
	(&running{info: info}).checkGone(t)
	if process.Alive(info.PID) {
		t.Error("the supervisor is alive")
	}
	checkClean(t, info.Dir)
	run(1, "status")
}

func TestRunWithoutInputSaysSo(t *testing.T) {
	output, err := lab(t, "kube", "run", "--dir", t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "standard input has ended") {
		t.Errorf("%v: %s", err, output)
	}
}

func TestHelpNamesTheCommands(t *testing.T) {
	output, err := lab(t, "kube", "--help").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"build", "up", "down", "status", "run"} {
		if !strings.Contains(string(output), "\n  "+name+" ") {
			t.Errorf("missing %s in %s", name, output)
		}
	}
}
