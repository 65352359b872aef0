// Package seinodetask is the controller of SeiNodeTasks. What it is told to look at is
// a node, with all tasks for it: so the tasks of one node are looked at by one worker
// after the other, oldest first, and never two of them begin at once.
package seinodetask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/agents"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/nodetask"
	"github.com/sei-operator/sei-operator/internal/observe"
	"github.com/sei-operator/sei-operator/internal/peers"
	"github.com/sei-operator/sei-operator/internal/platform"
)

const (
	// atOnce asks for another reconcile right away.
	atOnce = time.Nanosecond
	// lookAgain is when to look again at a world that was not as it was seen.
	lookAgain = 20 * time.Millisecond
	// fallback is when to look again at a task that runs, should nobody tell of it.
	fallback = 30 * time.Second
)

// Reconciler takes SeiNodeTasks from their beginning to their end. It has no state of
// its own that could not be found out again.
type Reconciler struct {
	Kube     *kube.Client
	Agents   *agents.Fleet
	Peers    *peers.Resolver
	Platform platform.Settings
	Clock    clock.PassiveClock
	Report   *Reporter
	// Wake has the tasks of a node looked at soon.
	Wake func(types.NamespacedName)

	keys observe.Keys
}

// Reconcile looks at all tasks for a node and takes each of them one step further.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key := request.NamespacedName
	if err := r.wakeFleetTasks(ctx, key); err != nil {
		return reconcile.Result{}, err
	}
	tasks, err := r.Kube.Tasks(ctx, key)
	if err != nil || len(tasks) == 0 {
		return reconcile.Result{}, err
	}
	node := &v1alpha1.SeiNode{}
	switch err := r.Kube.Get(ctx, key, node); {
	case apierrors.IsNotFound(err):
		node = nil
	case err != nil:
		return reconcile.Result{}, err
	}
	var result reconcile.Result
	var errs []error
	for i := range tasks {
		after, err := r.further(ctx, tasks, i, node)
		errs = append(errs, err)
		if after > 0 && (result.RequeueAfter == 0 || after < result.RequeueAfter) {
			result.RequeueAfter = after
		}
	}
	if err := errors.Join(errs...); err != nil {
		return reconcile.Result{}, err
	}
	return result, nil
}

// wakeFleetTasks has tasks looked at that wait for this node among others.
func (r *Reconciler) wakeFleetTasks(ctx context.Context, node types.NamespacedName) error {
	tasks, err := r.Kube.FleetTasks(ctx, node.Namespace)
	if err != nil {
		return err
	}
	for i := range tasks {
		if target := tasks[i].Spec.Target.NodeRef.Name; target != node.Name {
			r.Wake(types.NamespacedName{Namespace: node.Namespace, Name: target})
		}
	}
	return nil
}

// further takes one of the tasks of a node one step further, and tells when to look
// again at the latest.
func (r *Reconciler) further(ctx context.Context, tasks []v1alpha1.SeiNodeTask, index int, node *v1alpha1.SeiNode) (time.Duration, error) {
	read := tasks[index].DeepCopy()
	w := &world{Reconciler: r, node: node, task: &tasks[index]}
	fleet, err := r.fleetOf(ctx, node)
	if err != nil {
		return 0, err
	}
	in := nodetask.Input{Task: w.task, Node: node, Ahead: nodetask.Ahead(tasks, w.task), Fleet: fleet, Witnesses: w.Witnesses(), Now: w.Now()}
	decision := nodetask.Decide(in)
	switch decision.Action {
	case nodetask.LetGo:
		return 0, r.letGo(ctx, w.task)
	case nodetask.Expire:
		return 0, ignoreChanged(r.Kube.Delete(ctx, "SeiNodeTask", w.task))
	case nodetask.Cancel:
		return r.cancel(ctx, w)
	case nodetask.Run:
		outcome, err := r.runStep(ctx, w, decision.Step)
		if err != nil && w.Now().Before(nodetask.Deadline(w.task)) {
			return lookAgain, ignoreChanged(err)
		}
		if err != nil {
			outcome = nodetask.Waits(0, "What it needs of the cluster could not be read or written.")
		}
		decision = nodetask.Settle(in, decision.Step, outcome)
	case nodetask.Rest, nodetask.Wait, nodetask.Begin, nodetask.Advance, nodetask.StepBack, nodetask.End:
	}
	if decision.Stop {
		if err := r.stop(ctx, w); err != nil {
			decision.Message += " It could not be ended on the node, which may still carry it out: " + explain(err)
		}
	}
	nodetask.Record(in, decision)
	if decision.Action == nodetask.Begin {
		// Before it runs anywhere: from here on it cannot go away without being cancelled.
		if err := r.keep(ctx, read); err != nil {
			return lookAgain, ignoreChanged(err)
		}
	}
	return r.record(ctx, read, w.task, decision)
}

