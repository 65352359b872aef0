// Package hostile_test does to nodes what must never cost them their data or make them
// sign twice: everything that a person can delete or edit, at every step of
// everything that the operator does.
//
// A witness sees every state of every pod, claim and Secret meanwhile.
package hostile_test

import (
	"context"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/nodes"
	"github.com/sei-operator/sei-operator/test/rig"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// world is an operator for the whole cluster, and a witness.
type world struct {
	cluster   *cluster.Cluster
	person    client.WithWatch
	sidecars  *nodes.Fleet
	witness   *witness
	turnstile *turnstile
}

// newWorld makes a world. The test fails if the witness saw what must never be.
func newWorld(tb testing.TB) *world {
	tb.Helper()
	c := cluster.Get(tb)
	w := &world{cluster: c, person: c.Person(tb), turnstile: &turnstile{}}
	w.witness = callWitness(tb, w.person)
	tb.Cleanup(func() {
		for _, violation := range w.witness.verdict() {
			tb.Error(violation)
		}
	})
	w.sidecars = nodes.Start(tb, c, nodes.Options{})
	config := rig.Config(tb, c, "")
	config.AroundWrite = w.turnstile.around
	rig.Start(tb, config)
	return w
}

// story is one node, its keys, and what happens to it.
type story struct {
	*world
	t       testing.TB
	name    types.NamespacedName
	chain   string
	signing rig.Key
	nodeKey rig.Key
	sidecar *nodes.Node
}

func (w *world) story(tb testing.TB, namespace, name string) *story {
	tb.Helper()
	return &story{
		world: w, t: tb, name: types.NamespacedName{Namespace: namespace, Name: name}, chain: "chain-" + name,
		signing: rig.NewKey(tb), nodeKey: rig.NewKey(tb), sidecar: w.sidecars.Node(namespace, name),
	}
}

func (s *story) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.name.Namespace, Name: name}
}

func (s *story) signingSecret() types.NamespacedName { return s.key(s.name.Name + "-signing") }

func (s *story) nodeSecret() types.NamespacedName { return s.key(s.name.Name + "-node") }

func (s *story) claimName() types.NamespacedName { return s.key("data-" + s.name.Name) }

func (s *story) podName() types.NamespacedName { return s.key(s.name.Name + "-0") }

// createKeys makes the Secrets of the node.
func (s *story) createKeys() {
	s.t.Helper()
	s.create(rig.SigningSecret(s.t, s.signingSecret(), s.signing))
	s.create(rig.NodeSecret(s.t, s.nodeSecret(), s.nodeKey))
}

// validator is the node.
func (s *story) validator(change ...func(*v1alpha1.SeiNode)) *v1alpha1.SeiNode {
	node := rig.Validator(s.name, s.chain)
	for _, f := range change {
		f(node)
	}
	return node
}

// up makes the node and waits until it is ready.
func (s *story) up(change ...func(*v1alpha1.SeiNode)) *v1alpha1.SeiNode {
	s.t.Helper()
	s.createKeys()
	s.create(s.validator(change...))
	return s.ready()
}

func (s *story) create(object client.Object) {
	s.t.Helper()
	if err := s.person.Create(s.t.Context(), object); err != nil {
		s.t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
}

// get reads an object, and tells whether it is there.
func (s *story) get(name types.NamespacedName, into client.Object) bool {
	s.t.Helper()
	err := s.person.Get(s.t.Context(), name, into)
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatalf("reading %T %s: %v", into, name, err)
	}
	return err == nil
}

// delete deletes an object, and tells whether it was there.
func (s *story) delete(name types.NamespacedName, object client.Object) bool {
	s.t.Helper()
	if !s.get(name, object) {
		return false
	}
	if claim, ok := object.(*corev1.PersistentVolumeClaim); ok {
		s.witness.askedFor(claim.UID)
	}
	uid := object.GetUID()
	err := s.person.Delete(s.t.Context(), object, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatalf("deleting %T %s: %v", object, name, err)
	}
	return err == nil
}

// change edits an object as a person does, and tells whether it was there.
func change[T client.Object](s *story, name types.NamespacedName, object T, edit func(T)) bool {
	s.t.Helper()
	if !s.get(name, object) {
		return false
	}
	before := object.DeepCopyObject().(T)
	edit(object)
	err := s.person.Patch(s.t.Context(), object, client.MergeFrom(before))
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatalf("editing %T %s: %v", object, name, err)
	}
	return err == nil
}

