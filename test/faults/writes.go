package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/agents"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/nodetask"
	"github.com/sei-operator/sei-operator/internal/plan"
)

// write is something that the operator did, or was about to do.
type write struct {
	// kind says what is written, for example "apply StatefulSet alpha".
	kind      string
	toSidecar bool
	// destroys: it deletes something.
	destroys bool
	// how it went.
	how string
	// before and after are how the world was; empty where nobody wants to know.
	before, after string
}

func (w write) String() string { return w.kind + ": " + w.how }

// How a write went, if it did not fail.
const (
	wasDone       = "done"
	wasNeverBegun = "the operator died before"
	wasAfter      = "done, and the operator died"
)

// statusWrite is the kind of a write of a node's status.
var statusWrite = kindOf(kube.Write{Verb: "patch", Kind: "SeiNode", Subresource: "status"})

// taskStatusWrite and fleetStatusWrite are those of a task's and of a fleet's.
var (
	taskStatusWrite  = kindOf(kube.Write{Verb: "patch", Kind: "SeiNodeTask", Subresource: "status"})
	fleetStatusWrite = kindOf(kube.Write{Verb: "patch", Kind: "SeiNodeDeployment", Subresource: "status"})
)

// kindOf leaves out the namespace, which every run has its own of; and the name of a
// SeiNode from its status, because all of them are written alike.
func kindOf(w kube.Write) string {
	if w.Subresource != "" {
		return fmt.Sprintf("%s %s %s", w.Verb, w.Kind, w.Subresource)
	}
	return fmt.Sprintf("%s %s %s", w.Verb, w.Kind, nameOf(w.Kind, w.Key.Name))
}

// nameOf leaves out the hash in the name of a Lease, which differs from run to run.
func nameOf(kind, name string) string {
	if end := strings.LastIndex(name, "-"); kind == "Lease" && end > 0 {
		return name[:end]
	}
	return name
}

// point is where the operator dies: around the nth write of a kind. The number of a
// write alone would mean another one as soon as the status is written once more.
type point struct {
	kind  string
	nth   int
	after bool
}

func (p point) String() string {
	when := "before"
	if p.after {
		when = "after"
	}
	return fmt.Sprintf("dies %s %s #%d", when, p.kind, p.nth)
}

// pointsOf are two points for every write, before and after it. Where nothing happened
// between two writes, the one who dies before the second leaves behind the same world
// as the one who died after the first, so that is left out, and counted.
func pointsOf(writes []write) (points []point, same int) {
	count := map[string]int{}
	for i, w := range writes {
		count[w.kind]++
		if i > 0 && w.before != "" && w.before == writes[i-1].after {
			same++
		} else {
			points = append(points, point{kind: w.kind, nth: count[w.kind]})
		}
		points = append(points, point{kind: w.kind, nth: count[w.kind], after: true})
	}
	return points, same
}

// death is the panic with which the operator dies. Nothing that comes after the write
// is done, as when the process is killed.
type death struct{}

var errDead = errors.New("this operator is dead")

// aroundWrite is around every write to the API server.
func (l *life) aroundWrite(ctx context.Context, w kube.Write, do func(context.Context) error) error {
	if w.Verb == "delete" && w.Kind == "Pod" {
		l.mustFitBudget(ctx, strings.TrimSuffix(w.Key.Name, "-0"))
		l.mustBeFree(ctx, w.Key)
	}
	return l.around(ctx, &write{kind: kindOf(w), destroys: w.Verb == "delete"}, do)
}

// mustBeFree sees to it that no pod is deleted under a SeiNodeTask that its sidecar is
// at.
func (l *life) mustBeFree(ctx context.Context, pod types.NamespacedName) {
	var tasks v1alpha1.SeiNodeTaskList
	if err := l.run.world.live.List(ctx, &tasks, client.InNamespace(pod.Namespace)); err != nil {
		return
	}
	for i := range tasks.Items {
		task := &tasks.Items[i]
		kind := nodetask.KindOf(task)
		if kind == nil || !kind.KeepsPod || task.Status.Phase != v1alpha1.TaskPhaseRunning || !l.run.clock.Now().Before(nodetask.Deadline(task)) {
			continue
		}
		for _, entry := range l.run.sidecars.Node(pod.Namespace, task.Spec.Target.NodeRef.Name).Ledger() {
			if entry.ID.String() == task.Status.TaskID {
				l.run.violated("the pod %s is deleted under the task %s", pod.Name, task.Name)
			}
		}
	}
}

