package kube

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// A person may delete the Lease while its node runs. Its finalizer keeps it, and the next
// node with the key needs its record.
func TestWhatAKeySignedOutlivesItsNode(t *testing.T) {
	t.Parallel()
	const record = `{"height":7}`
	for name, c := range map[string]struct {
		record          string
		deleted, forget bool
		kept            bool
		finalizers      int
	}{
		"a record":                          {record: record, kept: true},
		"a record, and it was deleted":      {record: record, deleted: true, kept: true, finalizers: 1},
		"no record":                         {},
		"no record, and it was deleted":     {deleted: true},
		"a record of a volume that is gone": {record: record, forget: true},
		"of such a volume, and deleted":     {record: record, deleted: true, forget: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
				Namespace: "operator", Name: "key", Finalizers: []string{v1alpha1.FinalizerReservation},
				Annotations: map[string]string{v1alpha1.AnnotationHolder: "sei/node"},
			}}
			lease.Spec.HolderIdentity = new("uid")
			if c.record != "" {
				lease.Annotations[v1alpha1.AnnotationSigned] = c.record
			}
			scheme, err := NewScheme()
			must(t, err)
			server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(lease).Build()
			k := New(Options{Cached: server, Live: server, Namespace: "operator"})
			if c.deleted {
				must(t, server.Delete(t.Context(), lease))
			}
			found, err := k.Reservation(t.Context(), "key")
			must(t, err)
			must(t, k.LetGo(t.Context(), found, c.forget))
			left, err := k.Reservation(t.Context(), "key")
			switch {
			case apierrors.IsNotFound(err):
				if c.kept {
					t.Error("what the key signed is forgotten")
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			if !c.kept || left.Annotations[v1alpha1.AnnotationSigned] != c.record || len(left.Finalizers) != c.finalizers {
				t.Errorf("left: %+v", left.ObjectMeta)
			}
			if left.Spec.HolderIdentity != nil || left.Annotations[v1alpha1.AnnotationHolder] != "" {
				t.Errorf("it is still held: %+v", left)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
