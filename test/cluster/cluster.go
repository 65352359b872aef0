// Package cluster gives a test package a real Kubernetes control plane of its
// own: etcd, API server, controller-manager, scheduler and KWOK in place of
// kubelets, with the operator's kinds installed.
//
// The control plane runs in a process of its own, the lab's, which ends
// everything it started when the test process goes away, however that happens:
// the pipe to its standard input is the life line.
//
// Nothing in a test acts as cluster-admin. A test acts as the operator, with its
// ServiceAccount and the role that is shipped, or as a person, who has the
// cluster's ordinary admin role. A missing permission fails the test.
package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Cluster is a running control plane.
type Cluster struct {
	// Kubectl is the path of a kubectl of the control plane's version.
	Kubectl string
	// PodNetwork is the part of the loopback network that pods get addresses
	// from. A server bound to a pod's address is reached as the pod would be.
	PodNetwork netip.Prefix

	dir        string
	auditLog   string
	components map[string]int // process ids by name
	admin      *rest.Config
	operator   *rest.Config
	person     *rest.Config
}

// shared is the cluster of the test package, set by Main.
var shared *Cluster

// Main is what a package's TestMain calls: it starts a control plane, runs the
// tests, and ends it. Its logs are kept when a test failed, and the path printed.
func Main(m *testing.M) {
	os.Exit(runThen(m, func(*Cluster) error { return nil }))
}

// runThen runs the tests, and looks at the cluster after they passed.
func runThen(m *testing.M, check func(*Cluster) error) int {
	// controller-runtime complains at length when nobody sets a logger.
	log.SetLogger(logr.Discard())
	// The lab ends with its standard input; an interrupt only has to end this
	// process in an orderly way.
	//nolint:forbidigo // a TestMain is where the context of a test package begins
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	lab, err := startLab(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "no control plane to test against: %v\n", err)
		return 1
	}
	code := 1
	if shared, err = newCluster(ctx, lab.info); err != nil {
		fmt.Fprintf(os.Stderr, "preparing the control plane: %v\n", err)
	} else {
		code = m.Run()
		shared.hangUp()
		if err := check(shared); err != nil && code == 0 {
			fmt.Fprintf(os.Stderr, "after all tests: %v\n", err)
			code = 1
		}
	}
	if err := lab.stop(); err != nil {
		fmt.Fprintf(os.Stderr, "the control plane did not end well: %v\n", err)
		code = 1
	}
	stop()
	// Whoever needs a control plane has goroutines to leave behind.
	// A watch of metadata that is stopped while an event is on its way keeps client-go's
	// own goroutine; nothing of ours can end it.
	ofClientGo := goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop")
	if err := goleak.Find(ofClientGo); err != nil && code == 0 {
		fmt.Fprintf(os.Stderr, "the tests left something running: %v\n", err)
		code = 1
	}
	if code != 0 {
		fmt.Fprintf(os.Stderr, "logs of the control plane: %s\n", lab.info.Logs)
		return code
	}
	if err := os.RemoveAll(lab.info.Dir); err != nil {
		fmt.Fprintf(os.Stderr, "removing the control plane's directory: %v\n", err)
		return 1
	}
	return 0
}

// hangUp closes the connections that are kept for the next request. All clients of one
// identity share them.
func (c *Cluster) hangUp() {
	for _, config := range []*rest.Config{c.admin, c.operator, c.person} {
		if transport, err := rest.TransportFor(config); err == nil {
			utilnet.CloseIdleConnectionsFor(transport)
		}
	}
}

// Get is the control plane that Main started.
func Get(tb testing.TB) *Cluster {
	tb.Helper()
	if shared == nil {
		tb.Fatal("this package has no control plane: call cluster.Main from its TestMain")
	}
	return shared
}

// labInfo is what the lab says about a control plane once it is ready.
type labInfo struct {
	Kubeconfig string         `json:"kubeconfig"`
	Kubectl    string         `json:"kubectl"`
	Dir        string         `json:"dir"`
	Logs       string         `json:"logs"`
	AuditLog   string         `json:"auditLog"`
	PodNetwork netip.Prefix   `json:"podNetwork"`
	Components map[string]int `json:"components"`
}

// lab is the process that runs the control plane.
type lab struct {
	command  *exec.Cmd
	lifeLine io.Closer
	info     labInfo
}

func startLab(ctx context.Context) (*lab, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return nil, err
	}
	binary, err := buildLab(ctx, root)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(filepath.Dir(binary)) //nolint:errcheck // once it runs, the file is of no use
	command := exec.CommandContext(ctx, binary, "kube", "run",
		"--install", filepath.Join(root, "config", "crd"), "--install", filepath.Join(root, "config", "rbac"),
		"--install", filepath.Join(root, "config", "access", "people.yaml"), "--install", filepath.Join(root, "config", "access", "proxy.yaml"))
	command.Stderr = os.Stderr
	lifeLine, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	// An interrupted run ends the lab in order, not by force.
	command.Cancel = lifeLine.Close
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting the lab: %w", err)
	}
	started := &lab{command: command, lifeLine: lifeLine}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the lab ended before its control plane was ready (its reason is above): %w",
			errors.Join(err, started.stop()))
	}
	if err := json.Unmarshal(line, &started.info); err != nil {
		return nil, errors.Join(fmt.Errorf("the lab said %q instead of where its control plane is: %w", line, err), started.stop())
	}
	return started, nil
}

// buildLab builds the lab's command: started by "go run" it could not be waited for.
func buildLab(ctx context.Context, root string) (string, error) {
	dir, err := os.MkdirTemp("", "sei-operator-lab-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "lab")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "lab"), "-o", binary, ".")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the lab: %w\n%s", err, output)
	}
	return binary, nil
}

func (l *lab) stop() error {
	l.lifeLine.Close() //nolint:errcheck // closed twice when the run was interrupted, which is fine
	return l.command.Wait()
}

// RepositoryRoot is the folder above the working directory that holds the lab.
func RepositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "lab", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("there is no lab/go.mod above the working directory: work inside the repository")
		}
		dir = parent
	}
}

func loadKubeconfig(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("reading the lab's kubeconfig: %w", err)
	}
	// The API server's own fairness is enough; a limiter in the client would only
	// slow the tests down.
	config.QPS = -1
	return config, nil
}