// fleetOf is the name of the fleet that a node belongs to. One that a fleet left behind
// keeps the label with its name, and belongs to nobody.
func (r *Reconciler) fleetOf(ctx context.Context, node *v1alpha1.SeiNode) (string, error) {
	if node == nil || node.Labels[v1alpha1.LabelDeployment] == "" {
		return "", nil
	}
	name := node.Labels[v1alpha1.LabelDeployment]
	err := r.Kube.Get(ctx, types.NamespacedName{Namespace: node.Namespace, Name: name}, &v1alpha1.SeiNodeDeployment{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	return name, err
}

// runStep looks at a step, and does what is to be done about it.
func (r *Reconciler) runStep(ctx context.Context, w *world, name string) (nodetask.Outcome, error) {
	step := nodetask.KindOf(w.task).Step(name)
	outputs := w.task.Status.Outputs.DeepCopy()
	if outputs == nil {
		outputs = &v1alpha1.TaskOutputs{}
	}
	defer func() {
		if !equality.Semantic.DeepEqual(*outputs, v1alpha1.TaskOutputs{}) {
			w.task.Status.Outputs = outputs
		}
	}()
	if step.Task == "" {
		return nodetask.OutcomeOfStep(step.Do(ctx, w, outputs))
	}
	w.looks = nodetask.KindOf(w.task).MustLook(name)
	answer, err := w.OnSidecar(ctx, w.node, nodetask.StepID(w.task, name), step.Task, func() (any, error) { return step.Params(ctx, w) })
	if err == nil && answer.Waits == "" && step.Learn != nil {
		if learnt := step.Learn(ctx, w, answer.Result, outputs); learnt != nil && answer.Reason == "" {
			err = learnt
		}
	}
	return nodetask.OutcomeOf(answer, err)
}

// record writes the status of a task, if it changed, once, and tells of the change.
func (r *Reconciler) record(ctx context.Context, read, task *v1alpha1.SeiNodeTask, decision nodetask.Decision) (time.Duration, error) {
	if equality.Semantic.DeepEqual(read.Status, task.Status) {
		return r.next(task, decision), nil
	}
	wanted := task.Status
	after := read.DeepCopy()
	after.Status = wanted
	if err := r.Kube.PatchTaskStatus(ctx, read, after); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return lookAgain, nil
		}
		return 0, fmt.Errorf("writing the status of the task %s/%s: %w", task.Namespace, task.Name, err)
	}
	for _, event := range nodetask.Transitions(task, &read.Status, &wanted) {
		r.Report.Event(task, event)
	}
	r.Report.Observe(task, &read.Status, &wanted)
	switch decision.Action {
	case nodetask.Begin, nodetask.Advance, nodetask.End:
		return atOnce, nil // to do what is now written down; to let it go; to have the next one begin
	default:
		return r.next(task, decision), nil
	}
}

// next is when to look again because of the time alone.
func (r *Reconciler) next(task *v1alpha1.SeiNodeTask, decision nodetask.Decision) time.Duration {
	if task.Status.Phase == v1alpha1.TaskPhaseRunning {
		return min(fallback, decision.After)
	}
	return decision.After
}

// keep adds the finalizer.
func (r *Reconciler) keep(ctx context.Context, task *v1alpha1.SeiNodeTask) error {
	if slices.Contains(task.Finalizers, v1alpha1.FinalizerTask) {
		return nil
	}
	before := task.DeepCopy()
	controllerutil.AddFinalizer(task, v1alpha1.FinalizerTask)
	return r.Kube.PatchMetadata(ctx, "SeiNodeTask", before, task)
}

// letGo takes the finalizer away.
func (r *Reconciler) letGo(ctx context.Context, task *v1alpha1.SeiNodeTask) error {
	before := task.DeepCopy()
	controllerutil.RemoveFinalizer(task, v1alpha1.FinalizerTask)
	return ignoreChanged(r.Kube.PatchMetadata(ctx, "SeiNodeTask", before, task))
}

// ignoreChanged is for a write that somebody else was faster than: what is then there
// is looked at next.
func ignoreChanged(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
