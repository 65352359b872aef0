package seinodedeployment

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/derived"
	"github.com/sei-operator/sei-operator/internal/fleet"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/render"
)

// leave lets go or deletes, as the policy says, what belongs to a fleet that is being
// deleted.
func (w *work) leave(ctx context.Context) error {
	if !controllerutil.ContainsFinalizer(w.deployment, v1alpha1.FinalizerDeployment) {
		return nil
	}
	var errs []error
	for _, node := range w.view.Ours() {
		w.wrote = true
		switch {
		case fleet.Retains(w.deployment):
			errs = append(errs, w.disown(ctx, "SeiNode", node))
		case node.DeletionTimestamp == nil:
			errs = append(errs, ignoreChanged(w.Kube.Delete(ctx, "SeiNode", node.DeepCopy())))
		}
	}
	if fleet.Retains(w.deployment) {
		// The nodes go on serving, so what leads to them and protects them stays too.
		errs = append(errs,
			w.disownNamed(ctx, "Service", render.FleetServiceName(w.deployment), &corev1.Service{}),
			w.disownNamed(ctx, "PodDisruptionBudget", render.FleetBudgetName(w.deployment), &policyv1.PodDisruptionBudget{}))
	}
	return errors.Join(errs...)
}

func (w *work) disownNamed(ctx context.Context, kind, name string, object kube.Object) error {
	err := w.Kube.Get(ctx, types.NamespacedName{Namespace: w.deployment.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return w.disown(ctx, kind, object)
}

// disown takes the owner, if it has one, from an object that is to stay, and changes nothing
// else of it. The label with the name of the fleet stays: by it the pods are found, and a
// fleet of that name takes the object back.
func (w *work) disown(ctx context.Context, kind string, object kube.Object) error {
	if !metav1.IsControlledBy(object, w.deployment) {
		return nil
	}
	before, ok1 := object.DeepCopyObject().(kube.Object)
	after, ok2 := object.DeepCopyObject().(kube.Object)
	if !ok1 || !ok2 {
		return nil
	}
	after.SetOwnerReferences(slices.DeleteFunc(after.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == w.deployment.UID }))
	err := w.Kube.PatchMetadata(ctx, kind, before, after)
	if apierrors.IsConflict(err) {
		return derived.ErrLookAgain
	}
	return ignoreChanged(err)
}

// letGo lets a fleet go that has nothing left.
func (w *work) letGo(ctx context.Context) error {
	// The status was written since the fleet was read.
	now := &v1alpha1.SeiNodeDeployment{}
	if err := w.Kube.Get(ctx, types.NamespacedName{Namespace: w.deployment.Namespace, Name: w.deployment.Name}, now); err != nil {
		return ignoreChanged(err)
	}
	if now.UID != w.deployment.UID || !controllerutil.ContainsFinalizer(now, v1alpha1.FinalizerDeployment) {
		return nil
	}
	after := now.DeepCopy()
	controllerutil.RemoveFinalizer(after, v1alpha1.FinalizerDeployment)
	err := w.Kube.PatchMetadata(ctx, "SeiNodeDeployment", now, after)
	if apierrors.IsConflict(err) {
		return derived.ErrLookAgain
	}
	return ignoreChanged(err)
}
