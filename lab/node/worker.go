package node

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"k8s.io/client-go/informers"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/kube"
	"github.com/sei-operator/sei-operator/lab/kube/volumes"
	"github.com/sei-operator/sei-operator/lab/process"
)

// nodeName is also the host name in the lab.
const nodeName = "lab"

// Where things are in the lab's own root file system.
const (
	containerdSocket = "/run/containerd/containerd.sock"
	volumesDir       = "/var/lib/volumes"
	cniDir           = "/var/lib/cni-config"
)

// Ports of the node's daemons, on the address of the control plane's.
const (
	portDNSReady  = 8181
	portKubelet   = 10248
	portKubeProxy = 10256
)

// searchPath is for what daemons start themselves: nft, and nothing else of the machine's.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// worker is the one node of the cluster. It runs inside the namespaces.
type worker struct {
	runtime *build.Runtime
	cgroup  string
	// archives are images that the node has from the beginning.
	archives []string

	containerd, kubelet, proxy, dns *process.Process
}

// Prepare starts the container runtime, and gives it its images: neither needs
// an API server.
func (w *worker) Prepare(ctx context.Context, c *kube.Cluster) (err error) {
	if err := w.writeContainerdConfig(c); err != nil {
		return err
	}
	if w.containerd, err = c.Spawn(w.containerdSpec(c)); err != nil {
		return err
	}
	if err := c.Until(ctx, w.containerd, containerdAnswers); err != nil {
		return err
	}
	for _, archive := range w.archives {
		if err := c.Run(ctx, importSpec(w.runtime, containerdSocket, archive, c.Log("images"))); err != nil {
			return fmt.Errorf("cannot import the image %s: %w", archive, err)
		}
	}
	return nil
}

// Join starts everything that talks to the API server.
func (w *worker) Join(_ context.Context, c *kube.Cluster) (err error) {
	for _, start := range []struct {
		process **process.Process
		spec    func(*kube.Cluster) (process.Spec, error)
	}{{&w.kubelet, w.kubeletSpec}, {&w.proxy, w.proxySpec}, {&w.dns, w.dnsSpec}} {
		spec, err := start.spec(c)
		if err != nil {
			return err
		}
		if *start.process, err = c.Spawn(spec); err != nil {
			return err
		}
	}
	return nil
}

// Wait returns when pods can run, find each other by name and reach each other's Services.
func (w *worker) Wait(ctx context.Context, c *kube.Cluster) error {
	health := w.Health(c.Network())
	for _, wait := range []struct {
		process *process.Process
		check   func(context.Context) error
	}{
		{w.kubelet, func(ctx context.Context) error { return c.NodesReady(ctx, nodeName) }},
		{w.proxy, func(ctx context.Context) error { return kube.Healthy(ctx, health[w.proxy.Name]) }},
		{w.dns, func(ctx context.Context) error { return kube.Healthy(ctx, health[w.dns.Name]) }},
	} {
		if err := c.Until(ctx, wait.process, wait.check); err != nil {
			return err
		}
	}
	return nil
}

// Helpers are none: everything is real.
func (w *worker) Helpers(*kube.Cluster, informers.SharedInformerFactory) ([]kube.Helper, error) {
	return nil, nil
}

func (w *worker) Nodes() []string { return []string{nodeName} }

func (w *worker) Volumes() volumes.Storage { return directories{volumesDir} }

func (w *worker) Health(n *kube.Network) map[string]string {
	return map[string]string{
		"coredns":    "http://" + n.Address(portDNSReady) + "/ready",
		"kubelet":    "http://" + n.Address(portKubelet) + "/healthz",
		"kube-proxy": "http://" + n.Address(portKubeProxy) + "/healthz",
	}
}

var _ kube.Workers = (*worker)(nil)

// writeConfig writes a file that a daemon reads.
func writeConfig(c *kube.Cluster, name, content string) (path string, err error) {
	path = c.Config(name)
	return path, os.WriteFile(path, []byte(content), 0o600)
}

func quote(s string) string { return strconv.Quote(s) }
