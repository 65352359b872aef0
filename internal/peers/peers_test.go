package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBroken = errors.New("broken")

// id is a node id that begins with a text of hexadecimal digits.
func id(text string) string { return text + strings.Repeat("0", 40-len(text)) }

// world is what is outside of the resolver.
type world struct {
	nodes     map[string][]v1alpha1.SeiNode // namespace -> all SeiNodes; nil: cannot be listed
	addresses map[string][]string           // DNS name -> addresses; absent: cannot be looked up
	ids       map[string]string             // host:port of an RPC -> node id; absent: does not answer
}

func (w world) resolve(ctx context.Context, node *v1alpha1.SeiNode, prior []string) Found {
	r := &Resolver{
		LookupHost: func(_ context.Context, name string) ([]string, error) {
			if found, ok := w.addresses[name]; ok {
				return found, nil
			}
			return nil, errBroken
		},
		NodeID: func(_ context.Context, hostport string) (string, error) {
			if found, ok := w.ids[hostport]; ok {
				return found, nil
			}
			return "", errBroken
		},
	}
	return r.Resolve(ctx, node, func(namespace string, labels map[string]string) (found []v1alpha1.SeiNode, err error) {
		all, ok := w.nodes[namespace]
		if !ok {
			return nil, errBroken
		}
		for i := range all {
			if all[i].Labels["team"] == labels["team"] {
				found = append(found, all[i])
			}
		}
		return found, nil
	}, prior)
}

func seiNode(namespace, name, nodeID string, change ...func(*v1alpha1.SeiNode)) v1alpha1.SeiNode {
	node := v1alpha1.SeiNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"team": "a"}},
		Spec:       v1alpha1.SeiNodeSpec{ChainID: "pacific-1"},
		Status:     v1alpha1.SeiNodeStatus{NodeID: nodeID},
	}
	for _, c := range change {
		c(&node)
	}
	return node
}

func static(addresses ...string) v1alpha1.PeerSource {
	return v1alpha1.PeerSource{Static: &v1alpha1.StaticPeers{Addresses: addresses}}
}

func label(namespace string) v1alpha1.PeerSource {
	return v1alpha1.PeerSource{Label: &v1alpha1.LabelPeers{Namespace: namespace, Selector: map[string]v1alpha1.LabelValue{"team": "a"}}}
}

func dns(name string, port int32) v1alpha1.PeerSource {
	return v1alpha1.PeerSource{DNS: &v1alpha1.DNSPeers{Name: name, Port: port}}
}

const (
	listProblem   = "The SeiNodes with the labels of a peer source could not be listed in namespace sei; the peers known before stay."
	lookupProblem = "The DNS name seeds.test of a peer source has no address now; the peers known before stay."
	askProblem    = "Not every node behind the DNS name seeds.test of a peer source tells its node id at port 26657; the others are used."
)

