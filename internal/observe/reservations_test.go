package observe

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
)

// seeing is a seed whose key is known.
func seeing() plan.Input {
	in := plan.Input{Node: node("node", "node-uid", seed), Persisted: &v1alpha1.SeiNodeStatus{}}
	in.Seen.Keys = map[plan.KeyKind]plan.Key{plan.NodeKey: {NodeID: "id"}}
	return in
}

// keyLease is the name of the Lease of that key.
func keyLease() string { return plan.Wishes(seeing())[0].Name }

// records is a status with a reservation.
func records(name string) func(*v1alpha1.SeiNode) {
	return func(n *v1alpha1.SeiNode) {
		n.Status.Reservations = []v1alpha1.Reservation{{Kind: v1alpha1.ReservationNodeKey, Name: name}}
	}
}

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func elsewhere(n *v1alpha1.SeiNode) { n.Namespace = "elsewhere" }

func TestLeasesOfANode(t *testing.T) {
	t.Parallel()
	name, kind := keyLease(), v1alpha1.ReservationNodeKey
	theirs := lease(name, "other-uid", "elsewhere/other")
	other := func(changes ...func(*v1alpha1.SeiNode)) *v1alpha1.SeiNode {
		return node("other", "other-uid", append([]func(*v1alpha1.SeiNode){elsewhere}, changes...)...)
	}
	held := plan.Lease{Kind: kind, Holder: "other-uid", HolderName: "elsewhere/other"}
	abandoned := held
	abandoned.Abandoned = true
	for what, test := range map[string]struct {
		objects []client.Object
		want    map[string]plan.Lease
	}{
		"there is none": {want: map[string]plan.Lease{}},
		"this node holds it": {
			objects: []client.Object{lease(name, "node-uid", "sei/node"), node("node", "node-uid", records(name))},
			want:    map[string]plan.Lease{name: {Kind: kind, Holder: "node-uid", HolderName: "sei/node"}},
		},
		"this node holds one that it does not wish for": {
			objects: []client.Object{lease("another", "node-uid", "sei/node")},
			want:    map[string]plan.Lease{"another": {Kind: kind, Holder: "node-uid", HolderName: "sei/node"}},
		},
		"one that is nobody's business": {objects: []client.Object{lease("another", "other-uid", "elsewhere/other")}, want: map[string]plan.Lease{}},
		"another node holds it":         {objects: []client.Object{theirs, other()}, want: map[string]plan.Lease{name: held}},
		"its holder is gone":            {objects: []client.Object{theirs}, want: map[string]plan.Lease{name: abandoned}},
		"its holder is gone, and its pod is not": {
			objects: []client.Object{theirs, pod("elsewhere", "other-0")}, want: map[string]plan.Lease{name: held},
		},
		"its holder is gone, and a pod of another namespace has the name": {
			objects: []client.Object{theirs, pod("sei", "other-0")}, want: map[string]plan.Lease{name: abandoned},
		},
		"its holder was made anew": {
			objects: []client.Object{theirs, node("other", "new-uid", elsewhere)}, want: map[string]plan.Lease{name: abandoned},
		},
		"its holder was made anew and has a pod": {
			objects: []client.Object{theirs, node("other", "new-uid", elsewhere), pod("elsewhere", "other-0")}, want: map[string]plan.Lease{name: held},
		},
		"nobody can tell whose it is": {
			objects: []client.Object{lease(name, "other-uid", "")}, want: map[string]plan.Lease{name: {Kind: kind, Holder: "other-uid"}},
		},
		"somebody emptied it, and another node runs by it": {
			objects: []client.Object{lease(name, "", "elsewhere/other"), other(records(name))},
			want:    map[string]plan.Lease{name: {Kind: kind, HolderName: "elsewhere/other", Recorded: []string{"elsewhere/other"}, Abandoned: true}},
		},
		"somebody deleted it, and another node runs by it": {
			objects: []client.Object{other(records(name))}, want: map[string]plan.Lease{name: {Recorded: []string{"elsewhere/other"}}},
		},
		"somebody deleted it, and this node runs by it": {
			objects: []client.Object{node("node", "node-uid", records(name))}, want: map[string]plan.Lease{},
		},
		"somebody gave it to this node, and another one runs by it": {
			objects: []client.Object{lease(name, "node-uid", "sei/node"), other(records(name))},
			want:    map[string]plan.Lease{name: {Kind: kind, Holder: "node-uid", HolderName: "sei/node", Recorded: []string{"elsewhere/other"}}},
		},
		"a volume was brought up by it": {
			objects: []client.Object{func() *coordinationv1.Lease {
				marked := lease(name, "node-uid", "sei/node")
				marked.Annotations[v1alpha1.AnnotationBootstrapped] = "node-uid"
				return marked
			}()},
			want: map[string]plan.Lease{name: {Kind: kind, Holder: "node-uid", HolderName: "sei/node", Bootstrapped: "node-uid"}},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			got, err := Leases(t.Context(), newCluster(t, test.objects...).Client, seeing())
			must(t, err)
			for name, lease := range got {
				if exists := lease.Kind != ""; exists != (lease.ResourceVersion != "") {
					t.Errorf("the version of the Lease %s is %q", name, lease.ResourceVersion)
				}
				lease.ResourceVersion = ""
				got[name] = lease
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Leases (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatAKeySignedIsReadOrMissed: a record that cannot be read is not one that says nothing.
func TestWhatAKeySignedIsReadOrMissed(t *testing.T) {
	t.Parallel()
	name := keyLease()
	for text, want := range map[string]plan.Lease{
		"":                            {},
		`{"height":7,"volume":"uid"}`: {Signed: plan.SignRecord{Height: 7, Volume: "uid"}},
		`{"height":7,"volume":1}`:     {Unreadable: true},
		`{"height":`:                  {Unreadable: true},
	} {
		held := lease(name, "node-uid", "sei/node")
		held.Annotations[v1alpha1.AnnotationSigned] = text
		got, err := Leases(t.Context(), newCluster(t, held).Client, seeing())
		must(t, err)
		if diff := cmp.Diff(want.Signed, got[name].Signed); diff != "" || got[name].Unreadable != want.Unreadable {
			t.Errorf("%q: %+v", text, got[name])
		}
	}
}

// TestWhoeverHoldsALeaseIsLookedForAtTheAPIServer: a cache that does not know it yet says
// nothing.
func TestWhoeverHoldsALeaseIsLookedForAtTheAPIServer(t *testing.T) {
	t.Parallel()
	name := keyLease()
	theirs := lease(name, "other-uid", "elsewhere/other")
	for what, alive := range map[string]client.Object{
		"the node": node("other", "other-uid", elsewhere), "its pod": pod("elsewhere", "other-0"),
	} {
		c := newCluster(t, theirs.DeepCopy(), alive)
		c.fallBehind(t, theirs.DeepCopy())
		got, err := Leases(t.Context(), c.Client, seeing())
		must(t, err)
		if got[name].Abandoned {
			t.Errorf("%s is there, and the Lease counts as abandoned", what)
		}
	}
}

// TestNothingIsAbandonedThatCannotBeLookedFor: an error is no answer.
func TestNothingIsAbandonedThatCannotBeLookedFor(t *testing.T) {
	t.Parallel()
	theirs := lease(keyLease(), "other-uid", "elsewhere/other")
	for what, test := range map[string]struct {
		breaks func(*cluster, error)
		says   string
	}{
		"the API server": {breaks: func(c *cluster, err error) { c.broken = err }, says: "elsewhere/other"},
		"the cache":      {breaks: func(c *cluster, err error) { c.stale = err }, says: "sei/node"},
	} {
		c, problem := newCluster(t, theirs.DeepCopy()), errors.New("no route")
		test.breaks(c, problem)
		got, err := Leases(t.Context(), c.Client, seeing())
		if !errors.Is(err, problem) || got != nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
}