// aroundCall is around every call that changes something on a node.
func (l *life) aroundCall(ctx context.Context, call agents.Call, do func(context.Context) error) error {
	w := &write{kind: fmt.Sprintf("%s %s to %s", call.Method, call.TaskType, call.Node.Name), toSidecar: true}
	if call.Method == agents.MethodDelete {
		w.kind, w.destroys = fmt.Sprintf("delete a task of %s", call.Node.Name), true
	} else {
		l.mustBePlanned(ctx, call)
	}
	if call.TaskType == plan.TaskRestartSeid {
		l.mustFitBudget(ctx, call.Node.Name)
	}
	return l.around(ctx, w, do)
}

// mustBePlanned sees to it that a task is in a plan that is persisted, and that it is
// run again only after its failure was counted there. Otherwise the next operator
// would not know of it.
func (l *life) mustBePlanned(ctx context.Context, call agents.Call) {
	node := &v1alpha1.SeiNode{}
	if err := l.run.world.live.Get(ctx, call.Node, node); err != nil {
		return // the run fails for better reasons
	}
	retries := 0
	if task := plannedTask(node.Status.Plan, call); task != nil {
		retries = int(task.Retries)
	} else if !l.asked(ctx, node, call) {
		l.run.violated("the task %s was submitted and is in no plan and in no SeiNodeTask that is persisted", call.TaskType)
		return
	}
	for _, entry := range l.run.sidecars.Node(call.Node.Namespace, call.Node.Name).Ledger() {
		if entry.ID == call.TaskID && entry.Run > retries {
			l.run.violated("the task %s was submitted again, and that its run %d ended with %s is not persisted", call.TaskType, entry.Run, entry.Outcome)
		}
	}
}

// asked tells whether a SeiNodeTask is persisted that runs on this very node and is at
// what is submitted. While a plan is about to stop seid, it must not be the first thing
// of that SeiNodeTask, unless nothing is in the plan's way.
func (l *life) asked(ctx context.Context, node *v1alpha1.SeiNode, call agents.Call) bool {
	var tasks v1alpha1.SeiNodeTaskList
	if err := l.run.world.live.List(ctx, &tasks, client.InNamespace(call.Node.Namespace)); err != nil {
		return true // the run fails for better reasons
	}
	for i := range tasks.Items {
		task := &tasks.Items[i]
		if task.Status.TaskID != call.TaskID.String() || task.Status.Phase != v1alpha1.TaskPhaseRunning || task.Status.TargetUID != string(node.UID) {
			continue
		}
		if kind := nodetask.KindOf(task); kind.MustLook(task.Status.Step) && plan.StopAhead(node.Status.Plan) {
			l.run.violated("the task %s was sent to the node while the plan %s is about to stop seid", task.Name, node.Status.Plan.Type)
		}
		return true
	}
	return false
}

// plannedTask is the task of a plan that is submitted, under its id and as what it is: an
// id alone would also cover a reset of the data.
func plannedTask(p *v1alpha1.Plan, call agents.Call) *v1alpha1.PlanTask {
	for i := 0; p != nil && i < len(p.Tasks); i++ {
		if plan.TaskID(p, i) == call.TaskID && p.Tasks[i].Type == inPlans(call) {
			return &p.Tasks[i]
		}
	}
	return nil
}

// inPlans is what plans call that which is submitted. They have names of their own for what
// config-apply does besides applying a document.
func inPlans(call agents.Call) string {
	var params struct {
		DryRun bool
		Peers  *[]string
	}
	if call.TaskType != plan.TaskConfigApply || json.Unmarshal(call.Params, &params) != nil {
		return call.TaskType
	}
	switch {
	case params.DryRun:
		return plan.TaskConfigValidate
	case params.Peers != nil:
		return plan.TaskDiscoverPeers
	}
	return call.TaskType
}

func (l *life) around(ctx context.Context, w *write, do func(context.Context) error) error {
	if l.dead.Load() {
		l.run.violated("an operator that is dead wants to %s", w.kind)
		return errDead
	}
	where := l.run.begins(w)
	if where != nil && !where.after {
		w.how = wasNeverBegun
		l.die()
	}
	w.before = l.run.fingerprint() //nolint:contextcheck // it looks at the world for as long as the test lasts
	err := do(ctx)
	w.after = l.run.fingerprint() //nolint:contextcheck // as above
	switch {
	case err != nil:
		w.how = err.Error()
	case where != nil:
		w.how = wasAfter
	default:
		w.how = wasDone
	}
	if where != nil {
		l.die()
	}
	return err
}

// die ends this life in the middle of what it does.
func (l *life) die() {
	l.dead.Store(true)
	panic(death{})
}
