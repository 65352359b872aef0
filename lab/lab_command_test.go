//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/lab/images"
	"github.com/sei-operator/sei-operator/lab/kube"
)

// roundsVariable is how often TestLab goes up and down, if not three times.
const roundsVariable = "SEI_LAB_ROUNDS"

func kubectl(t *testing.T, info kube.Info, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), info.Kubectl, append([]string{"--kubeconfig=" + info.Kubeconfig, "--cache-dir=" + t.TempDir()}, arguments...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %q: %v\n%s", arguments, err, output)
	}
	return string(output)
}

// makeTester makes the image that the test's pods run, and the program in it.
func makeTester(t *testing.T, name, tag string) (archive, program string) {
	t.Helper()
	dir := t.TempDir()
	maker := images.Maker{Repository: labRepository, Tag: labTag, Out: dir, Programs: dir}
	made, err := maker.Make(t.Context(), images.Recipe{Name: name, Tag: tag, Module: "lab", Package: "./node/tester", User: images.NonRoot})
	if err != nil {
		t.Fatal(err)
	}
	return made.Archive, filepath.Join(dir, name+"-"+tag)
}

func TestLab(t *testing.T) {
	needRealNode(t)
	rounds := 3
	if text := os.Getenv(roundsVariable); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	cache := newCache(t)
	archive, tester := makeTester(t, "tester", labTag)
	before := look(t)
	cache.lab(t, 1, "status")
	if output := cache.lab(t, 0, "down"); !strings.Contains(output, "no cluster is running") {
		t.Errorf("output: %s", output)
	}
	for round := range rounds {
		started := time.Now()
		output := cache.lab(t, 0, "up")
		upTime := time.Since(started)
		t.Cleanup(func() { // However far we get; the test's own context is done by then.
			command := exec.Command(os.Args[0], "down") //nolint:noctx // the test's context is done
			command.Env = append(os.Environ(), mainVariable+"=1", cacheVariable+"="+string(cache))
			_ = command.Run()
		})
		for _, part := range []string{"the cluster is ready", "export KUBECONFIG=" + string(cache), "sei-operator.lab/sei-operator:dev", "sei-operator.lab/sei-sidecar:dev"} {
			if !strings.Contains(output, part) {
				t.Errorf("missing %q in\n%s", part, output)
			}
		}
		info := cache.info(t, realCluster)
		who := inhabitantsOf(t, info)
		if round == 0 {
			// Nothing of the lab may be seen on the machine, except the cgroups of pods.
			made := changes(t, before, info.Dir)
			for _, change := range made {
				if !strings.HasPrefix(change, "cgroup ") {
					t.Errorf("changed on the machine: %s", change)
				}
			}
			if alive := who.alive(); len(made) == 0 || len(alive) < len(info.Components) {
				t.Errorf("this test does not see what it looks for: %q, %q", made, alive)
			}
			cache.lab(t, 0, "status")
			restartKubelet(t, cache, info)
			upAgain(t, cache, info)
		}
		cache.lab(t, 0, "load", archive)
		started = time.Now()
		usePods(t, cache, info, tester)
		podTime := time.Since(started)

		started = time.Now()
		cache.lab(t, 0, "down")
		t.Logf("round %d: up %.1f s, pods %.1f s, down %.1f s", round, upTime.Seconds(), podTime.Seconds(), time.Since(started).Seconds())
		nothingLeft(t, before, who)
	}
}

// restartKubelet gives the kubelet another process than the lab knows of.
func restartKubelet(t *testing.T, cache ownCache, info kube.Info) {
	t.Helper()
	control, err := new(net.Dialer).DialContext(t.Context(), "unix", info.Control)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	fmt.Fprintln(control, "restart kubelet")
	if answer, err := io.ReadAll(control); err != nil || string(answer) != "ok\n" {
		t.Fatalf("%q, %v", answer, err)
	}
	var output string
	eventually(t, "everything is healthy again", func() bool {
		var code int
		output, code = cache.try(t, "status")
		return code == 0
	})
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "kubelet ") && !strings.Contains(line, "restarted") {
			t.Errorf("it names a process that has ended: %s", line)
		}
	}
}

