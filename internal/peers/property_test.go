package peers

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// twoWorlds are a healthy one and the same with something broken in it, and a node
// with peers in both.
type twoWorlds struct {
	*rapid.T
	healthy, broken world
	node            v1alpha1.SeiNode
	peers           int
}

func (w *twoWorlds) fails(what string) bool { return rapid.Bool().Draw(w.T, what+" fails") }

// another makes up a peer.
func (w *twoWorlds) another() (number int, nodeID string) {
	w.peers++
	return w.peers, id(fmt.Sprintf("%04x", w.peers))
}

func (w *twoWorlds) addStatic(count int) {
	var addresses []string
	for range count {
		number, nodeID := w.another()
		addresses = append(addresses, fmt.Sprintf("%s@static-%d:26656", nodeID, number))
	}
	w.node.Spec.Peers = append(w.node.Spec.Peers, static(addresses...))
}

func (w *twoWorlds) addLabel(count int, namespace string) {
	w.node.Spec.Peers = append(w.node.Spec.Peers, label(namespace))
	listed := []v1alpha1.SeiNode{}
	for range count {
		number, nodeID := w.another()
		peer := seiNode(namespace, fmt.Sprintf("node-%d", number), nodeID)
		w.healthy.nodes[namespace] = append(w.healthy.nodes[namespace], peer)
		if w.fails("the status of a peer") {
			peer.Status.NodeID = ""
		}
		listed = append(listed, peer)
	}
	if !w.fails("list") {
		w.broken.nodes[namespace] = listed
	}
}

func (w *twoWorlds) addDNS(count int, name string) {
	w.node.Spec.Peers = append(w.node.Spec.Peers, dns(name, 26656))
	for range count {
		number, nodeID := w.another()
		address := fmt.Sprintf("10.0.0.%d", number)
		w.healthy.addresses[name] = append(w.healthy.addresses[name], address)
		w.healthy.ids[address+":26657"] = nodeID
		if !w.fails("RPC") {
			w.broken.ids[address+":26657"] = nodeID
		}
	}
	if !w.fails("lookup") {
		w.broken.addresses[name] = w.healthy.addresses[name]
	}
}

func emptyWorld() world {
	return world{nodes: map[string][]v1alpha1.SeiNode{}, addresses: map[string][]string{}, ids: map[string]string{}}
}

// Whatever fails, and however much at once: nothing that a failing source could have
// given is lost, and nothing that another source gives is.
func TestFailingSourcesNeverShrinkTheSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &twoWorlds{T: t, healthy: emptyWorld(), broken: emptyWorld(), node: seiNode("sei", "me", id("ee"))}
		for s := range rapid.IntRange(1, 5).Draw(t, "sources") {
			count := rapid.IntRange(1, 8).Draw(t, "peers")
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				w.addStatic(count)
			case 1:
				w.addLabel(count, fmt.Sprintf("space-%d", s))
			default:
				w.addDNS(count, fmt.Sprintf("name-%d.test", s))
			}
		}
		before := w.healthy.resolve(t.Context(), &w.node, nil)
		if before.Count != w.peers || len(before.Problems) != 0 {
			t.Fatalf("in a healthy world %d of %d peers are found, with %q", before.Count, w.peers, before.Problems)
		}
		after := w.broken.resolve(t.Context(), &w.node, before.Addresses)
		if !slices.Equal(before.Addresses, after.Addresses) || len(after.Pending) != 0 {
			t.Fatalf("the peers were\n%q\nand are\n%q, pending %q", before.Addresses, after.Addresses, after.Pending)
		}
		again := w.broken.resolve(t.Context(), &w.node, after.Addresses)
		if !slices.Equal(again.Addresses, after.Addresses) || !slices.Equal(again.Problems, after.Problems) {
			t.Fatalf("the second time it is another answer: %+v, %+v", after, again)
		}
	})
}
