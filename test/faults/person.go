package faults

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/test/nodes"
)

// Node is the name of the node that most workloads are about, and Image one that
// works.
const (
	Node  = "alpha"
	Image = "registry.example.com/seid:v1"
)

// Person does what people do in a workload, at their pace: while a person waits, the
// operator works, and nothing happens between two acts of a person.
type Person struct {
	run *run
	// node is the name of the node that it is about.
	node string
}

// Of is the same person, about another node.
func (p *Person) Of(node string) *Person { return &Person{run: p.run, node: node} }

// FullNode is the smallest SeiNode.
func (p *Person) FullNode(change ...func(*v1alpha1.SeiNode)) *v1alpha1.SeiNode {
	node := &v1alpha1.SeiNode{
		ObjectMeta: metav1.ObjectMeta{Name: p.node},
		Spec:       v1alpha1.SeiNodeSpec{ChainID: p.Chain(), Image: Image, FullNode: &v1alpha1.FullNodeSpec{}},
	}
	for _, f := range change {
		f(node)
	}
	return node
}

// Create makes an object in the namespace of the run.
func (p *Person) Create(object client.Object) {
	p.run.t.Helper()
	object.SetNamespace(p.run.namespace)
	if err := p.run.world.person.Create(p.run.t.Context(), object); err != nil {
		p.run.t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
}

// Bring creates a node and waits until it is ready.
func (p *Person) Bring(node *v1alpha1.SeiNode) {
	p.run.t.Helper()
	p.Create(node)
	p.Until("the node to be ready", p.Ready)
}

// Get reads an object, and tells whether it is there.
func (p *Person) Get(name string, into client.Object) bool {
	p.run.t.Helper()
	err := p.run.world.person.Get(p.run.t.Context(), p.key(name), into)
	if err != nil && !apierrors.IsNotFound(err) {
		p.run.t.Fatalf("reading %T %s: %v", into, name, err)
	}
	return err == nil
}

// Edit changes the node the way a person with an editor does.
func (p *Person) Edit(change func(*v1alpha1.SeiNode)) {
	p.run.t.Helper()
	node := p.SeiNode()
	before := node.DeepCopy()
	change(node)
	if err := p.run.world.person.Patch(p.run.t.Context(), node, client.MergeFrom(before)); err != nil {
		p.run.t.Fatalf("editing %s: %v", p.node, err)
	}
}

// EditFleet changes a fleet the way a person with an editor does.
func (p *Person) EditFleet(name string, change func(*v1alpha1.SeiNodeDeployment)) {
	p.run.t.Helper()
	fleet := &v1alpha1.SeiNodeDeployment{}
	if !p.Get(name, fleet) {
		p.run.fails("the SeiNodeDeployment %s is gone", name)
	}
	before := fleet.DeepCopy()
	change(fleet)
	if err := p.run.world.person.Patch(p.run.t.Context(), fleet, client.MergeFrom(before)); err != nil {
		p.run.t.Fatalf("editing %s: %v", name, err)
	}
}

// Delete deletes an object by its name.
func (p *Person) Delete(name string, object client.Object, options ...client.DeleteOption) {
	p.run.t.Helper()
	object.SetNamespace(p.run.namespace)
	object.SetName(name)
	if err := p.run.world.person.Delete(p.run.t.Context(), object, options...); err != nil {
		p.run.t.Fatalf("deleting %T %s: %v", object, name, err)
	}
}

// EmptyStatus does what a restore from a backup does. An ordinary person may not, so
// it is done as the operator.
func (p *Person) EmptyStatus() {
	p.run.t.Helper()
	empty := client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))
	if err := p.run.world.cluster.Operator(p.run.t).Status().Patch(p.run.t.Context(), p.SeiNode(), empty); err != nil {
		p.run.t.Fatalf("emptying the status of %s: %v", p.node, err)
	}
}

// SeiNode is the node as it is.
func (p *Person) SeiNode() *v1alpha1.SeiNode {
	p.run.t.Helper()
	node := &v1alpha1.SeiNode{}
	if !p.Get(p.node, node) {
		p.run.fails("the SeiNode %s is gone", p.node)
	}
	return node
}

// Pod is the pod of the node, or nil.
func (p *Person) Pod() *corev1.Pod {
	p.run.t.Helper()
	pod := &corev1.Pod{}
	if !p.Get(p.node+"-0", pod) {
		return nil
	}
	return pod
}

// Runs tells whether the pod of the node is up with this image of seid.
func (p *Person) Runs(image string) bool {
	p.run.t.Helper()
	pod := p.Pod()
	return pod != nil && pod.Status.Phase == corev1.PodRunning &&
		slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "seid" && c.Image == image })
}

// Ready tells whether the node is ready as of its current spec, and nothing is under
// way.
func (p *Person) Ready() bool {
	p.run.t.Helper()
	node := p.SeiNode()
	return node.Status.Plan == nil && p.Has(v1alpha1.ConditionReady, v1alpha1.ReasonRunning)
}

// Has tells whether a condition of the node has this reason, as of its current spec.
func (p *Person) Has(kind v1alpha1.ConditionType, reason v1alpha1.ConditionReason) bool {
	p.run.t.Helper()
	node := p.SeiNode()
	c := meta.FindStatusCondition(node.Status.Conditions, string(kind))
	return c != nil && c.Reason == string(reason) && c.ObservedGeneration == node.Generation
}

// Sidecar is the handle of the node's sidecar.
func (p *Person) Sidecar() *nodes.Node { return p.run.sidecars.Node(p.run.namespace, p.node) }

// CutOff makes the sidecar of the node unreachable until the function is called.
func (p *Person) CutOff() (restore func()) {
	undo := p.Sidecar().BlackHole()
	p.run.deaf[p.node]++
	return func() {
		undo()
		p.run.deaf[p.node]--
	}
}

// Rest waits until nothing moves any more. No time passes.
func (p *Person) Rest() { p.run.rest() }

// Until waits until something is the case. It is looked at whenever nothing moves,
// and time passes only while it is not.
func (p *Person) Until(what string, holds func() bool) {
	p.run.t.Helper()
	for range maxSteps {
		p.run.rest()
		if holds() {
			return
		}
		if !p.run.advance() {
			break
		}
	}
	p.run.fails("a person waited in vain for %s", what)
}

// Upgrade ends the operator and starts one with other settings, as the next version of
// it would have them. Whoever comes after its death has them too.
func (p *Person) Upgrade(change func(*platform.Settings)) {
	p.run.t.Helper()
	p.WithoutOperator(func() { change(&p.run.platform) })
}

// WithoutOperator does something while there is no operator.
func (p *Person) WithoutOperator(act func()) {
	p.run.t.Helper()
	p.run.stop()
	act()
	p.run.start()
}

func (p *Person) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: p.run.namespace, Name: name}
}
