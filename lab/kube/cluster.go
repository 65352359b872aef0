package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/kube/volumes"
	"github.com/sei-operator/sei-operator/lab/process"
)

// Info is what one needs to know to use a cluster.
type Info struct {
	Kubeconfig     string         `json:"kubeconfig"`
	Kubectl        string         `json:"kubectl"`
	APIServer      string         `json:"apiServer"`
	Version        string         `json:"version"`
	Network        string         `json:"network"`
	PodNetwork     string         `json:"podNetwork"`
	ServiceNetwork string         `json:"serviceNetwork"`
	Nodes          []string       `json:"nodes"`
	Dir            string         `json:"dir"`
	Logs           string         `json:"logs"`
	AuditLog       string         `json:"auditLog"`
	Control        string         `json:"control"` // a socket that takes "restart NAME"
	PID            int            `json:"pid"`
	Components     map[string]int `json:"components"` // process ids by name
	// Health has URLs at which daemons say how they are.
	Health map[string]string `json:"health"`
}

// Options say how a cluster differs from the one that most tests want.
type Options struct {
	// Install are manifests that the cluster begins with, files or directories.
	Install []string
	// Network is a network that somebody has reserved already.
	Network *Network
	// Workers run the pods in place of the stand-ins.
	Workers Workers
}

// startTimeout is far beyond what a start takes, even on a busy machine.
const startTimeout = 2 * time.Minute

// Cluster is a running control plane.
type Cluster struct {
	Info Info

	paths    paths
	install  []string
	network  *Network
	workers  Workers
	group    *process.Group
	binaries *build.ControlPlane
	lock     *build.Lock
	log      *os.File

	authority *authority
	config    *rest.Config
	client    kubernetes.Interface
	helpers   sync.WaitGroup
	stop      context.CancelFunc
}

// Start starts a cluster in dir, which is created if necessary. The cluster owns
// the binaries and the network from now on, also if it cannot start.
func Start(ctx context.Context, dir string, binaries *build.ControlPlane, options Options) (*Cluster, error) {
	c := &Cluster{
		paths: paths{dir}, install: options.Install, network: options.Network, workers: options.Workers,
		binaries: binaries, group: process.NewGroup(), stop: func() {},
	}
	if c.workers == nil {
		c.workers = &standIns{}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("gave up after %s", startTimeout))
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := checkInstallable(c.install); err != nil {
		return err
	}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	c.Info = Info{
		Kubeconfig:     c.paths.kubeconfig(),
		Kubectl:        c.binaries.Kubernetes.Path("kubectl"),
		APIServer:      c.network.APIServer(),
		Version:        c.binaries.Kubernetes.Version,
		Network:        c.network.CIDR().String(),
		PodNetwork:     c.network.Pods().String(),
		ServiceNetwork: c.network.Services().String(),
		Nodes:          c.workers.Nodes(),
		Dir:            c.paths.dir,
		Logs:           c.paths.logs(),
		AuditLog:       c.paths.audit(),
		Control:        c.paths.control(),
		PID:            os.Getpid(),
		Components:     map[string]int{},
		Health:         c.workers.Health(c.network),
	}
	c.Info.Health["kube-controller-manager"] = "https://" + c.network.Address(portControllerManager) + "/healthz"
	c.Info.Health["kube-scheduler"] = "https://" + c.network.Address(portScheduler) + "/readyz"
	if err := c.network.checkFree(ctx, daemonPorts...); err != nil {
		return err
	}
	if err := c.startDaemons(ctx); err != nil {
		return err
	}
	for _, p := range c.group.Processes() {
		c.Info.Components[p.Name] = p.PID
	}
	return nil
}

