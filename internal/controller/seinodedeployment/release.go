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
	"github.com/sei-operator/sei-operator/internal/fleet"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/render"
)

// leave lets go or deletes, as the policy says, what belongs to a fleet that is being
// deleted. Only what it controls is touched.
func (r *Reconciler) leave(ctx context.Context, deployment *v1alpha1.SeiNodeDeployment) error {
	if !controllerutil.ContainsFinalizer(deployment, v1alpha1.FinalizerDeployment) {
		return nil
	}
	view, err := r.Budget.Look(ctx, deployment)
	if err != nil {
		return err
	}
	var errs []error
	for _, node := range view.Controlled() {
		switch {
		case fleet.Retains(deployment):
			errs = append(errs, r.disown(ctx, deployment, "SeiNode", node))
		case node.DeletionTimestamp == nil:
			errs = append(errs, ignoreChanged(r.Kube.Delete(ctx, "SeiNode", node.DeepCopy())))
		}
	}
	if fleet.Retains(deployment) {
		// The nodes go on serving, so what leads to them and protects them stays too.
		errs = append(errs,
			r.disownNamed(ctx, deployment, "Service", render.FleetServiceName(deployment), &corev1.Service{}),
			r.disownNamed(ctx, deployment, "PodDisruptionBudget", render.FleetBudgetName(deployment), &policyv1.PodDisruptionBudget{}))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) disownNamed(ctx context.Context, deployment *v1alpha1.SeiNodeDeployment, kind, name string, object kube.Object) error {
	err := r.Kube.Get(ctx, types.NamespacedName{Namespace: deployment.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.disown(ctx, deployment, kind, object)
}

// disown takes the owner from an object and changes nothing else of it. The label with the
// name of the fleet stays: by it the pods are found, and a fleet of that name takes the
// object back.
func (r *Reconciler) disown(ctx context.Context, deployment *v1alpha1.SeiNodeDeployment, kind string, object kube.Object) error {
	if !metav1.IsControlledBy(object, deployment) {
		return nil
	}
	before, ok1 := object.DeepCopyObject().(kube.Object)
	after, ok2 := object.DeepCopyObject().(kube.Object)
	if !ok1 || !ok2 {
		return nil
	}
	after.SetOwnerReferences(slices.DeleteFunc(after.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == deployment.UID }))
	err := r.Kube.PatchMetadata(ctx, kind, before, after)
	if apierrors.IsConflict(err) {
		return errLookAgain
	}
	return ignoreChanged(err)
}

// letGo lets a fleet go that has nothing left.
func (r *Reconciler) letGo(ctx context.Context, read *v1alpha1.SeiNodeDeployment) error {
	// The status was written since the fleet was read.
	deployment := &v1alpha1.SeiNodeDeployment{}
	if err := r.Kube.Get(ctx, types.NamespacedName{Namespace: read.Namespace, Name: read.Name}, deployment); err != nil {
		return ignoreChanged(err)
	}
	if deployment.UID != read.UID || !controllerutil.ContainsFinalizer(deployment, v1alpha1.FinalizerDeployment) {
		return nil
	}
	after := deployment.DeepCopy()
	controllerutil.RemoveFinalizer(after, v1alpha1.FinalizerDeployment)
	err := r.Kube.PatchMetadata(ctx, "SeiNodeDeployment", deployment, after)
	if apierrors.IsConflict(err) {
		return errLookAgain
	}
	return ignoreChanged(err)
}
