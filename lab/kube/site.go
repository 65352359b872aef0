package kube

import (
	"context"
	"crypto/x509/pkix"
	"net"
	"net/netip"

	"k8s.io/client-go/kubernetes"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/process"
)

// What workers need of the cluster that they belong to.

// Spawn starts a daemon that ends with the cluster.
func (c *Cluster) Spawn(spec process.Spec) (*process.Process, error) { return c.group.Start(spec) }

// Run runs a command to its end, or until any daemon has ended.
func (c *Cluster) Run(ctx context.Context, spec process.Spec) error {
	return c.whileAllRun(ctx, func(ctx context.Context) error { return c.group.Run(ctx, spec) })
}

// Client is allowed everything.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// Network is where the cluster's daemons listen.
func (c *Cluster) Network() *Network { return c.network }

// Kubernetes has the binaries of kubelet and kube-proxy.
func (c *Cluster) Kubernetes() *build.Result { return c.binaries.Kubernetes }

// Log is the path of a daemon's log, which outlives the cluster.
func (c *Cluster) Log(name string) string { return c.paths.log(name) }

// Config is the path of a file that ends with the cluster.
func (c *Cluster) Config(name string) string { return c.paths.config(name) }

// CertificateAuthority is the path of the certificate that everybody trusts.
func (c *Cluster) CertificateAuthority() string { return c.paths.crt("ca") }

// Kubeconfig makes credentials for a client and returns the path of its kubeconfig.
func (c *Cluster) Kubeconfig(name, user string, groups ...string) (string, error) {
	id, err := c.authority.issue(pkix.Name{CommonName: user, Organization: groups}, nil)
	if err != nil {
		return "", err
	}
	path := c.paths.kubeconfigOf(name)
	return path, writeKubeconfig(path, c.network, c.authority, id)
}

// Certificate makes credentials for a server and returns their paths.
func (c *Cluster) Certificate(name string, address netip.Addr) (certificate, key string, err error) {
	id, err := c.authority.issue(pkix.Name{CommonName: name}, []string{name}, net.IP(address.AsSlice()))
	if err != nil {
		return "", "", err
	}
	return c.paths.crt(name), c.paths.key(name), id.write(c.paths.pki(), name)
}
