package seinode

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/derived"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// release lets a node go that is being deleted: when its pod is seen gone, first its
// volume as the policy says, and then its keys. Whoever takes over the name, the
// volume or a key finds nobody there.
func (r *Reconciler) release(ctx context.Context, s *scope.Scope, read *v1alpha1.SeiNode) error {
	if !controllerutil.ContainsFinalizer(read, v1alpha1.FinalizerNode) || !plan.Stopped(s.Input) {
		return nil
	}
	if err := r.releaseVolume(ctx, s); err != nil {
		return err
	}
	if err := derived.ReleaseReservations(ctx, s); err != nil {
		return err
	}
	// The status was written since the node was read.
	node := &v1alpha1.SeiNode{}
	if err := r.Tools.Kube.Get(ctx, s.Key(), node); err != nil {
		return ignoreChanged(err)
	}
	after := node.DeepCopy()
	controllerutil.RemoveFinalizer(after, v1alpha1.FinalizerNode)
	return ignoreChanged(r.Tools.Kube.PatchMetadata(ctx, "SeiNode", node, after))
}

// releaseVolume deletes the volume, if that was asked for, and only the one that the
// node used.
func (r *Reconciler) releaseVolume(ctx context.Context, s *scope.Scope) error {
	policy, claim, tracked := s.Node.Spec.DataVolume, s.Seen.Claim, s.Node.Status.DataVolume
	if policy == nil || policy.DeletionPolicy != v1alpha1.DeletionPolicyDelete || policy.Import != nil {
		return nil
	}
	if claim == nil || tracked == nil || claim.UID != tracked.UID || claim.DeletionTimestamp != nil {
		return nil
	}
	err := r.Tools.Kube.Delete(ctx, "PersistentVolumeClaim", claim)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	r.Tools.Report.Event(s.Node, scope.Event{Reason: "DataVolumeDeleted", Message: fmt.Sprintf("The claim %s was deleted with its data, because dataVolume.deletionPolicy is Delete.", claim.Name)})
	return nil
}
