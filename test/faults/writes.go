package faults

import (
	"context"
	"errors"
	"fmt"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/agents"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
)

// Write is something that the operator did, or was about to do.
type Write struct {
	// Kind says what is written, for example "apply StatefulSet alpha".
	Kind      string
	ToSidecar bool
	// Destroys: it deletes something.
	Destroys bool
	// How it went.
	How string
}

func (w Write) String() string { return w.Kind + ": " + w.How }

// How a write went, if it did not fail.
const (
	wasDone       = "done"
	wasNeverBegun = "the operator died before"
	wasAfter      = "done, and the operator died"
)

// statusWrite is the kind of a write of a node's status.
var statusWrite = kindOf(kube.Write{Verb: "patch", Kind: "SeiNode", Subresource: "status"})

// kindOf leaves out the namespace, which every run has its own of; and the name of a
// SeiNode from its status, because all of them are written alike.
func kindOf(write kube.Write) string {
	if write.Subresource != "" {
		return fmt.Sprintf("%s %s %s", write.Verb, write.Kind, write.Subresource)
	}
	return fmt.Sprintf("%s %s %s", write.Verb, write.Kind, write.Key.Name)
}

// Point is where the operator dies: around the nth write of a kind. The number of a
// write alone would mean another one as soon as the status is written once more.
type Point struct {
	Kind  string
	Nth   int
	After bool
}

func (p Point) String() string {
	when := "before"
	if p.After {
		when = "after"
	}
	return fmt.Sprintf("dies %s %s #%d", when, p.Kind, p.Nth)
}

// pointsOf are two points for every write.
func pointsOf(writes []Write) []Point {
	var points []Point
	count := map[string]int{}
	for _, write := range writes {
		count[write.Kind]++
		for _, after := range []bool{false, true} {
			points = append(points, Point{Kind: write.Kind, Nth: count[write.Kind], After: after})
		}
	}
	return points
}

// death is the panic with which the operator dies. Nothing that comes after the write
// is done, as when the process is killed.
type death struct{}

var errDead = errors.New("this operator is dead")

// aroundWrite is around every write to the API server.
func (l *life) aroundWrite(ctx context.Context, write kube.Write, do func(context.Context) error) error {
	return l.around(ctx, Write{Kind: kindOf(write), Destroys: write.Verb == "delete"}, do)
}

// aroundCall is around every call that changes something on a node.
func (l *life) aroundCall(ctx context.Context, call agents.Call, do func(context.Context) error) error {
	write := Write{Kind: fmt.Sprintf("%s %s to %s", call.Method, call.TaskType, call.Node.Name), ToSidecar: true}
	if call.Method == agents.MethodDelete {
		write.Kind, write.Destroys = fmt.Sprintf("delete a task of %s", call.Node.Name), true
	} else {
		l.mustBePlanned(ctx, call)
	}
	return l.around(ctx, write, do)
}

// mustBePlanned sees to it that a task is in a plan that is persisted. Otherwise the
// next operator would not know of it.
func (l *life) mustBePlanned(ctx context.Context, call agents.Call) {
	node := &v1alpha1.SeiNode{}
	if err := l.run.world.live.Get(ctx, call.Node, node); err != nil {
		return // the run fails for better reasons
	}
	if p := node.Status.Plan; p != nil {
		for i := range p.Tasks {
			if plan.TaskID(p, i) == call.TaskID && p.Tasks[i].Type == call.TaskType {
				return
			}
		}
	}
	l.run.violated("the task %s was submitted and is in no plan that is persisted", call.TaskType)
}

func (l *life) around(ctx context.Context, write Write, do func(context.Context) error) error {
	r := l.run
	if l.dead.Load() {
		r.violated("an operator that is dead wants to %s", write.Kind)
		return errDead
	}
	entry := r.begins(write)
	point := r.isHere(write)
	if point != nil && !point.After {
		entry.How = wasNeverBegun
		l.die()
	}
	err := do(ctx)
	entry.How = wasDone
	if err != nil {
		entry.How = err.Error()
	}
	if point != nil {
		if err == nil {
			entry.How = wasAfter
		}
		l.die()
	}
	return err
}

// die ends this life in the middle of what it does.
func (l *life) die() {
	l.dead.Store(true)
	panic(death{})
}
