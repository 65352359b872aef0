package kube

import (
	"context"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/sei-operator/sei-operator/lab/kube/kubelet"
	"github.com/sei-operator/sei-operator/lab/kube/volumes"
	"github.com/sei-operator/sei-operator/lab/process"
)

// Workers run the pods of a cluster. There are two kinds: the stand-ins of this
// package, and the real node of package node.
type Workers interface {
	// Prepare starts what needs no API server, while that is starting.
	Prepare(ctx context.Context, c *Cluster) error
	// Join makes them nodes of the cluster. The API server answers by now.
	Join(ctx context.Context, c *Cluster) error
	// Wait returns when pods can run.
	Wait(ctx context.Context, c *Cluster) error
	// Helpers are what they need to have running in our own process.
	Helpers(c *Cluster, factory informers.SharedInformerFactory) ([]Helper, error)
	// Nodes are their names.
	Nodes() []string
	// Volumes is where the volumes of their pods are.
	Volumes() volumes.Storage
	// Health has the URLs at which their daemons say how they are.
	Health(n *Network) map[string]string
}

// Helper is a loop of our own process.
type Helper struct {
	What string
	Run  func(ctx context.Context, failed func(cache.ObjectName, error))
}

// standIns are nodes that KWOK pretends to be.
type standIns struct{ kwok *process.Process }

func (s *standIns) Prepare(context.Context, *Cluster) error { return nil }

func (s *standIns) Join(ctx context.Context, c *Cluster) (err error) {
	if s.kwok, err = c.Spawn(kwokSpec(c.paths, c.network, c.binaries)); err != nil {
		return err
	}
	return createNodes(ctx, c.client, c.network, c.binaries.Kubernetes.Version)
}

func (s *standIns) Wait(ctx context.Context, c *Cluster) error {
	return c.Until(ctx, s.kwok, func(ctx context.Context) error { return c.NodesReady(ctx, nodeNames...) })
}

func (s *standIns) Helpers(c *Cluster, factory informers.SharedInformerFactory) ([]Helper, error) {
	remover, err := kubelet.NewRemover(c.client, factory)
	if err != nil {
		return nil, err
	}
	return []Helper{{"removing a pod", remover.Run}}, nil
}

func (s *standIns) Nodes() []string { return nodeNames }

func (s *standIns) Volumes() volumes.Storage { return volumes.Imaginary{} }

func (s *standIns) Health(n *Network) map[string]string {
	return map[string]string{"kwok": "http://" + n.Address(portKwok) + "/healthz"}
}

var _ Workers = (*standIns)(nil)

// nodeNames are two nodes: enough for a pod to move.
var nodeNames = []string{"node-0", "node-1"}