// upAgain wants a cluster that runs already to get the images of the tree as it is now.
func upAgain(t *testing.T, cache ownCache, info kube.Info) {
	t.Helper()
	recipe := images.StateSize
	image := func() string { return imageOnNode(t, info, labRepository+"/"+recipe.Name+":"+recipe.Tag) }
	current := image()
	old, _ := makeTester(t, recipe.Name, recipe.Tag) // As if the program had been another one.
	cache.lab(t, 0, "load", old)
	if image() == current {
		t.Fatal("this test does not see what it looks for")
	}
	output := cache.lab(t, 0, "up")
	for _, part := range []string{"runs already", "images loaded: "} {
		if !strings.Contains(output, part) {
			t.Errorf("missing %q in\n%s", part, output)
		}
	}
	if got := image(); got != current {
		t.Errorf("the node has %s, and not the image of the tree, which is %s", got, current)
	}
}

// imageOnNode is the digest of the image that has a name on the node.
func imageOnNode(t *testing.T, info kube.Info, reference string) string {
	t.Helper()
	builder, err := newBuilder()
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := builder.Runtime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.Release()
	socket := filepath.Join("/proc", strconv.Itoa(info.Components["lab"]), "root", "run/containerd/containerd.sock")
	output, err := exec.CommandContext(t.Context(), runtime.Containerd.Path("ctr"), "--address="+socket, "--namespace=k8s.io", "images", "list", "name=="+reference).Output()
	_, found, ok := strings.Cut(string(output), reference) // Its type and its digest.
	if fields := strings.Fields(found); err == nil && ok && len(fields) > 1 {
		return fields[1]
	}
	t.Fatalf("%v: %s", err, output)
	return ""
}

// usePods runs a pod with a native sidecar and a volume, and reaches its Service.
func usePods(t *testing.T, cache ownCache, info kube.Info, tester string) {
	t.Helper()
	kubectl(t, info, "apply", "--filename=testdata/pods.yaml")
	kubectl(t, info, "wait", "--for=condition=Ready", "pod/server", "pod/client", "--timeout="+patience.String())
	address := kubectl(t, info, "get", "service/web", "--output=jsonpath={.spec.clusterIP}")
	for _, url := range []string{
		"http://web/", "http://web.default.svc.cluster.local/", "http://" + address + "/",
		"http://web:81/", "http://" + address + ":81/",
	} {
		for _, pod := range []string{"client", "server"} { // The server is behind its own Service, too.
			got := kubectl(t, info, "exec", pod, "--", "tester", "get", url)
			if !strings.Contains(got, "written by an init container") {
				t.Errorf("%s at %s: %q", url, pod, got)
			}
		}
	}
	// From the machine: by address, in the lab's network.
	own := "http://" + kubectl(t, info, "get", "pod/client", "--output=jsonpath={.status.podIP}") + ":8080/"
	if got := cache.lab(t, 0, "exec", "--", tester, "get", own); !strings.Contains(got, "nonroot") {
		t.Errorf("%s: %q", own, got)
	}
	// An image that nobody has is a real failure.
	kubectl(t, info, "run", "missing", "--image=sei-operator.lab/nobody:has-it", "--restart=Never")
	kubectl(t, info, "wait", "pod/missing", "--for=jsonpath={.status.containerStatuses[0].state.waiting.reason}=ErrImagePull", "--timeout="+patience.String())
	// The data of a volume goes with its claim.
	volume := kubectl(t, info, "get", "pvc/data", "--output=jsonpath={.spec.volumeName}")
	kubectl(t, info, "delete", "pod/server", "--grace-period=1")
	kubectl(t, info, "delete", "pvc/data")
	kubectl(t, info, "wait", "--for=delete", "pv/"+volume, "--timeout="+patience.String())
	if left := glob(t, filepath.Join("/proc", strconv.Itoa(info.Components["lab"]), "root", "var/lib/volumes/*")); len(left) > 0 {
		t.Errorf("data left: %q", left)
	}
}

