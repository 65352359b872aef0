package derived

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// Claim makes the claim of the data volume, or takes the one that is there, and
// remembers which one it is. It returns what speaks against it.
func Claim(ctx context.Context, s *scope.Scope) (*plan.Gate, error) {
	if verdict := plan.Volume(s.Input); verdict.Holds && (verdict.Reason != v1alpha1.ReasonVolumeInUse || verdict.Stalled) {
		return &plan.Gate{Reason: verdict.Reason, Message: verdict.Message, Stalled: verdict.Stalled}, nil
	}
	if s.Seen.Claim == nil {
		claim := s.Want.DataVolume.DeepCopy()
		if address := s.Seen.Keys[plan.SigningKey].Address; address != "" {
			claim.Labels[v1alpha1.LabelConsensusAddress] = address
		}
		err := s.Kube.CreateClaim(ctx, claim)
		if err != nil {
			return nil, outcome(s, "PersistentVolumeClaim", claim.Name, err)
		}
		s.Seen.Claim = claim
	} else if known := s.Node.Status.DataVolume; known == nil || known.UID != s.Seen.Claim.UID {
		if err := adopt(ctx, s); err != nil {
			return nil, err
		}
	}
	s.Node.Status.DataVolume = &v1alpha1.ObjectIdentity{Name: s.Seen.Claim.Name, UID: s.Seen.Claim.UID}
	return nil, nil
}

// adopt takes a claim that was there before.
func adopt(ctx context.Context, s *scope.Scope) error {
	if s.Want.DataVolume == nil {
		if err := Reservations(ctx, s); err != nil {
			return err
		}
	}
	return claimedElsewhere(ctx, s)
}

// claimedElsewhere looks once more, and at the API server, whether a claim that was
// there before this node is used by another. Whoever imports a claim makes its Lease
// first and then looks for the node whose own it is; that node exists before it looks
// for the Lease. So one of the two sees the other.
func claimedElsewhere(ctx context.Context, s *scope.Scope) error {
	if s.Want.DataVolume == nil {
		owner := s.Seen.Claim.Labels[v1alpha1.LabelNode]
		if owner == "" || owner == s.Node.Name {
			return nil
		}
		return mustNotExist(s.Kube.GetLive(ctx, types.NamespacedName{Namespace: s.Node.Namespace, Name: owner}, &v1alpha1.SeiNode{}))
	}
	name := plan.VolumeWish(s.Input).Name
	if _, seen := s.Seen.Leases[name]; seen {
		return nil // and judged
	}
	_, err := s.Kube.ReservationLive(ctx, name)
	return mustNotExist(err)
}

// mustNotExist is for an object whose absence was relied on.
func mustNotExist(err error) error {
	switch {
	case err == nil:
		return ErrLookAgain
	case apierrors.IsNotFound(err):
		return nil
	}
	return err
}

// expandRetry is when a claim is asked to grow again that was refused to.
const expandRetry = 5 * time.Minute

// expandClaim makes the claim as large as the spec says. That it cannot is told, and
// stops nothing.
func expandClaim(ctx context.Context, s *scope.Scope) error {
	size := plan.Expansion(s.Input)
	if size == nil {
		return nil
	}
	err := s.Kube.ExpandClaim(ctx, s.Seen.Claim, *size)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		s.ExpansionRefused = firstLine(err.Error())
		s.RequeueIn(expandRetry)
		return nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return ErrLookAgain
	}
	return err
}

// MarkBootstrapped writes on the claim that this node was brought up on it, and with
// which key. From then on nothing is ever set up on it again, whatever becomes of our
// status. An imported claim is never changed; its mark is on the Lease.
func MarkBootstrapped(ctx context.Context, s *scope.Scope) error {
	if s.Want.DataVolume == nil {
		return markImported(ctx, s)
	}
	address := s.Seen.Keys[plan.SigningKey].Address
	if plan.Bootstrapped(s.Input) && (address == "" || s.Seen.Claim.Labels[v1alpha1.LabelConsensusAddress] == address) {
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
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, v1alpha1.AnnotationBootstrapped, string(s.Node.UID))
	if address != "" {
		metav1.SetMetaDataLabel(&claim.ObjectMeta, v1alpha1.LabelConsensusAddress, address)
	}
	err := s.Kube.PatchMetadata(ctx, "PersistentVolumeClaim", before, claim)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ErrLookAgain
	}
	if err == nil {
		s.Seen.Claim = claim
	}
	return err
}

func markImported(ctx context.Context, s *scope.Scope) error {
	if plan.Bootstrapped(s.Input) {
		return nil
	}
	before, err := s.Kube.Reservation(ctx, plan.VolumeWish(s.Input).Name)
	if err != nil {
		return fmt.Errorf("reading the Lease of the imported claim %s: %w", s.Want.ClaimName, err)
	}
	after := before.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, v1alpha1.AnnotationBootstrapped, string(s.Node.UID))
	err = s.Kube.ChangeReservation(ctx, before, after)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ErrLookAgain
	}
	return err
}
