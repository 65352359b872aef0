// Package seinode is the controller of SeiNodes. A reconcile is a table of contents:
// observe, decide, act, record.
package seinode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/budget"
	"github.com/sei-operator/sei-operator/internal/derived"
	"github.com/sei-operator/sei-operator/internal/observe"
	"github.com/sei-operator/sei-operator/internal/owned"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/scope"
	"github.com/sei-operator/sei-operator/internal/status"
	"github.com/sei-operator/sei-operator/internal/task"
)

// atOnce asks for another reconcile right away.
const atOnce = time.Nanosecond

// Reconciler keeps nodes as their specs want them. It has no state of its own: all
// that it knows is in the cluster, on the nodes, or can be found out again.
type Reconciler struct {
	Tools    scope.Tools
	Platform platform.Settings
	Clock    clock.PassiveClock
	// Budget says who may be updated now.
	Budget *budget.Budget
	// Metrics tells how it stands with each node.
	Metrics *Metrics

	// owned spares the comparison of objects that did not change since the last look.
	owned owned.Memory
	keys  observe.Keys
}

// Reconcile looks at one node and takes it one step further.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	node := &v1alpha1.SeiNode{}
	if err := r.Tools.Kube.Get(ctx, request.NamespacedName, node); err != nil {
		if !apierrors.IsNotFound(err) {
			return reconcile.Result{}, err
		}
		r.Tools.Agents.Forget(request.NamespacedName)
		r.Metrics.Forget(request.NamespacedName)
		r.owned.Forget(request.NamespacedName)
		r.Tools.Access.Forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	// Alone and first: from here on the node cannot go away without being stopped.
	if node.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(node, v1alpha1.FinalizerNode) {
		return reconcile.Result{RequeueAfter: atOnce}, r.addFinalizer(ctx, node)
	}
	s, err := r.observe(ctx, node)
	if err != nil {
		return reconcile.Result{}, err
	}
	if node.DeletionTimestamp == nil {
		unlock, err := r.decide(ctx, s)
		if err != nil {
			return reconcile.Result{}, err
		}
		defer unlock()
	}
	err = r.act(ctx, s)
	return r.record(ctx, s, node, err)
}

// observe reads everything that this reconcile is about.
func (r *Reconciler) observe(ctx context.Context, node *v1alpha1.SeiNode) (*scope.Scope, error) {
	// The sidecar is followed from here on, and its certificate has to be judged.
	if err := r.Tools.Access.Learn(ctx); err != nil {
		return nil, err
	}
	seen, err := observe.Node(ctx, r.Tools.Kube, r.Tools.Agents, node, r.Clock.Now())
	if err != nil {
		return nil, err
	}
	s := &scope.Scope{Tools: r.Tools, Input: plan.Input{Node: node.DeepCopy(), Persisted: node.Status.DeepCopy(), Seen: seen}}
	s.Seen.Owned = r.owned.Look(s.Key())
	s.Want, err = render.Node(node, r.Platform)
	if err != nil {
		s.RenderProblem = err.Error()
	}
	if node.DeletionTimestamp != nil {
		plan.Rebuild(s.Input)
		if node.Spec.Validator != nil { // what it signed last is written down
			s.Seen.Leases, err = observe.Leases(ctx, r.Tools.Kube, s.Input)
		}
		return s, err // no pod of it comes to be any more
	}
	if node.Spec.Validator != nil {
		if s.Seen.Tip, s.Seen.Witnesses, err = observe.Tip(ctx, r.Tools.Kube, r.Tools.Agents, node); err != nil {
			return nil, err
		}
	}
	if s.Seen.Keys, err = r.keys.Look(ctx, r.Tools.Kube, node); err != nil {
		return nil, err
	}
	if s.Seen.Leases, err = observe.Leases(ctx, r.Tools.Kube, s.Input); err != nil {
		return nil, err
	}
	plan.Rebuild(s.Input)
	s.Seen.Access, err = r.Tools.Access.Look(ctx, s.Input)
	return s, err
}