func TestAKilledLabLeavesNoProcessAndIsCleanedUp(t *testing.T) {
	needRealNode(t)
	cache := newCache(t)
	before := look(t)
	cache.lab(t, 0, "up")
	info := cache.info(t, realCluster)
	who := inhabitantsOf(t, info)
	if err := syscall.Kill(info.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all processes have ended", func() bool { return len(who.alive()) == 0 })
	for _, change := range changes(t, before, info.Dir) {
		if !strings.HasPrefix(change, "cgroup ") {
			t.Errorf("left on the machine: %s", change)
		}
	}
	output := cache.lab(t, 0, "down")
	for _, part := range []string{"no cluster is running", "removed what a cluster that was killed had left", info.Dir} {
		if !strings.Contains(output, part) {
			t.Errorf("missing %q in\n%s", part, output)
		}
	}
	nothingLeft(t, before, who)
}

// TestTheNextRunCleansUp: each has a directory of its own.
func TestTheNextRunCleansUp(t *testing.T) {
	needRealNode(t)
	t.Setenv(cacheVariable, string(newCache(t)))
	before := look(t)
	killed := startRun(t, "run")
	who := inhabitantsOf(t, killed.info)
	if err := killed.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.wait(t)
	eventually(t, "all processes have ended", func() bool { return len(who.alive()) == 0 })
	if left := changes(t, before, who.dir); len(left) == 0 {
		t.Error("this test does not see what it looks for")
	}
	next := start(t, "")
	if next.info.Dir == killed.info.Dir {
		t.Error("both have the same directory")
	}
	if err := next.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if code := next.wait(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, next.stderr)
	}
	nothingLeft(t, before, who)
}

func TestALabThatCannotStartLeavesNothing(t *testing.T) {
	needRealNode(t)
	before := look(t)
	dir := t.TempDir()
	bad := filepath.Join(t.TempDir(), "bad.tar")
	if err := os.WriteFile(bad, []byte("not an image"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := lab(t, "run", "--dir", dir, "--load", bad)
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	output, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "cannot import the image") || !strings.Contains(string(output), "bad.tar") {
		t.Errorf("%v: %s", err, output)
	}
	nothingLeft(t, before, inhabitants{dir: dir})
}

func TestALabThatIsInterruptedLeavesNothing(t *testing.T) {
	needRealNode(t)
	before := look(t)
	dir := t.TempDir()
	command := lab(t, "run", "--dir", dir)
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server has begun to start", func() bool {
		_, err := os.Stat(filepath.Join(dir, "logs", "kube-apiserver.log"))
		return err == nil
	})
	if alive := (inhabitants{dir: dir}).alive(); len(alive) == 0 {
		t.Error("this test does not see what it looks for")
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err == nil {
		t.Error("success")
	}
	nothingLeft(t, before, inhabitants{dir: dir})
}

func TestATakenPortIsNamed(t *testing.T) {
	needRealNode(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "0.0.0.0:10248")
	switch {
	case err == nil:
		defer listener.Close()
	case !errors.Is(err, syscall.EADDRINUSE): // Taken by somebody else is as good.
		t.Fatal(err)
	}
	command := lab(t, "run", "--dir", t.TempDir())
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	output, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(output), ":10248 is taken") || !strings.Contains(string(output), "ss -ltnp") {
		t.Errorf("%v: %s", err, output)
	}
}

func TestWithoutLinuxItSaysSo(t *testing.T) {
	program := filepath.Join(t.TempDir(), "lab")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	command.Env = append(os.Environ(), "GOOS=darwin", "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if !strings.Contains(read(t, program), "the lab needs Linux") {
		t.Error("it does not say what it needs")
	}
}
