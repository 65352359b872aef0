// Package live gives stories a real cluster (the lab's), the operator in it as it is
// shipped, and a chain under it, whose own record says what came of what was done.
//
// The lab and the chain are Go modules of their own and run as processes of their own:
// "lab run" or "lab up" for the cluster, "devchain watch" for the record.
package live

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// Cluster is a real cluster that runs.
type Cluster struct {
	// Client is that of the cluster's administrator.
	Client client.WithWatch
	Config *rest.Config

	Info Info

	programs programs
	// run is the process of a cluster that ends with us, or nil.
	run      *exec.Cmd
	lifeLine io.Closer
}

// Info is what the lab says about a cluster.
type Info struct {
	Kubeconfig string         `json:"kubeconfig"`
	Kubectl    string         `json:"kubectl"`
	Version    string         `json:"version"`
	Dir        string         `json:"dir"`
	Logs       string         `json:"logs"`
	AuditLog   string         `json:"auditLog"`
	Control    string         `json:"control"`
	Components map[string]int `json:"components"`
}

// programs are those of the lab, built from this tree.
type programs struct{ root, dir string }

func (p programs) lab() string      { return filepath.Join(p.dir, "lab") }
func (p programs) devchain() string { return filepath.Join(p.dir, "devchain") }

// build builds them: started by "go run" they could not be waited for. What go has to say
// is told to out: the first time that are many modules.
func build(ctx context.Context, out io.Writer) (programs, error) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return programs{}, err
	}
	dir, err := os.MkdirTemp("", "sei-operator-live-")
	if err != nil {
		return programs{}, err
	}
	built := programs{root, dir}
	for _, one := range []struct{ module, program, output string }{
		{"lab", ".", built.lab()},
		{filepath.Join("lab", "devchain"), "./cmd/devchain", built.devchain()},
	} {
		command := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, one.module), "-o", one.output, one.program)
		command.Stdout, command.Stderr = out, out
		if err := command.Run(); err != nil {
			return built, errors.Join(fmt.Errorf("building %s of %s (what go says is above): %w", one.program, one.module, err), built.remove())
		}
	}
	return built, nil
}

func (p programs) remove() error { return os.RemoveAll(p.dir) }

// Check tells what is missing on this machine for a real cluster.
func Check(ctx context.Context) error {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "run", "-C", filepath.Join(root, "lab"), ".", "check")
	if output, err := command.CombinedOutput(); err != nil {
		return errors.New(string(bytes.TrimSpace(output)))
	}
	return nil
}

// Run starts a cluster that ends with this process, however that ends.
func Run(ctx context.Context) (*Cluster, error) {
	built, err := build(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	c := &Cluster{programs: built}
	c.run = exec.CommandContext(ctx, built.lab(), "run", "--images",
		"--install", filepath.Join(built.root, "config", "crd"), "--install", filepath.Join(built.root, "config", "rbac"))
	c.run.Stderr = os.Stderr
	lifeLine, err := c.run.StdinPipe()
	if err != nil {
		return nil, err
	}
	// An interrupted run ends the lab in order, not by force.
	c.lifeLine, c.run.Cancel = lifeLine, lifeLine.Close
	stdout, err := c.run.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.run.Start(); err != nil {
		return nil, fmt.Errorf("starting the lab: %w", err)
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = c.connect(line)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the lab gave no cluster (its reason is above): %w", err), c.Close())
	}
	return c, nil
}

// Up starts the background cluster of the lab, or gives the one that runs the images of
// this tree. It stays when this process ends. What is done is told to out.
func Up(ctx context.Context, out io.Writer) (*Cluster, error) {
	built, err := build(ctx, out)
	if err != nil {
		return nil, err
	}
	c := &Cluster{programs: built}
	up := exec.CommandContext(ctx, built.lab(), "up")
	up.Stdout, up.Stderr = io.Discard, out
	if err := up.Run(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the cluster: %w", err), c.Close())
	}
	info, err := exec.CommandContext(ctx, built.lab(), "info").Output()
	if err == nil {
		err = c.connect(info)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// connect makes the clients for a cluster that the lab has told about.
func (c *Cluster) connect(info []byte) error {
	if err := json.Unmarshal(info, &c.Info); err != nil {
		return fmt.Errorf("the lab said %q instead of where its cluster is: %w", info, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Info.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the lab's kubeconfig: %w", err)
	}
	config.QPS = -1 // The API server's own fairness is enough.
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	c.Config = config
	c.Client, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	return err
}

// Close ends a cluster that Run started, and forgets one that Up found.
func (c *Cluster) Close() error {
	var err error
	if c.run != nil {
		c.lifeLine.Close() //nolint:errcheck // closed twice when the run was interrupted, which is fine
		err = c.run.Wait()
	}
	return errors.Join(err, c.programs.remove())
}

// inside is a command of this machine in the cluster's network, where pods are reached
// by their addresses.
func (c *Cluster) inside(ctx context.Context, program string, arguments ...string) *exec.Cmd {
	all := append([]string{"exec", "--process", strconv.Itoa(c.Info.Components["lab"]), "--", program}, arguments...)
	return exec.CommandContext(ctx, c.programs.lab(), all...)
}

// Restart kills a daemon of the cluster, for example "kubelet", and starts it again. It
// returns when the API server answers: that may be the one that was killed, or have lost
// its etcd.
func (c *Cluster) Restart(ctx context.Context, daemon string) error {
	connection, err := new(net.Dialer).DialContext(ctx, "unix", c.Info.Control)
	if err != nil {
		return err
	}
	defer connection.Close()
	if _, err := fmt.Fprintf(connection, "restart %s\n", daemon); err != nil {
		return err
	}
	answer, err := io.ReadAll(connection)
	if err != nil {
		return err
	}
	if said := strings.TrimSpace(string(answer)); said != "ok" {
		return fmt.Errorf("restarting %s: %s", daemon, said)
	}
	return Poll(ctx, "the API server", func() (bool, error) {
		err := c.Client.Get(ctx, types.NamespacedName{Name: metav1.NamespaceDefault}, &corev1.Namespace{})
		return err == nil, err
	})
}

// requireVariable makes it an error when a real cluster cannot run here, so that where
// the stories ought to be tested they are. The lab's own tests know it too.
const requireVariable = "SEI_LAB_NODE"

// Required tells whether a machine without a real cluster is an error.
func Required() bool { return os.Getenv(requireVariable) == "required" }
