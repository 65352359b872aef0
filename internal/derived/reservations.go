package derived

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// Reservations reserves what the node has to have for itself alone, as far as it can
// be had, and lets go of what it no longer uses. A reservation counts when it is in
// the status that is persisted, so another look follows at once.
func Reservations(ctx context.Context, s *scope.Scope) error {
	for _, wish := range plan.Wishes(s.Input) {
		if err := reserve(ctx, s, wish); err != nil {
			return err
		}
	}
	for _, has := range plan.Surplus(s.Input) {
		if err := letGo(ctx, s, has.Name); err != nil {
			return err
		}
		s.Node.Status.Reservations = slices.DeleteFunc(s.Node.Status.Reservations, func(r v1alpha1.Reservation) bool { return r == has })
	}
	if !slices.Equal(s.Node.Status.Reservations, s.Persisted.Reservations) {
		s.RequeueIn(time.Nanosecond)
	}
	return nil
}

func reserve(ctx context.Context, s *scope.Scope, wish plan.Wish) error {
	switch plan.ReservationStep(s.Input, wish) {
	case plan.Reserve:
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: wish.Name}}
		hold(s, wish, lease)
		if err := s.Kube.Reserve(ctx, lease); err != nil {
			return outcome(s, "Lease", wish.Name, err)
		}
	case plan.TakeOver:
		before, err := s.Kube.Reservation(ctx, wish.Name)
		if err != nil {
			return outcome(s, "Lease", wish.Name, err)
		}
		if before.ResourceVersion != s.Seen.Leases[wish.Name].ResourceVersion {
			return ErrLookAgain // whether it may be taken was decided about another one
		}
		after := before.DeepCopy()
		hold(s, wish, after)
		if err := s.Kube.ChangeReservation(ctx, before, after); err != nil {
			return outcome(s, "Lease", wish.Name, err)
		}
	case plan.LeaveReserved:
		return nil
	case plan.Reserved:
	}
	lease := s.Seen.Leases[wish.Name]
	lease.Kind, lease.Holder = wish.Kind, s.Node.UID
	s.Seen.Leases[wish.Name] = lease
	entry := v1alpha1.Reservation{Kind: wish.Kind, Name: wish.Name}
	if !slices.Contains(s.Node.Status.Reservations, entry) {
		s.Node.Status.Reservations = append(s.Node.Status.Reservations, entry)
	}
	return nil
}

// hold makes a Lease this node's.
func hold(s *scope.Scope, wish plan.Wish, lease *coordinationv1.Lease) {
	lease.Labels = map[string]string{v1alpha1.LabelReservation: string(wish.Kind), v1alpha1.LabelChain: s.Node.Spec.ChainID}
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationHolder, s.Key().String())
	if !slices.Contains(lease.Finalizers, v1alpha1.FinalizerReservation) && lease.DeletionTimestamp == nil {
		lease.Finalizers = append(lease.Finalizers, v1alpha1.FinalizerReservation)
	}
	lease.Spec.HolderIdentity = new(string(s.Node.UID))
	lease.Spec.AcquireTime = new(metav1.NewMicroTime(s.Seen.Now))
}

// RecordSigned writes down what the key of this node signed, now and then, in the Lease
// of the key: a volume that is put back to an older state does not know it.
func RecordSigned(ctx context.Context, s *scope.Scope) error {
	now := plan.RecordSigned(s.Input)
	s.RequeueIn(now.After)
	if now.Lease == "" {
		return nil
	}
	before, err := s.Kube.Reservation(ctx, now.Lease)
	if err != nil {
		return outcome(s, "Lease", now.Lease, err)
	}
	seen := s.Seen.Leases[now.Lease]
	if before.ResourceVersion != seen.ResourceVersion {
		return ErrLookAgain // what is to be written follows from another one
	}
	text, err := json.Marshal(now.Record)
	if err != nil {
		return err
	}
	after := before.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, v1alpha1.AnnotationSigned, string(text))
	after.Spec.RenewTime = new(metav1.NewMicroTime(s.Seen.Now))
	if err := s.Kube.ChangeReservation(ctx, before, after); err != nil {
		return outcome(s, "Lease", now.Lease, err)
	}
	if accepted := now.Record.Accepted; accepted != nil && (seen.Signed.Accepted == nil || *seen.Signed.Accepted != *accepted) {
		s.Report.Event(s.Node, scope.Event{Warning: true, Reason: "SignStateAccepted", Message: fmt.Sprintf(
			"A person accepted the sign state at height %d: seid starts without looking for its own signatures.", *accepted)})
	}
	if seen.Unreadable {
		s.Report.Event(s.Node, scope.Event{Warning: true, Reason: "SignRecordReplaced", Message: fmt.Sprintf(
			"The Lease %s had a record of what the key signed that cannot be read. It says height %d now.", now.Lease, now.Record.Height)})
	}
	seen.Unreadable = false
	seen.Signed, seen.Renewed, seen.ResourceVersion = now.Record, s.Seen.Now, after.ResourceVersion
	s.Seen.Leases[now.Lease] = seen
	return nil
}

// ReleaseReservations lets go of everything that the node holds. It is for a node
// whose pod is seen gone.
func ReleaseReservations(ctx context.Context, s *scope.Scope) error {
	held, err := s.Kube.ReservationsOf(ctx, s.Node.UID)
	if err != nil {
		return err
	}
	for i := range held {
		forget := plan.ForgetsSigned(s.Input, s.Seen.Leases[held[i].Name].Signed)
		if err := s.Kube.LetGo(ctx, &held[i], forget); err != nil {
			return outcome(s, "Lease", held[i].Name, err)
		}
	}
	return nil
}

func letGo(ctx context.Context, s *scope.Scope, name string) error {
	lease, err := s.Kube.Reservation(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != string(s.Node.UID) {
		return nil // it is somebody else's by now
	}
	return outcome(s, "Lease", name, s.Kube.LetGo(ctx, lease, false))
}