// act does what was decided.
func (r *Reconciler) act(ctx context.Context, s *scope.Scope) error {
	if s.Node.DeletionTimestamp != nil {
		return derived.Assert(ctx, s)
	}
	s.RequeueIn(s.Decision.After)
	err := derived.Assert(ctx, s)
	if s.Decision.Superseded != nil {
		s.Node.Status.LastPlan, s.Node.Status.Plan = s.Decision.Superseded, nil
	}
	switch s.Decision.Step {
	case plan.Start:
		start(s)
	case plan.Continue:
		// Where a reference was cleared just now, the plan goes on when that is persisted.
		if s.Node.Status.StatefulSet != nil || s.Persisted.StatefulSet == nil {
			err = errors.Join(err, task.Execute(ctx, s))
		}
	case plan.Frozen:
		if s.Node.Status.Plan != nil {
			task.Freeze(s.Node.Status.Plan)
		}
	case plan.Idle:
		// What was edited reached the node, or needs not to.
		if plan.StatefulSet(s.Input).Action == plan.Assert {
			s.Node.Status.AdmittedSpecHash = s.Want.SpecHash
		}
	case plan.Blocked, plan.BackOff, plan.Waiting:
	}
	return err
}

// start writes a plan down. Nothing of it is done before that is persisted.
func start(s *scope.Scope) {
	state := &s.Node.Status
	state.Plan = s.Decision.Plan
	if s.Decision.Slot != nil {
		state.Slot = s.Decision.Slot
	}
	if state.Plan.Type == v1alpha1.PlanBootstrap {
		state.Phase = v1alpha1.PhaseInitializing
	}
	if state.Plan.Type != v1alpha1.PlanReapprove {
		state.AdmittedSpecHash = s.Want.SpecHash
	}
	s.RequeueIn(atOnce)
}

// record computes the status and writes it, if it changed, once.
func (r *Reconciler) record(ctx context.Context, s *scope.Scope, read *v1alpha1.SeiNode, failure error) (reconcile.Result, error) {
	s.RequeueIn(status.Set(status.Input{Input: s.Input, Decision: s.Decision, Trouble: s.Trouble}))
	wait := status.Postpone(&read.Status, &s.Node.Status, s.Seen.Now)
	s.RequeueIn(wait)
	if wait == 0 && !equality.Semantic.DeepEqual(read.Status, s.Node.Status) {
		after := read.DeepCopy()
		after.Status = s.Node.Status
		if err := r.Tools.Kube.PatchStatus(ctx, read, after); err != nil {
			if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
				return reconcile.Result{RequeueAfter: lookAgain}, nil
			}
			return reconcile.Result{}, fmt.Errorf("writing the status of node %s: %w", s.Key(), err)
		}
		for _, event := range status.Transitions(s.Persisted, &s.Node.Status) {
			r.Tools.Report.Event(s.Node, event)
		}
		// A reference that was cleared has to be persisted before another StatefulSet is
		// made, and now it is.
		if s.Persisted.StatefulSet != nil && s.Node.Status.StatefulSet == nil {
			s.RequeueIn(atOnce)
		}
	}
	r.Metrics.Observe(s.Node, s.Persisted)
	if s.Node.DeletionTimestamp != nil && failure == nil {
		failure = r.release(ctx, s, read)
	}
	switch {
	case errors.Is(failure, derived.ErrLookAgain):
		return reconcile.Result{RequeueAfter: lookAgain}, nil
	case failure != nil:
		return reconcile.Result{}, failure
	}
	return reconcile.Result{RequeueAfter: s.Requeue()}, nil
}

// lookAgain is when to look again at a world that was not as it was seen.
const lookAgain = 20 * time.Millisecond

func (r *Reconciler) addFinalizer(ctx context.Context, node *v1alpha1.SeiNode) error {
	after := node.DeepCopy()
	controllerutil.AddFinalizer(after, v1alpha1.FinalizerNode)
	return ignoreChanged(r.Tools.Kube.PatchMetadata(ctx, "SeiNode", node, after))
}

// ignoreChanged is for a write that somebody else was faster than: what is then
// there is looked at next.
func ignoreChanged(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
