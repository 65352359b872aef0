package derived

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// Claim makes the claim of the data volume, or takes the one that is there, and
// remembers which one it is. It returns what speaks against it.
func Claim(ctx context.Context, s *scope.Scope) (*plan.Gate, error) {
	if verdict := plan.Volume(s.Input); verdict.Holds && verdict.Reason != v1alpha1.ReasonVolumeInUse {
		return &plan.Gate{Reason: verdict.Reason, Message: verdict.Message, Stalled: verdict.Stalled}, nil
	}
	if s.Seen.Claim == nil {
		claim := s.Want.DataVolume.DeepCopy()
		err := s.Kube.CreateClaim(ctx, claim)
		if err != nil {
			return nil, outcome(s, "PersistentVolumeClaim", claim.Name, err)
		}
		s.Seen.Claim = claim
	}
	s.Node.Status.DataVolume = &v1alpha1.ObjectIdentity{Name: s.Seen.Claim.Name, UID: s.Seen.Claim.UID}
	return nil, nil
}

// MarkBootstrapped writes on the claim that this node was brought up on it. From
// then on nothing is ever set up on it again, whatever becomes of our status. An
// imported claim is never changed.
func MarkBootstrapped(ctx context.Context, s *scope.Scope) error {
	if s.Want.DataVolume == nil || plan.Bootstrapped(s.Node, s.Seen.Claim) {
		return nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	key := s.Key()
	key.Name = s.Want.ClaimName
	if err := s.Kube.Get(ctx, key, claim); err != nil {
		return fmt.Errorf("reading the claim %s: %w", key, err)
	}
	if tracked := s.Node.Status.DataVolume; tracked == nil || claim.UID != tracked.UID {
		return ErrLookAgain
	}
	before := claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[v1alpha1.AnnotationBootstrapped] = string(s.Node.UID)
	err := s.Kube.PatchMetadata(ctx, "PersistentVolumeClaim", before, claim)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ErrLookAgain
	}
	if err == nil {
		s.Seen.Claim = claim
	}
	return err
}
