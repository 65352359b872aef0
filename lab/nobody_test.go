//go:build linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/kube"
	"github.com/sei-operator/sei-operator/lab/node"
	"github.com/sei-operator/sei-operator/lab/process"
)

// nobodyID is a user without rights, who owns nothing.
const nobodyID = 65534

// nobody runs the lab without root. The directory is nobody's own.
type nobody struct {
	dir         string
	environment []string
}

func newNobody(t *testing.T) nobody {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to be somebody else")
	}
	// A test's own directory is for its owner alone, and so is that of a test binary.
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, nobodyID, nobodyID); err != nil {
		t.Fatal(err)
	}
	n := nobody{dir, []string{mainVariable + "=1", "PATH=" + os.Getenv("PATH")}}
	link(t, os.Args[0], filepath.Join(dir, "lab"))
	return n
}

// link makes a file be at another place, too.
func link(t *testing.T, source, target string) {
	t.Helper()
	if os.Link(source, target) == nil {
		return
	}
	content, err := os.ReadFile(source) // Another file system.
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, content, 0o755); err != nil {
		t.Fatal(err)
	}
}

// ownLab builds the lab from a copy of its sources, which it reads when it runs: the
// repository may be for its owner alone.
func (n nobody) ownLab(t *testing.T) {
	t.Helper()
	source, program := filepath.Join(n.dir, "source"), filepath.Join(n.dir, "lab")
	if err := os.CopyFS(source, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-C", source, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

func (n nobody) command(t *testing.T, program string, arguments ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, arguments...)
	command.Env, command.Dir = n.environment, "/"
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyID, Gid: nobodyID}}
	return command
}

// lab runs a command to its end, and wants it to say some things.
func (n nobody) lab(t *testing.T, wantCode int, arguments []string, parts ...string) string {
	t.Helper()
	output, code := finish(t, n.command(t, filepath.Join(n.dir, "lab"), arguments...))
	if code != wantCode {
		t.Fatalf("%q: exit code %d\n%s", arguments, code, output)
	}
	for _, part := range parts {
		if !strings.Contains(output, part) {
			t.Errorf("%q: missing %q in\n%s", arguments, part, output)
		}
	}
	return output
}

// limits are what "up" says that it cannot show.
var limits = []string{"You are not root", "stand-in nodes", "volumes with data in them"}

func TestWithoutRootItSaysWhatIsMissing(t *testing.T) {
	n := newNobody(t)
	// Nothing is built for nobody, who has no home: it ends after what it has to say.
	n.lab(t, 1, []string{"up"}, append(limits, "no place for the lab's cache")...)
	for _, arguments := range [][]string{{"run"}, {"load", "image.tar"}, {"exec", "--", "true"}, {"check"}} {
		n.lab(t, 1, arguments, node.ErrNotRoot.Error())
	}
}

func TestWithoutRootThereIsAControlPlane(t *testing.T) {
	n := newNobody(t)
	n.environment = append(n.environment, "HOME="+n.dir, cacheVariable+"="+n.dir)
	n.ownLab(t)
	if output, err := n.command(t, "go", "env", "GOVERSION").CombinedOutput(); err != nil {
		if os.Getenv(requireVariable) == "required" {
			t.Fatalf("NOT TESTED, and %s=required: nobody cannot use Go: %v\n%s", requireVariable, err, output)
		}
		t.Skipf("nobody cannot use Go here: %v\n%s", err, output)
	}
	binaries, err := controlPlane(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer binaries.Release()
	for _, result := range []*build.Result{binaries.Kubernetes, binaries.Etcd, binaries.Kwok} {
		dir := filepath.Join(n.dir, "bin", filepath.Base(result.Dir))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range glob(t, filepath.Join(result.Dir, "*")) {
			link(t, file, filepath.Join(dir, filepath.Base(file)))
		}
	}

	defer n.lab(t, 0, []string{"down"}) // However far we get.
	n.lab(t, 0, []string{"up"}, append(limits, "the cluster is ready", "export KUBECONFIG="+n.dir)...)
	n.lab(t, 0, []string{"status"}, "node-1", "healthy")
	var info kube.Info
	if err := json.Unmarshal([]byte(n.lab(t, 0, []string{"info"})), &info); err != nil {
		t.Fatal(err)
	}
	n.lab(t, 1, []string{"exec", "--", "true"}, node.ErrNotRoot.Error())
	kubectl(t, info, "run", "pod", "--image=nobody/has:it")
	kubectl(t, info, "wait", "--for=condition=Ready", "pod/pod", "--timeout="+patience.String())

	n.lab(t, 0, []string{"down"}, "has ended")
	(&running{info: info}).checkGone(t)
	if process.Alive(info.PID) {
		t.Error("the supervisor is alive")
	}
	checkClean(t, info.Dir)
}
