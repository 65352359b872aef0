// Package operator_test runs the whole operator against a real control plane, with
// KWOK pods and scripted sidecars in them. Tests are seen from outside: they act as
// a person, and look at objects, at the ledgers of sidecars and at the audit log.
package operator_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/operator"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/nodes"
	shared "github.com/sei-operator/sei-operator/test/rig"
)

// TestMain lets many tests run at once, however few cores there are: most of their time is
// that of the product's own timers. Every test has a namespace, an operator for it and
// sidecars of its own, so t.Parallel is the rule. What changes something that they all share
// stays alone, which Go does before all others: the operator's authority (access_test.go),
// the controllers that are paused (seed002_pods_test.go), the kinds of the API (task_test.go),
// and whoever counts all that is asked of the API server (silence_test.go).
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil { // -parallel overrides it
		panic(err)
	}
	cluster.MainWithRole(m)
}

// image is one that the lab's pods start with.
const image = shared.Image

// rig is a namespace, a person in it, and an operator that may be stopped and
// started again.
type rig struct {
	t         testing.TB
	cluster   *cluster.Cluster
	person    client.WithWatch
	namespace string
	sidecars  *nodes.Fleet
	config    operator.Config
	registry  *prometheus.Registry

	stopOnce func()
}

func newRig(tb testing.TB, change ...func(*operator.Config)) *rig {
	tb.Helper()
	c := cluster.Get(tb)
	r := &rig{t: tb, cluster: c, person: c.Person(tb), namespace: c.Namespace(tb)}
	r.sidecars = nodes.Start(tb, c, nodes.Options{Namespace: r.namespace})
	r.config = shared.Config(tb, c, r.namespace)
	for _, f := range change {
		f(&r.config)
	}
	r.start()
	return r
}

// start starts the operator.
func (r *rig) start() {
	r.t.Helper()
	r.registry, r.stopOnce = shared.Start(r.t, r.config)
}

// stop ends the operator and waits until it is gone.
func (r *rig) stop() { r.stopOnce() }

func (r *rig) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespace, Name: name}
}

// fullNode is the smallest SeiNode.
func (r *rig) fullNode(name string, change ...func(*v1alpha1.SeiNode)) *v1alpha1.SeiNode {
	node := &v1alpha1.SeiNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec:       v1alpha1.SeiNodeSpec{ChainID: "testnet-1", Image: image, FullNode: &v1alpha1.FullNodeSpec{}},
	}
	for _, f := range change {
		f(node)
	}
	return node
}

func (r *rig) create(object client.Object) {
	r.t.Helper()
	if err := r.person.Create(r.t.Context(), object); err != nil {
		r.t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
}

// edit changes a node the way a person with an editor does.
func (r *rig) edit(name string, change func(*v1alpha1.SeiNode)) *v1alpha1.SeiNode {
	r.t.Helper()
	node := &v1alpha1.SeiNode{}
	r.get(name, node)
	before := node.DeepCopy()
	change(node)
	if err := r.person.Patch(r.t.Context(), node, client.MergeFrom(before)); err != nil {
		r.t.Fatalf("editing %s: %v", name, err)
	}
	return node
}

func (r *rig) get(name string, into client.Object) {
	r.t.Helper()
	if err := r.person.Get(r.t.Context(), r.key(name), into); err != nil {
		r.t.Fatalf("reading %T %s: %v", into, name, err)
	}
}

func (r *rig) delete(object client.Object, options ...client.DeleteOption) {
	r.t.Helper()
	if err := r.person.Delete(r.t.Context(), object, options...); err != nil {
		r.t.Fatalf("deleting %T %s: %v", object, object.GetName(), err)
	}
}

// until waits for a node to be in some state.
func (r *rig) until(name, what string, ok func(*v1alpha1.SeiNode) bool) *v1alpha1.SeiNode {
	r.t.Helper()
	return cluster.Eventually(r.t, r.person, r.key(name), what, ok)
}

// ready waits for a node to be Ready as of its current spec.
func (r *rig) ready(name string) *v1alpha1.SeiNode {
	r.t.Helper()
	return r.until(name, "the node to be ready", isReady)
}

func isReady(node *v1alpha1.SeiNode) bool { return shared.IsReady(node) }

// has tells whether a node has a condition with this status and reason.
func has(kind v1alpha1.ConditionType, status metav1.ConditionStatus, reason v1alpha1.ConditionReason) func(*v1alpha1.SeiNode) bool {
	return shared.Has(kind, status, reason)
}

// statefulSet waits for the StatefulSet of a node to be in some state.
func (r *rig) statefulSet(name, what string, ok func(*appsv1.StatefulSet) bool) *appsv1.StatefulSet {
	r.t.Helper()
	return cluster.Eventually(r.t, r.person, r.key(name), what, ok)
}

// pod waits for the pod of a node to be in some state.
func (r *rig) pod(name, what string, ok func(*corev1.Pod) bool) *corev1.Pod {
	r.t.Helper()
	return cluster.Eventually(r.t, r.person, r.key(name+"-0"), what, ok)
}

func (r *rig) claim(name string) *corev1.PersistentVolumeClaim {
	r.t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	r.get("data-"+name, claim)
	return claim
}

// ran are the types of the tasks that a node's sidecar has run, in order.
func (r *rig) ran(name string) []string {
	var tasks []string
	for _, entry := range r.sidecars.Node(r.namespace, name).Ledger() {
		tasks = append(tasks, fmt.Sprintf("%s#%d", entry.Type, entry.Run))
	}
	return tasks
}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

// settled has the operator look at a node twice more, after everything that was on
// its way. The edit changes nothing about the pod or the configuration.
func (r *rig) settled(name string) {
	r.t.Helper()
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicyDelete, v1alpha1.DeletionPolicyRetain} {
		edited := r.edit(name, func(n *v1alpha1.SeiNode) {
			n.Spec.DataVolume = &v1alpha1.DataVolumeSpec{DeletionPolicy: policy}
		})
		r.until(name, "the operator to look again", func(n *v1alpha1.SeiNode) bool {
			return n.Status.ObservedGeneration == edited.Generation
		})
	}
}
