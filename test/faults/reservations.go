package faults

import (
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// secretMetadata is what the operator's cache holds of a Secret.
func secretMetadata() client.Object {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret
}

// namespaceOf is that of the run that a Lease belongs to. Its chain says so, also when
// it is nobody's.
func namespaceOf(lease *coordinationv1.Lease) string {
	return strings.TrimPrefix(lease.Labels[v1alpha1.LabelChain], chainPrefix)
}

// isFree tells whether a Lease is nobody's, and kept for what it says of a signing key.
func isFree(lease *coordinationv1.Lease) bool {
	return lease.Spec.HolderIdentity == nil && lease.Annotations[v1alpha1.AnnotationHolder] == "" && len(lease.Finalizers) == 0 &&
		lease.Labels[v1alpha1.LabelReservation] == string(v1alpha1.ReservationSigningKey) && lease.Annotations[v1alpha1.AnnotationSigned] != ""
}

// sawLease sees to it that a reservation is not let go while its node lives, and that what
// it says of a signing key is not lost.
func (r *run) sawLease(before client.Object, lease *coordinationv1.Lease) {
	old, ok := before.(*coordinationv1.Lease)
	if !ok {
		return
	}
	if old.Annotations[v1alpha1.AnnotationSigned] != "" && lease.Annotations[v1alpha1.AnnotationSigned] == "" {
		r.violated("the Lease of a %s does not say any more what the key signed", lease.Labels[v1alpha1.LabelReservation])
	}
	if isFree(lease) && !isFree(old) {
		r.letGo(old)
	}
}

func (r *run) sawNode(node *v1alpha1.SeiNode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.deleting[node.Name] = node.DeletionTimestamp != nil
}

// lostLease sees to it that no reservation is lost while its node lives, and that nobody
// forgets what a key signed: the keys of these runs are in Secrets, and outlive volumes.
func (r *run) lostLease(lease *coordinationv1.Lease) {
	if isFree(lease) {
		r.violated("what is known of a signing key is lost")
		return
	}
	r.letGo(lease)
}

// letGo is told of a Lease that its holder has no longer.
func (r *run) letGo(lease *coordinationv1.Lease) {
	_, holder, _ := strings.Cut(lease.Annotations[v1alpha1.AnnotationHolder], "/")
	r.mu.Lock()
	deleting := r.history.deleting[holder]
	r.mu.Unlock()
	if !deleting && !r.workload.ReplacesKey {
		r.violated("the %s of %s is not reserved any more, and the node lives", lease.Labels[v1alpha1.LabelReservation], holder)
	}
}

// checkReservations sees to it that in the end the nodes that are there hold what their
// statuses say, and that nothing is reserved for nobody.
func (r *run) checkReservations() {
	found := r.read(r.world.live)
	holders := map[string]types.UID{}
	for i := range found.nodes.Items {
		node := &found.nodes.Items[i]
		for _, reservation := range node.Status.Reservations {
			holders[reservation.Name] = node.UID
		}
		if keys := keysOf(node); len(keys) > len(node.Status.Reservations) && node.Status.Phase == v1alpha1.PhaseRunning {
			r.violated("%s runs with %v, and has reserved %v", node.Name, keys, node.Status.Reservations)
		}
	}
	for i := range found.leases.Items {
		lease := &found.leases.Items[i]
		holder := lease.Spec.HolderIdentity
		switch want, recorded := holders[lease.Name]; {
		case !recorded && isFree(lease):
		case !recorded:
			r.violated("the Lease of a %s is left behind by %s", lease.Labels[v1alpha1.LabelReservation], lease.Annotations[v1alpha1.AnnotationHolder])
		case holder == nil || types.UID(*holder) != want:
			r.violated("the Lease of a %s has the wrong holder", lease.Labels[v1alpha1.LabelReservation])
		}
		delete(holders, lease.Name)
	}
	for name := range holders {
		r.violated("%s is in the status of a node, and there is no such Lease", name)
	}
}

// keysOf are the Secrets with keys that a node names.
func keysOf(node *v1alpha1.SeiNode) []string {
	var names []string
	if v := node.Spec.Validator; v != nil && v.SigningKey != nil && v.NodeKey != nil {
		names = append(names, v.SigningKey.Secret.SecretName, v.NodeKey.Secret.SecretName)
	}
	return names
}

// clearReservations frees the keys of a run that did not come to the end of its nodes.
func (r *run) clearReservations() {
	for _, lease := range r.read(r.world.person).leases.Items {
		before := lease.DeepCopy()
		lease.Finalizers = slices.DeleteFunc(lease.Finalizers, func(f string) bool { return f == v1alpha1.FinalizerReservation })
		err := r.world.person.Patch(r.t.Context(), &lease, client.MergeFrom(before))
		if err == nil {
			err = r.world.person.Delete(r.t.Context(), &lease)
		}
		if client.IgnoreNotFound(err) != nil {
			r.t.Errorf("freeing %s: %v", lease.Name, err)
		}
	}
}

// Chain is the chain of a run: nodes of other runs are not its business.
func (p *Person) Chain() string { return p.run.chain() }

func (r *run) chain() string { return chainPrefix + r.namespace }

const chainPrefix = "chain-"

// Leases are the reservations of the run's nodes.
func (p *Person) Leases() []coordinationv1.Lease { return p.run.read(p.run.world.person).leases.Items }

// Annotate sets an annotation of the node.
func (p *Person) Annotate(key, value string) {
	p.run.t.Helper()
	p.Edit(func(node *v1alpha1.SeiNode) {
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		node.Annotations[key] = value
	})
}

// Replace writes an object anew.
func (p *Person) Replace(object client.Object) {
	p.run.t.Helper()
	object.SetNamespace(p.run.namespace)
	if err := p.run.world.person.Update(p.run.t.Context(), object); err != nil {
		p.run.t.Fatalf("writing %T %s: %v", object, object.GetName(), err)
	}
}

// Tamper makes somebody else the holder of a Lease.
func (p *Person) Tamper(lease *coordinationv1.Lease) {
	p.run.t.Helper()
	before := lease.DeepCopy()
	lease.Spec.HolderIdentity = new("somebody")
	if err := p.run.world.person.Patch(p.run.t.Context(), lease, client.MergeFrom(before)); err != nil {
		p.run.t.Fatalf("editing the Lease %s: %v", lease.Name, err)
	}
}

// KeysAreFree tells whether nobody holds a Lease of the run, and that of the signing key
// is kept for what it says.
func (p *Person) KeysAreFree() bool {
	leases := p.Leases()
	return len(leases) == 1 && isFree(&leases[0])
}

// HoldsItsKeys tells whether the node holds all Leases of the run, but those of signing
// keys that it had before.
func (p *Person) HoldsItsKeys() bool {
	node := p.SeiNode()
	leases := slices.DeleteFunc(p.Leases(), func(l coordinationv1.Lease) bool { return isFree(&l) })
	return len(leases) == len(node.Status.Reservations) && !slices.ContainsFunc(leases, func(l coordinationv1.Lease) bool {
		return l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != string(node.UID)
	})
}