func TestResolve(t *testing.T) {
	in := func(name string) string { return fmt.Sprintf("%s-0.%s.sei.svc.cluster.local:26656", name, name) }
	for name, c := range map[string]struct {
		sources []v1alpha1.PeerSource
		itself  func(*v1alpha1.SeiNode)
		world   world
		prior   []string
		want    Found
	}{
		"no sources": {
			prior: []string{id("a") + "@gone:26656"},
		},
		"static peers are taken as they are, once": {
			sources: []v1alpha1.PeerSource{static(id("b")+"@b:1", id("a")+"@[2001:db8::1]:26656"), static(id("b") + "@b:1")},
			want:    Found{Addresses: []string{id("a") + "@[2001:db8::1]:26656", id("b") + "@b:1"}},
		},
		"a static list that the node itself is on": {
			sources: []v1alpha1.PeerSource{static(id("a")+"@a:1", id("e")+"@anywhere:1", id("f")+"@me.test:26656", id("d")+"@"+in("me"))},
			itself:  func(n *v1alpha1.SeiNode) { n.Status.NodeID, n.Spec.ExternalAddress = id("e"), "me.test:26656" },
			want:    Found{Addresses: []string{id("a") + "@a:1"}},
		},
		"labels find nodes of the same chain, without the node itself": {
			sources: []v1alpha1.PeerSource{label("")},
			world: world{nodes: map[string][]v1alpha1.SeiNode{"sei": {
				seiNode("sei", "me", id("e")),
				seiNode("sei", "one", id("1")),
				seiNode("sei", "two", id("2"), func(n *v1alpha1.SeiNode) { n.Spec.ExternalAddress = "two.test:4000" }),
				seiNode("sei", "elsewhere", id("3"), func(n *v1alpha1.SeiNode) { n.Spec.ChainID = "atlantic-2" }),
				seiNode("sei", "unlabelled", id("4"), func(n *v1alpha1.SeiNode) { n.Labels = nil }),
			}}},
			want: Found{Addresses: []string{id("1") + "@" + in("one"), id("2") + "@two.test:4000"}},
		},
		"labels in another namespace, where a node has the same name": {
			sources: []v1alpha1.PeerSource{label("other")},
			world:   world{nodes: map[string][]v1alpha1.SeiNode{"other": {seiNode("other", "me", id("1")), seiNode("other", "new", "")}}},
			want: Found{
				Addresses: []string{id("1") + "@me-0.me.other.svc.cluster.local:26656"},
				Pending:   []string{"other/new"},
			},
		},
		"a labelled node without an id is waited for only if it comes up": {
			sources: []v1alpha1.PeerSource{label(""), label("")},
			world: world{nodes: map[string][]v1alpha1.SeiNode{"sei": {
				seiNode("sei", "starting", ""),
				seiNode("sei", "paused", "", func(n *v1alpha1.SeiNode) { n.Spec.Paused = true }),
				seiNode("sei", "failed", "", func(n *v1alpha1.SeiNode) { n.Status.Phase = v1alpha1.PhaseFailed }),
				seiNode("sei", "deleted", "", func(n *v1alpha1.SeiNode) { n.DeletionTimestamp = new(metav1.Unix(1, 0)) }),
				seiNode("sei", "strange", "a,b"),
			}}},
			want: Found{Pending: []string{"starting", "strange"}},
		},
		"a labelled node that lost its id keeps its place": {
			sources: []v1alpha1.PeerSource{label("")},
			world:   world{nodes: map[string][]v1alpha1.SeiNode{"sei": {seiNode("sei", "one", "")}}},
			prior:   []string{id("1") + "@" + in("one"), id("2") + "@" + in("gone")},
			want:    Found{Addresses: []string{id("1") + "@" + in("one")}},
		},
		"nodes cannot be listed": {
			sources: []v1alpha1.PeerSource{label(""), static(id("a") + "@a:1")},
			prior:   []string{id("1") + "@" + in("one"), id("2") + "@a:1", id("3") + "@" + in("me")},
			want: Found{
				Addresses: []string{id("1") + "@" + in("one"), id("a") + "@a:1"},
				Problems:  []string{listProblem},
			},
		},
		"every node behind a name": {
			sources: []v1alpha1.PeerSource{dns("seeds.test", 0)},
			world: world{
				addresses: map[string][]string{"seeds.test": {"10.0.0.2", "2001:db8::1", "10.0.0.1", "10.0.0.2"}},
				ids:       map[string]string{"10.0.0.1:26657": id("1"), "10.0.0.2:26657": id("2"), "[2001:db8::1]:26657": id("3")},
			},
			want: Found{Addresses: []string{id("1") + "@10.0.0.1:26656", id("2") + "@10.0.0.2:26656", id("3") + "@[2001:db8::1]:26656"}},
		},
		"a name with another p2p port, and the node itself behind it": {
			sources: []v1alpha1.PeerSource{dns("seeds.test", 4000)},
			itself:  func(n *v1alpha1.SeiNode) { n.Status.NodeID = id("2") },
			world: world{
				addresses: map[string][]string{"seeds.test": {"10.0.0.1", "10.0.0.2"}},
				ids:       map[string]string{"10.0.0.1:26657": id("1"), "10.0.0.2:26657": id("2")},
			},
			want: Found{Addresses: []string{id("1") + "@10.0.0.1:4000"}},
		},
		"a node behind a name that does not tell its id": {
			sources: []v1alpha1.PeerSource{dns("seeds.test", 26656)},
			world: world{
				addresses: map[string][]string{"seeds.test": {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}},
				ids:       map[string]string{"10.0.0.1:26657": id("1"), "10.0.0.4:26657": "evil,peer"},
			},
			prior: []string{id("2") + "@10.0.0.2:26656", id("9") + "@10.0.0.9:26656"},
			want: Found{
				Addresses: []string{id("1") + "@10.0.0.1:26656", id("2") + "@10.0.0.2:26656"},
				Problems:  []string{askProblem},
			},
		},
		"a name that cannot be looked up, twice": {
			sources: []v1alpha1.PeerSource{dns("seeds.test", 26656), dns("seeds.test", 26656), static(id("a") + "@a:1")},
			prior:   []string{id("2") + "@10.0.0.2:26656", id("9") + "@10.0.0.9:26656"},
			want: Found{
				Addresses: []string{id("2") + "@10.0.0.2:26656", id("9") + "@10.0.0.9:26656", id("a") + "@a:1"},
				Problems:  []string{lookupProblem},
			},
		},
		"a name without addresses": {
			sources: []v1alpha1.PeerSource{dns("seeds.test", 26656)},
			world:   world{addresses: map[string][]string{"seeds.test": nil}},
			prior:   []string{id("2") + "@10.0.0.2:26656"},
			want:    Found{Addresses: []string{id("2") + "@10.0.0.2:26656"}, Problems: []string{lookupProblem}},
		},
	} {
		node := seiNode("sei", "me", "")
		node.Spec.Peers = c.sources
		if c.itself != nil {
			c.itself(&node)
		}
		c.want.Count = len(c.want.Addresses)
		if diff := cmp.Diff(c.want, c.world.resolve(t.Context(), &node, c.prior), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestTooManyPeers(t *testing.T) {
	w := world{addresses: map[string][]string{"seeds.test": nil}, ids: map[string]string{}}
	for i := range 300 {
		address := fmt.Sprintf("10.0.%d.%d", i/100, i%100)
		w.addresses["seeds.test"] = append(w.addresses["seeds.test"], address)
		w.ids[net.JoinHostPort(address, "26657")] = id(fmt.Sprintf("%04x", i))
	}
	node := seiNode("sei", "me", "")
	node.Spec.Peers = []v1alpha1.PeerSource{dns("seeds.test", 26656), static(id("ffff") + "@last:1")}
	found := w.resolve(t.Context(), &node, nil)
	if len(found.Addresses) != 64 || found.Count != maxBehindName+1 || !slices.IsSorted(found.Addresses) {
		t.Errorf("%d of %d are told, sorted: %t", len(found.Addresses), found.Count, slices.IsSorted(found.Addresses))
	}
	if !slices.Contains(found.Addresses, id("ffff")+"@last:1") {
		t.Error("the one that a person named is left out")
	}
}

func TestNobodyWaitsForASourceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		r := &Resolver{
			LookupHost: func(ctx context.Context, name string) ([]string, error) {
				if name == "hangs.test" {
					return nil, hang(ctx)
				}
				return []string{"10.0.0.1", "10.0.0.2"}, nil
			},
			NodeID: func(ctx context.Context, hostport string) (string, error) {
				if hostport == "10.0.0.1:26657" {
					return "", hang(ctx)
				}
				return id("2"), nil
			},
		}
		node := seiNode("sei", "me", "")
		node.Spec.Peers = []v1alpha1.PeerSource{dns("hangs.test", 26656), dns("works.test", 26656), dns("hangs.test", 1)}
		begin := time.Now()
		found := r.Resolve(t.Context(), &node, nil, []string{id("9") + "@10.0.0.9:26656"})
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("it took %s", took)
		}
		if want := []string{id("2") + "@10.0.0.2:26656", id("9") + "@10.0.0.9:26656"}; !slices.Equal(found.Addresses, want) {
			t.Errorf("it found %v", found.Addresses)
		}
	})
}

func TestTheNodeIDOfARealRPC(t *testing.T) {
	sent := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent = true }))
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a node": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/status" {
				_, _ = fmt.Fprintf(w, `{"node_info":{"id":%q,"network":"pacific-1"},"sync_info":{"latest_block_height":"7","catching_up":false}}`, id("7"))
			}
		}, id("7")},
		"a stranger": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }, ""},
		"one who sends us elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		}, ""},
	} {
		server := httptest.NewServer(c.answer)
		got, err := New().NodeID(t.Context(), strings.TrimPrefix(server.URL, "http://"))
		server.Close()
		if got != c.want || (err == nil) != (c.want != "") || sent {
			t.Errorf("%s: %q, %v; sent elsewhere: %t", name, got, err, sent)
		}
	}
}
