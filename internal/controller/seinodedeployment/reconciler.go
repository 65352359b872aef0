// Package seinodedeployment is the controller of SeiNodeDeployments. It carries out what
// the package fleet decides.
package seinodedeployment

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/budget"
	"github.com/sei-operator/sei-operator/internal/derived"
	"github.com/sei-operator/sei-operator/internal/fleet"
	"github.com/sei-operator/sei-operator/internal/kube"
)

// lookAgain is when to look again at a world that was not as it was seen.
const lookAgain = 20 * time.Millisecond

// Reconciler keeps fleets as their specs want them. It has no state of its own.
type Reconciler struct {
	Kube     *kube.Client
	Budget   *budget.Budget
	Recorder events.EventRecorder
	Metrics  *Metrics
}

// Reconcile looks at one fleet and takes it one step further.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	deployment := &v1alpha1.SeiNodeDeployment{}
	if err := r.Kube.Get(ctx, request.NamespacedName, deployment); err != nil {
		if !apierrors.IsNotFound(err) {
			return reconcile.Result{}, err
		}
		r.Metrics.Forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	// Alone and first: from here on the fleet cannot go away without its nodes being let
	// go or deleted.
	if deployment.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(deployment, v1alpha1.FinalizerDeployment) {
		after := deployment.DeepCopy()
		controllerutil.AddFinalizer(after, v1alpha1.FinalizerDeployment)
		return reconcile.Result{RequeueAfter: time.Nanosecond}, ignoreChanged(r.Kube.PatchMetadata(ctx, "SeiNodeDeployment", deployment, after))
	}
	w := &work{Reconciler: r, deployment: deployment}
	failure := w.act(ctx)
	return w.record(ctx, failure)
}

// act does what is to be done. It does not stop at the first thing that fails, so that
// one refused object does not leave the others unattended.
func (w *work) act(ctx context.Context) error {
	if err := w.look(ctx); err != nil {
		return err
	}
	if w.deployment.DeletionTimestamp != nil {
		return w.leave(ctx)
	}
	return errors.Join(w.nodes(ctx), w.service(ctx), w.disruptionBudget(ctx))
}

// record computes the status from the world as it is after what was done, and writes it,
// if it changed, once.
func (w *work) record(ctx context.Context, failure error) (reconcile.Result, error) {
	if w.view == nil || w.wrote {
		if err := w.look(ctx); err != nil {
			return reconcile.Result{}, errors.Join(failure, err)
		}
	}
	read, decision := w.deployment, w.view.Decide()
	after := read.DeepCopy()
	after.Status = w.view.Status(decision, w.trouble)
	if !equality.Semantic.DeepEqual(read.Status, after.Status) {
		status := after.Status.DeepCopy()
		if err := w.Kube.PatchFleetStatus(ctx, read, after); err != nil {
			if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
				return reconcile.Result{RequeueAfter: lookAgain}, nil
			}
			return reconcile.Result{}, errors.Join(failure, fmt.Errorf("writing the status of fleet %s/%s: %w", read.Namespace, read.Name, err))
		}
		for _, event := range fleet.Transitions(&read.Status, status) {
			w.tell(read, event)
		}
	}
	w.Metrics.Observe(after)
	if read.DeletionTimestamp != nil && failure == nil && w.view.Left() {
		failure = w.letGo(ctx)
	}
	switch {
	case errors.Is(failure, derived.ErrLookAgain):
		return reconcile.Result{RequeueAfter: lookAgain}, nil
	case failure != nil:
		return reconcile.Result{}, failure
	}
	return reconcile.Result{RequeueAfter: decision.After}, nil
}

func (r *Reconciler) tell(deployment *v1alpha1.SeiNodeDeployment, event fleet.Event) {
	kind := corev1.EventTypeNormal
	if event.Warning {
		kind = corev1.EventTypeWarning
	}
	r.Recorder.Eventf(deployment, nil, kind, event.Reason, "Reconcile", "%s", event.Message)
}

// ignoreChanged is for a write that somebody else was faster than: what is then there is
// looked at next.
func ignoreChanged(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
