package operator_test

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
	shared "github.com/sei-operator/sei-operator/test/rig"
)

// A key whose holder is gone without having let go of it is taken over when the holder's
// pod is gone too. One that is deleted in order lets go of all it has; what the signing
// key signed is kept, and by nobody.
func TestKeysOfAValidatorThatIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	signing, identity := shared.NewKey(t), shared.NewKey(t)
	for _, name := range []string{"alpha", "beta"} {
		r.create(shared.SigningSecret(t, r.key(name+"-signing"), signing))
		r.create(shared.NodeSecret(t, r.key(name+"-node"), identity))
	}
	r.create(r.validator("alpha"))
	held := r.ready("alpha").Status.Reservations
	r.stop()
	r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Finalizers = nil })
	r.delete(&v1alpha1.SeiNode{ObjectMeta: r.fullNode("alpha").ObjectMeta})
	cluster.Gone[*v1alpha1.SeiNode](t, r.person, r.key("alpha"), "nobody keeps it")
	cluster.Gone[*corev1.Pod](t, r.person, r.key("alpha-0"), "its owner is gone")
	r.start()
	r.create(r.validator("beta"))
	node := r.ready("beta")
	r.delete(node)
	cluster.Gone[*v1alpha1.SeiNode](t, r.person, r.key("beta"), "it is deleted")
	for _, reservation := range held {
		key := client.ObjectKey{Namespace: shared.Namespace, Name: reservation.Name}
		if reservation.Kind != v1alpha1.ReservationSigningKey {
			cluster.Gone[*coordinationv1.Lease](t, r.cluster.Admin(t), key, "nobody needs it")
			continue
		}
		lease := cluster.Eventually(t, r.cluster.Admin(t), key, "the key to be let go", isNobodys)
		if signed := recordOf(t, lease); signed.Height == 0 {
			t.Errorf("the Lease says %+v", signed)
		}
	}
}
