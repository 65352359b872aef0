// Package peers finds the peers of a node. A source that fails never shrinks the set:
// what was known before stays, because a node without peers stands still, and one
// with a peer that is gone does not.
package peers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

const (
	// maxAddresses is how many peers a status holds.
	maxAddresses   = 64
	defaultP2PPort = 26656
	defaultTimeout = 3 * time.Second
)

// Resolver finds peers in the sources that a node names.
type Resolver struct {
	// LookupHost returns the addresses of a DNS name.
	LookupHost func(ctx context.Context, name string) ([]string, error)
	// NodeID asks the RPC at host:port for the p2p identity of the node there.
	NodeID func(ctx context.Context, hostport string) (string, error)
	// Timeout bounds each source; default 3 s.
	Timeout time.Duration
}

// Found is what the sources gave.
type Found struct {
	// Addresses are the peers, each nodeId@host:port, sorted and unique, without the
	// node itself. At most 64: static and labelled ones come first.
	Addresses []string
	// Count is the number of all peers.
	Count int
	// Pending are the SeiNodes that a label selects and that have no node id yet but
	// will have one: they are neither paused nor Failed nor being deleted.
	Pending []string
	// Problems has one sentence for each source that failed; its text is stable.
	Problems []string
}

// Candidates returns the SeiNodes of a namespace that have all these labels.
type Candidates = func(namespace string, labels map[string]string) ([]v1alpha1.SeiNode, error)

// given is what one source gave.
type given struct {
	addresses []string
	pending   []string
	problem   string
	// failed: the source gave nothing, so nobody knows what it would have given.
	failed bool
}

// Resolve finds the peers of a node. It never fails as a whole, and takes no longer
// than one source may.
func (r *Resolver) Resolve(ctx context.Context, node *v1alpha1.SeiNode, candidates Candidates, prior []string) Found {
	before := byHost(prior)
	results := make([]given, len(node.Spec.Peers))
	var asking sync.WaitGroup
	for i, source := range node.Spec.Peers {
		if source.DNS != nil {
			asking.Go(func() { results[i] = r.fromDNS(ctx, *source.DNS, before) })
		}
	}
	for i, source := range node.Spec.Peers {
		switch {
		case source.Static != nil:
			results[i] = given{addresses: source.Static.Addresses}
		case source.Label != nil:
			results[i] = fromLabel(node, *source.Label, candidates, before)
		}
	}
	asking.Wait()
	return merge(node, results, prior)
}

// merge puts together what the sources gave.
func merge(node *v1alpha1.SeiNode, results []given, prior []string) Found {
	const first, second = 0, 1 // in which order peers are left out when there are too many
	ranks := map[string]int{}
	add := func(address string, rank int) {
		if known, ok := ranks[address]; !isItself(node, address) && (!ok || rank < known) {
			ranks[address] = rank
		}
	}
	var found Found
	failed := false
	for i, result := range results {
		rank := first
		if node.Spec.Peers[i].DNS != nil {
			rank = second
		}
		for _, address := range result.addresses {
			add(address, rank)
		}
		found.Pending = append(found.Pending, result.pending...)
		if result.problem != "" {
			found.Problems = append(found.Problems, result.problem)
		}
		failed = failed || result.failed
	}
	if failed {
		// Nobody knows which of them the failed source gave, so all stay, but for
		// those whose place another source has filled.
		claimed := byHost(slices.Collect(maps.Keys(ranks)))
		for _, address := range prior {
			if _, taken := claimed[host(address)]; !taken {
				add(address, second)
			}
		}
	}
	addresses := slices.SortedFunc(maps.Keys(ranks), func(a, b string) int {
		return cmp.Or(cmp.Compare(ranks[a], ranks[b]), cmp.Compare(a, b))
	})
	found.Count = len(addresses)
	found.Addresses = addresses[:min(len(addresses), maxAddresses)]
	for _, list := range []*[]string{&found.Addresses, &found.Pending, &found.Problems} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return found
}

// isItself tells whether an address is that of the node. A list of peers is often
// shared by all nodes that are on it.
func isItself(node *v1alpha1.SeiNode, address string) bool {
	id, at, _ := strings.Cut(address, "@")
	return id == node.Status.NodeID || at == inCluster(node) || at == node.Spec.ExternalAddress
}

// fromLabel takes SeiNodes of the same chain as peers.
func fromLabel(node *v1alpha1.SeiNode, source v1alpha1.LabelPeers, candidates Candidates, before map[string][]string) given {
	namespace := cmp.Or(source.Namespace, node.Namespace)
	labels := make(map[string]string, len(source.Selector))
	for key, value := range source.Selector {
		labels[key] = string(value)
	}
	nodes, err := candidates(namespace, labels)
	if err != nil {
		return given{failed: true, problem: fmt.Sprintf("The SeiNodes with the labels of a peer source could not be listed in namespace %s; the peers known before stay.", namespace)}
	}
	var result given
	for i := range nodes {
		peer := &nodes[i]
		if peer.Name == node.Name && peer.Namespace == node.Namespace || peer.Spec.ChainID != node.Spec.ChainID {
			continue
		}
		at := cmp.Or(peer.Spec.ExternalAddress, inCluster(peer))
		switch {
		case isNodeID(peer.Status.NodeID):
			result.addresses = append(result.addresses, peer.Status.NodeID+"@"+at)
		case len(before[at]) > 0:
			result.addresses = append(result.addresses, before[at]...)
		case comesUp(peer):
			result.pending = append(result.pending, nameFor(node, peer))
		}
	}
	return result
}

// comesUp tells whether a node will have a node id without anybody doing anything.
func comesUp(peer *v1alpha1.SeiNode) bool {
	return !peer.Spec.Paused && peer.DeletionTimestamp.IsZero() && peer.Status.Phase != v1alpha1.PhaseFailed
}

// nameFor is how a person in the namespace of the node calls the peer.
func nameFor(node, peer *v1alpha1.SeiNode) string {
	if peer.Namespace == node.Namespace {
		return peer.Name
	}
	return peer.Namespace + "/" + peer.Name
}

// inCluster is where a node's p2p port is inside the cluster. It is the name of the
// pod, which stays when the pod and its address change.
func inCluster(node *v1alpha1.SeiNode) string {
	return fmt.Sprintf("%s-0.%s.%s.svc.cluster.local:%d", node.Name, node.Name, node.Namespace, defaultP2PPort)
}

// host is the host:port of an address.
func host(address string) string {
	_, at, _ := strings.Cut(address, "@")
	return at
}

// byHost has the addresses by host:port.
func byHost(addresses []string) map[string][]string {
	found := make(map[string][]string, len(addresses))
	for _, address := range addresses {
		found[host(address)] = append(found[host(address)], address)
	}
	return found
}

// isNodeID tells whether a text can be in a list of peers. What a stranger's RPC
// says ends up in a configuration file, where a comma would begin another peer.
func isNodeID(text string) bool {
	return len(text) == 40 && strings.Trim(text, "0123456789abcdef") == ""
}
