package task

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/derived"
	"github.com/sei-operator/sei-operator/internal/peers"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// peerPatience is how long a node waits for its peers to tell their node ids. When a
// whole chain is declared at once, nobody knows anybody at first. It is bounded, so
// that a peer that never comes up holds up nobody.
const (
	peerPatience = 30 * time.Second
	peerPause    = 500 * time.Millisecond
)

// discoverPeers finds the peers anew, now that this node could tell its own id to
// the others, and puts them into the configuration.
func discoverPeers(ctx context.Context, s *scope.Scope, index int) (Outcome, error) {
	if outcome, ready := sidecarThere(s); !ready {
		return outcome, nil
	}
	found := resolvePeers(ctx, s)
	waited := s.Seen.Now.Sub(s.Node.Status.Plan.Tasks[index].StartTime.Time)
	if len(found.Pending) > 0 && waited < peerPatience {
		return Wait(min(peerPause, peerPatience-waited), "Waits for the node ids of %s.", strings.Join(found.Pending, ", ")), nil
	}
	return Done(strings.Join(found.Problems, " ")), derived.NodeConfig(ctx, s)
}

// resolvePeers finds the peers and remembers them.
func resolvePeers(ctx context.Context, s *scope.Scope) peers.Found {
	var prior []string
	if s.Node.Status.ResolvedPeers != nil {
		prior = s.Node.Status.ResolvedPeers.Addresses
	}
	found := s.Peers.Resolve(ctx, s.Node, func(namespace string, labels map[string]string) ([]v1alpha1.SeiNode, error) {
		return s.Kube.SeiNodes(ctx, namespace, labels)
	}, prior)
	if found.Count == 0 {
		s.Node.Status.ResolvedPeers = nil
		return found
	}
	if !slices.Equal(prior, found.Addresses) {
		s.Node.Status.ResolvedPeers = &v1alpha1.ResolvedPeers{Addresses: found.Addresses}
	}
	s.Node.Status.ResolvedPeers.Count = int32(found.Count)
	return found
}