// prepare writes everything the daemons read.
func (c *Cluster) prepare(ctx context.Context) error {
	p := c.paths
	if err := os.MkdirAll(p.logs(), 0o755); err != nil {
		return fmt.Errorf("cannot create the cluster's directory: %w", err)
	}
	// A supervisor that was killed leaves its lock file and its state; whatever it
	// ran died with it. State without a lock file is not ours to remove.
	if exists(p.state()) && !exists(p.lock()) {
		return fmt.Errorf("%s exists and was not made by a cluster: choose another directory", p.state())
	}
	var err error
	if c.lock, err = build.TryLock(p.lock()); err != nil {
		return fmt.Errorf("%s belongs to another cluster: choose another directory: %w", p.dir, err)
	}
	if err := os.RemoveAll(p.state()); err != nil {
		return err
	}
	if err := os.Remove(p.audit()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(p.pki(), 0o700); err != nil {
		return err
	}
	if c.log, err = os.Create(p.log("supervisor")); err != nil {
		return err
	}
	if c.network == nil {
		if c.network, err = ReserveNetwork(ctx); err != nil {
			return err
		}
	}
	if c.authority, c.config, err = writeCredentials(p, c.network); err != nil {
		return fmt.Errorf("cannot make the cluster's certificates: %w", err)
	}
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		return err
	}
	return errors.Join(writeAuditPolicy(p), writeStages(p))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// startDaemons starts everything as early as it can do something useful.
func (c *Cluster) startDaemons(ctx context.Context) error {
	p, n, b := c.paths, c.network, c.binaries
	if _, err := c.group.Start(etcdSpec(p, n, b)); err != nil {
		return err
	}
	apiServer, err := c.group.Start(apiServerSpec(p, n, b))
	if err != nil {
		return err
	}
	if err := c.workers.Prepare(ctx, c); err != nil {
		return err
	}
	// It serves requests long before it calls itself ready.
	if err := c.Until(ctx, apiServer, c.apiServerAnswers); err != nil {
		return err
	}
	if err := c.workers.Join(ctx, c); err != nil {
		return err
	}
	if err := createStorageClasses(ctx, c.client); err != nil {
		return err
	}
	if err := c.installManifests(ctx, apiServer); err != nil {
		return err
	}
	if err := c.startHelpers(ctx); err != nil {
		return err
	}
	// These two look at the API server's health once a second: started too early
	// they are ready late.
	if err := c.Until(ctx, apiServer, c.apiServerReady); err != nil {
		return err
	}
	controllerManager, err := c.group.Start(controllerManagerSpec(p, n, b))
	if err != nil {
		return err
	}
	scheduler, err := c.group.Start(schedulerSpec(p, n, b))
	if err != nil {
		return err
	}
	for _, wait := range []struct {
		process *process.Process
		check   func(context.Context) error
	}{
		{controllerManager, c.defaultServiceAccountExists},
		{scheduler, c.schedulerReady},
	} {
		if err := c.Until(ctx, wait.process, wait.check); err != nil {
			return err
		}
	}
	return c.workers.Wait(ctx, c)
}

// Until waits for one process to be as it should be.
func (c *Cluster) Until(ctx context.Context, p *process.Process, check func(context.Context) error) error {
	return c.whileAllRun(ctx, func(ctx context.Context) error { return p.Until(ctx, check) })
}

// whileAllRun gives up what it does as soon as any daemon ends: an API server
// without etcd never becomes ready, and etcd's log says why.
func (c *Cluster) whileAllRun(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	finished := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case dead := <-c.group.Exited():
			cancel(dead.Err())
		case <-finished:
		}
	})
	err := do(ctx)
	close(finished)
	watching.Wait()
	if dead, ok := errors.AsType[*process.ExitError](context.Cause(ctx)); ok {
		return dead
	}
	return err
}

// startHelpers starts what runs in this process, until the cluster is stopped.
func (c *Cluster) startHelpers(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(c.client, 0)
	provisioner, err := volumes.NewProvisioner(c.client, c.workers.Volumes(), factory)
	if err != nil {
		return err
	}
	helpers, err := c.workers.Helpers(c, factory)
	if err != nil {
		return err
	}
	helpers = append(helpers, Helper{"volume", provisioner.Run})
	handler := slog.NewTextHandler(c.log, nil)
	log := slog.New(handler)
	running, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.FromSlogHandler(handler)))
	c.stop = cancel
	failed := func(what string) func(cache.ObjectName, error) {
		return func(name cache.ObjectName, err error) {
			log.Error("will be tried again", "what", what, "object", name.String(), "error", err)
		}
	}
	factory.StartWithContext(running)
	for _, helper := range helpers {
		c.helpers.Go(func() { helper.Run(running, failed(helper.What)) })
	}
	c.helpers.Go(func() {
		<-running.Done()
		factory.Shutdown()
	})
	return nil
}

// Exited delivers the first daemon that ended by itself.
func (c *Cluster) Exited() <-chan *process.Process { return c.group.Exited() }

// Stop ends the cluster and removes everything but its logs. When it returns no
// process of the cluster is left.
func (c *Cluster) Stop() error {
	c.stop()
	c.helpers.Wait()
	c.group.Stop()
	if c.network != nil {
		c.network.Release()
	}
	c.binaries.Release()
	var err error
	if c.log != nil {
		err = c.log.Close()
	}
	if c.lock != nil { // Otherwise the directory is another cluster's.
		err = errors.Join(err, Clean(c.paths.dir))
		c.lock.Unlock()
	}
	return err
}

// Clean removes what a cluster leaves in its directory when it is killed: everything
// but its logs. Nobody may be using it.
func Clean(dir string) error {
	p := paths{dir}
	if !exists(p.lock()) {
		return nil // State without a lock file is not ours to remove.
	}
	return errors.Join(os.RemoveAll(p.state()), os.Remove(p.lock()))
}