// edit changes the node as a person with an editor does.
func (s *story) edit(edit func(*v1alpha1.SeiNode)) bool {
	s.t.Helper()
	return change(s, s.name, &v1alpha1.SeiNode{}, edit)
}

// annotate sets an annotation of the node.
func (s *story) annotate(key, value string) {
	s.t.Helper()
	s.edit(func(n *v1alpha1.SeiNode) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[key] = value
	})
}

func (s *story) node() *v1alpha1.SeiNode {
	s.t.Helper()
	node := &v1alpha1.SeiNode{}
	if !s.get(s.name, node) {
		s.t.Fatalf("the SeiNode %s is gone", s.name)
	}
	return node
}

func (s *story) claim() *corev1.PersistentVolumeClaim {
	s.t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	if !s.get(s.claimName(), claim) {
		s.t.Fatalf("the claim %s is gone", s.claimName())
	}
	return claim
}

func (s *story) pod() *corev1.Pod {
	s.t.Helper()
	return cluster.Eventually(s.t, s.person, s.podName(), "the pod", func(*corev1.Pod) bool { return true })
}

func (s *story) until(what string, ok func(*v1alpha1.SeiNode) bool) *v1alpha1.SeiNode {
	s.t.Helper()
	return cluster.Eventually(s.t, s.person, s.name, what, ok)
}

func (s *story) ready() *v1alpha1.SeiNode {
	s.t.Helper()
	return s.until("the node to be ready", rig.IsReady)
}

func (s *story) gone() {
	s.t.Helper()
	cluster.Gone[*v1alpha1.SeiNode](s.t, s.person, s.name, "the node was deleted")
}

// leases are the reservations that are held by a SeiNode.
func (s *story) leases(holder types.UID) []coordinationv1.Lease {
	s.t.Helper()
	var list, held coordinationv1.LeaseList
	if err := s.person.List(s.t.Context(), &list, client.InNamespace(rig.Namespace)); err != nil {
		s.t.Fatalf("reading Leases: %v", err)
	}
	for i := range list.Items {
		if by := list.Items[i].Spec.HolderIdentity; by != nil && *by == string(holder) {
			held.Items = append(held.Items, list.Items[i])
		}
	}
	return held.Items
}

// nobodys tells whether a Lease has no holder. The finalizer keeps it only where a person
// deleted it: it holds the last record of what its key signed.
func nobodys(lease *coordinationv1.Lease) bool {
	return lease.Spec.HolderIdentity == nil && lease.Annotations[v1alpha1.AnnotationHolder] == "" &&
		(len(lease.Finalizers) == 0 || lease.DeletionTimestamp != nil)
}

// checkFree looks at the Leases of the story's keys when its node is gone: what was signed
// is kept by nobody, or by another node with the key, and nothing else is kept.
func (s *story) checkFree() {
	s.t.Helper()
	for _, name := range []types.NamespacedName{s.leaseName(), s.objectOf("Lease")} {
		lease := &coordinationv1.Lease{}
		if !s.get(name, lease) {
			continue
		}
		holder := lease.Annotations[v1alpha1.AnnotationHolder]
		if another := holder != "" && holder != s.name.String(); !another && (!nobodys(lease) || lease.Annotations[v1alpha1.AnnotationSigned] == "") {
			s.t.Errorf("the Lease %s of %q is left behind: %v", lease.Name, holder, lease.Annotations)
		}
	}
}

// clear frees what a story took of the cluster. It is the last thing that is asked of
// every story: whatever was done to it, the node goes away in order, and leaves no
// reservation behind.
func (s *story) clear() {
	s.t.Helper()
	node := &v1alpha1.SeiNode{}
	if s.get(s.name, node) {
		claim := &corev1.PersistentVolumeClaim{}
		if s.get(s.claimName(), claim) {
			s.annotate(v1alpha1.AnnotationAcceptVolumeLoss, string(claim.UID))
		}
		s.delete(s.name, &v1alpha1.SeiNode{})
		s.gone()
		if left := s.leases(node.UID); len(left) > 0 {
			s.t.Errorf("%d reservations of the node are left behind, %s is the first", len(left), left[0].Name)
		}
		s.checkFree()
	}
	pod := &corev1.Pod{}
	if s.get(s.podName(), pod) {
		s.t.Errorf("the node is gone, and its pod is there")
	}
	s.delete(s.claimName(), &corev1.PersistentVolumeClaim{})
}

// within is a context that ends with the test, and before its patience does.
func (s *story) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.t.Context(), patience)
}

func named(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}
