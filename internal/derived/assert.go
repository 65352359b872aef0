// Package derived keeps the objects that a node is made of as they have to be: the
// StatefulSet, the Service, the ConfigMaps, the certificate and the claim. Every reconcile asserts
// them, in every phase, and the tasks of plans go through the same functions.
//
// What is wanted is compared with what our field manager owns in the live object.
// Equal means that nothing is sent, also right after a restart of the operator.
package derived

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/owned"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// ErrLookAgain means that the world is not as it was seen. Nothing was done, and the
// next reconcile sees it as it is.
var ErrLookAgain = errors.New("the cluster changed in the meantime")

// Assert puts right what was deleted or changed by others. It does not stop at the
// first thing that fails, so that one refused object does not leave the others
// unattended.
func Assert(ctx context.Context, s *scope.Scope) error {
	// First: the configuration below tells the next pod what is known of its key.
	errs := []error{RecordSigned(ctx, s)}
	if s.RenderProblem == "" && s.Node.DeletionTimestamp == nil {
		errs = append(errs, assertNodeConfig(ctx, s), expandClaim(ctx, s))
		if plan.HasStatefulSet(s.Node) {
			errs = append(errs, Reservations(ctx, s), Service(ctx, s), ProxyConfig(ctx, s), Certificate(ctx, s))
		}
	}
	_, err := StatefulSet(ctx, s, false)
	return errors.Join(append(errs, err)...)
}

// live is an object that is there, or nil.
type live interface {
	metav1.Object
	kube.Object
}

// wanted is an object as it shall be.
type wanted[T any, P interface {
	*T
	kube.Applicable
}] struct {
	kind string
	// want is what is applied; its metadata is changed here and put back.
	want P
	meta *metav1ac.ObjectMetaApplyConfiguration
	// owned is what is ours of the live object.
	owned owned.Of[T]
	// empty is to read a live object into.
	empty live
}

// ensure makes an object what it shall be. It writes only if it is not.
func ensure[T any, P interface {
	*T
	kube.Applicable
}](ctx context.Context, s *scope.Scope, w wanted[T, P], found live,
) error {
	if found == nil {
		return createObject(ctx, s, w)
	}
	if gate := plan.Foreign(s.Node, w.kind, found); gate != nil {
		s.InTrouble(gate)
		return nil
	}
	if same, err := w.owned.Equals(w.want); err != nil || same {
		return err
	}
	uid := found.GetUID()
	w.meta.UID = &uid
	_, err := kube.Apply(ctx, s.Kube, w.want)
	w.meta.UID = nil
	return outcome(s, w.kind, found.GetName(), err)
}

// createObject makes an object that is not there as far as we can see. What we see
// is what carries our label, so there may be one that lost it, or one of somebody
// else.
func createObject[T any, P interface {
	*T
	kube.Applicable
}](ctx context.Context, s *scope.Scope, w wanted[T, P],
) error {
	name := *w.want.GetName()
	w.meta.ResourceVersion = new(kube.MustNotExist)
	_, err := kube.Apply(ctx, s.Kube, w.want)
	w.meta.ResourceVersion = nil
	if !apierrors.IsConflict(err) {
		return outcome(s, w.kind, name, err)
	}
	if err := s.Kube.GetLive(ctx, types.NamespacedName{Namespace: s.Node.Namespace, Name: name}, w.empty); err != nil {
		if apierrors.IsNotFound(err) {
			return ErrLookAgain
		}
		return err
	}
	if gate := plan.Foreign(s.Node, w.kind, w.empty); gate != nil {
		s.InTrouble(gate)
		return nil
	}
	uid := w.empty.GetUID()
	w.meta.UID = &uid
	_, err = kube.Apply(ctx, s.Kube, w.want)
	w.meta.UID = nil
	return outcome(s, w.kind, name, err)
}

func outcome(s *scope.Scope, kind, name string, err error) error {
	return Outcome(s.InTrouble, kind, name, err)
}

// Outcome tells a refusal, which a person has to hear of, from an error that the next
// try may not meet.
func Outcome(inTrouble func(*plan.Gate), kind, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s %s: %w", kind, name, ErrLookAgain)
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		inTrouble(&plan.Gate{
			Reason: v1alpha1.ReasonAPIRefused, Stalled: true,
			Message: fmt.Sprintf("The API server refuses the %s %s: %s", kind, name, firstLine(err.Error())),
		})
	}
	return fmt.Errorf("%s %s: %w", kind, name, err)
}

// maxRefusal bounds what is told of a refusal.
const maxRefusal = 300

func firstLine(text string) string {
	for i, r := range text {
		if r == '\n' || i >= maxRefusal {
			return text[:i]
		}
	}
	return text
}
