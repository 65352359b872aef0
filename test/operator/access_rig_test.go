package operator_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/operator"
	"github.com/sei-operator/sei-operator/test/cluster"
	shared "github.com/sei-operator/sei-operator/test/rig"
)

// controlled switches access control on, as it is in what is shipped. The fleet plays
// the proxies as well, and asks the API server what they would.
func controlled(c *operator.Config) { c.Platform.AccessControl.Enabled = true }

// newControlledRig is a rig with access control, in whose namespace proxies may ask.
func newControlledRig(tb testing.TB, change ...func(*operator.Config)) *rig {
	tb.Helper()
	r := newRig(tb, append([]func(*operator.Config){controlled}, change...)...)
	r.bind()
	tb.Cleanup(func() {
		for _, refusal := range r.sidecars.Refusals() {
			tb.Errorf("the operator was refused: %s", refusal)
		}
	})
	return r
}

// bind gives the ServiceAccount of the namespace's nodes what their proxies need.
func (r *rig) bind() {
	r.t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "sei-access-proxy-" + r.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "sei-access-proxy"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.namespace, Name: "default"}},
	}
	if err := r.cluster.Admin(r.t).Create(r.t.Context(), binding); err != nil {
		r.t.Fatal(err)
	}
}

// authority is the Secret with the operator's authority.
func (r *rig) authority(what string, ok func(*corev1.Secret) bool) *corev1.Secret {
	r.t.Helper()
	return cluster.Eventually(r.t, r.cluster.Admin(r.t), types.NamespacedName{Namespace: shared.Namespace, Name: "sei-operator-ca"}, what, ok)
}

// certificate waits for the Secret with the certificate of a node to be in some state.
func (r *rig) certificate(node, what string, ok func(*corev1.Secret) bool) *corev1.Secret {
	r.t.Helper()
	return cluster.Eventually(r.t, r.person, r.key(node+"-access"), what, ok)
}

func exists(*corev1.Secret) bool { return true }

// otherThan tells a Secret from the one before.
func otherThan(before *corev1.Secret) func(*corev1.Secret) bool {
	return func(s *corev1.Secret) bool {
		return string(s.Data[corev1.TLSCertKey]) != string(before.Data[corev1.TLSCertKey]) && len(s.Data[corev1.TLSCertKey]) > 0
	}
}

// reconnect has the operator connect anew, and returns when it has.
func (r *rig) reconnect(name string) {
	r.t.Helper()
	undo := r.sidecars.Node(r.namespace, name).BlackHole()
	r.until(name, "the connection to be lost", func(n *v1alpha1.SeiNode) bool {
		return shared.Condition(n, v1alpha1.ConditionSidecarReady).Status != metav1.ConditionTrue
	})
	undo()
	r.until(name, "the connection to be back", func(n *v1alpha1.SeiNode) bool {
		return shared.Condition(n, v1alpha1.ConditionSidecarReady).Status == metav1.ConditionTrue
	})
}
