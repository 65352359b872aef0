package seinodedeployment

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/derived"
	"github.com/sei-operator/sei-operator/internal/fleet"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
)

// work is one fleet during one reconcile.
type work struct {
	*Reconciler

	deployment *v1alpha1.SeiNodeDeployment
	// view is the fleet as it was last looked at, and wrote tells whether something was
	// changed since.
	view  *fleet.View
	wrote bool
	// trouble is what no further try puts right by itself.
	trouble []plan.Gate
}

func (w *work) look(ctx context.Context) error {
	view, err := w.Budget.Look(ctx, w.deployment)
	w.view, w.wrote = view, false
	return err
}

// nodes makes, changes and deletes nodes. Where a node might be updated, who is updated
// is counted and the update is written under the lock of the budget.
func (w *work) nodes(ctx context.Context) error {
	if w.view.NeedsBudget() {
		w.Budget.Lock()
		defer w.Budget.Unlock()
		if err := w.look(ctx); err != nil {
			return err
		}
	}
	var errs []error
	refused := false
	for _, act := range w.view.Decide().Acts {
		w.wrote = true
		// A template that one node refuses the next would too.
		if !act.Updates || !refused {
			err := w.do(ctx, act)
			errs = append(errs, err)
			refused = refused || act.Updates && err != nil
			if err == nil {
				continue
			}
		}
		if act.Without != nil {
			errs = append(errs, w.do(ctx, *act.Without))
		}
	}
	return errors.Join(errs...)
}

func (w *work) do(ctx context.Context, act fleet.Act) error {
	switch act.Action {
	case fleet.Delete:
		err := w.Kube.Delete(ctx, "SeiNode", act.Node.DeepCopy())
		if apierrors.IsNotFound(err) {
			return nil
		}
		return w.outcome("SeiNode", act.Name, err)
	case fleet.Create:
		act.Want.ResourceVersion = new(kube.MustNotExist)
	case fleet.Apply:
		act.Want.UID = &act.Node.UID
		if act.Updates {
			// It was decided on what the node was. One that was paused, which costs nothing,
			// may run again by now.
			act.Want.ResourceVersion = &act.Node.ResourceVersion
		}
	}
	_, err := kube.ApplyAs(ctx, w.Kube, render.FleetManager, act.Want)
	return w.outcome("SeiNode", act.Name, err)
}

// service keeps what leads to the nodes that are ready.
func (w *work) service(ctx context.Context) error {
	want := render.FleetService(w.deployment)
	if want == nil {
		return nil
	}
	found := &corev1.Service{}
	return ensure(ctx, w, want, want.ObjectMetaApplyConfiguration, found, func() (*corev1ac.ServiceApplyConfiguration, error) {
		return corev1ac.ExtractService(found, render.FleetManager)
	})
}

// disruptionBudget keeps what protects the nodes from those who drain machines.
func (w *work) disruptionBudget(ctx context.Context) error {
	want := render.FleetBudget(w.deployment, w.view.MinAvailable())
	found := &policyv1.PodDisruptionBudget{}
	return ensure(ctx, w, want, want.ObjectMetaApplyConfiguration, found, func() (*policyv1ac.PodDisruptionBudgetApplyConfiguration, error) {
		return policyv1ac.ExtractPodDisruptionBudget(found, render.FleetManager)
	})
}

// ensure makes an object what it shall be. It writes only if it is not, and never to an
// object of someone else.
func ensure[T any, P interface {
	*T
	kube.Applicable
}](ctx context.Context, w *work, want P, meta *metav1ac.ObjectMetaApplyConfiguration, found kube.Object, owned func() (P, error),
) error {
	kind, key := *want.GetKind(), types.NamespacedName{Namespace: *want.GetNamespace(), Name: *want.GetName()}
	switch err := w.Kube.Get(ctx, key, found); {
	case apierrors.IsNotFound(err):
		meta.ResourceVersion = new(kube.MustNotExist)
	case err != nil:
		return fmt.Errorf("reading %s %s: %w", kind, key, err)
	case !belongs(w.deployment, found):
		w.trouble = append(w.trouble, plan.Gate{
			Reason: v1alpha1.ReasonForeignObject, Stalled: true,
			Message: fmt.Sprintf("The %s %s is not this fleet's. It is left alone; delete or rename it, or rename the fleet.", kind, key.Name),
		})
		return nil
	default:
		has, err := owned()
		if err != nil {
			return fmt.Errorf("finding out what is the fleet's of %s %s: %w", kind, key, err)
		}
		if equality.Semantic.DeepEqual(want, has) {
			return nil
		}
		uid := found.GetUID()
		meta.UID = &uid
	}
	_, err := kube.ApplyAs(ctx, w.Kube, render.FleetManager, want)
	return w.outcome(kind, key.Name, err)
}

// belongs tells whether an object is the fleet's, or was and is nobody's since.
func belongs(deployment *v1alpha1.SeiNodeDeployment, object metav1.Object) bool {
	if metav1.GetControllerOf(object) == nil {
		return object.GetLabels()[v1alpha1.LabelDeployment] == deployment.Name
	}
	return metav1.IsControlledBy(object, deployment)
}

func (w *work) outcome(kind, name string, err error) error {
	return derived.Outcome(func(gate *plan.Gate) { w.trouble = append(w.trouble, *gate) }, kind, name, err)
}
