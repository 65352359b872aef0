// Package nodetask knows the kinds of SeiNodeTasks, and decides about each task what
// comes next.
//
// Deciding is pure: the same task, node and time give the same decision, with a reason
// that a person can read. A kind is one file: what it needs, how long it may take, and
// the steps that it consists of on the node. A step acts through a World, so that a
// kind has neither a client nor a clock of its own.
package nodetask

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Kind is a kind of SeiNodeTask.
type Kind struct {
	Name v1alpha1.SeiNodeTaskKind
	// Timeout is how long one may take where its spec does not say.
	Timeout time.Duration
	// HasPayload tells whether a spec has the payload of this kind.
	HasPayload func(*v1alpha1.SeiNodeTaskSpec) bool
	// Mutates: it changes the node. Of these one runs at a time, oldest first.
	Mutates bool
	// Urgent: it waits for nobody. It is for a hold, which always wins.
	Urgent bool
	// KeepsPod: no plan stops the pod while it runs, and it does not begin while a plan
	// is about to.
	KeepsPod bool
	// Refuses says why this cannot be done to the node; empty: it can. It may be nil.
	Refuses func(Input) string
	// Steps are done one after the other.
	Steps []Step
	// Aftermath says in which state a task leaves the node that did not get beyond a
	// step. It may be nil.
	Aftermath func(step string) string
}

// Step is a part of a task that is written down before it begins: what the sidecar is
// asked to do, or what the operator does itself.
type Step struct {
	Name string
	// Task is the type of the sidecar's task; empty for a step of the operator's own.
	Task string
	// Params are what the sidecar's task works on. A *Failure ends the task.
	Params func(context.Context, World) (any, error)
	// Learn takes from the result what is worth keeping, also after a failure. A
	// *Failure ends a task whose step succeeded. It may be nil.
	Learn func(ctx context.Context, w World, result json.RawMessage, outputs *v1alpha1.TaskOutputs) error
	// Do is a step of the operator's own. It is asked again and again until it is done,
	// so it looks before it acts.
	Do func(ctx context.Context, w World, outputs *v1alpha1.TaskOutputs) (Outcome, error)
	// Cancel ends what Do began on nodes. It may be nil.
	Cancel func(context.Context, World) error
}

// World is what the steps of a task act on.
type World interface {
	Task() *v1alpha1.SeiNodeTask
	// Node is the node that the task is for.
	Node() *v1alpha1.SeiNode
	// Now is the time.
	Now() time.Time
	// Witnesses are the RPC servers that a snapshot of the node's chain is verified
	// against.
	Witnesses() []string
	// Keys are the identities that the node is approved with, all of which are reserved
	// for it. A *Failure says which of them cannot be used.
	Keys(context.Context) (Identity, error)
	// FindPeers finds the node's peers anew, and writes down in its status which.
	FindPeers(context.Context) (Peers, error)
	// HeldReason is why the node is held, as its sidecar says now; empty: it is not.
	HeldReason(context.Context) (string, error)
	// Others are the nodes of the namespace with these labels.
	Others(ctx context.Context, labels map[string]string) ([]v1alpha1.SeiNode, error)
	// PatchImage gives the node another image.
	PatchImage(ctx context.Context, image string) error
	// OnSidecar has a node's sidecar carry out a task. It is submitted once, whoever
	// asks how often.
	OnSidecar(ctx context.Context, node *v1alpha1.SeiNode, id uuid.UUID, taskType string, params func() (any, error)) (Answer, error)
	// Cancel ends a task on a node and has it forgotten. One that is not there is no
	// error.
	Cancel(ctx context.Context, node *v1alpha1.SeiNode, id uuid.UUID) error
}

// Identity is who a node is by its keys; what nobody minds is empty.
type Identity struct{ PublicKey, NodeID string }

// Peers are those that were found.
type Peers struct {
	Addresses []string
	Count     int32
	// Problems has a sentence for each source that failed.
	Problems []string
}

// Answer is how it stands with a task of a sidecar.
type Answer struct {
	// Waits says what is waited for; empty: the task ended.
	Waits string
	// After is when to ask again, should nothing happen.
	After time.Duration
	// Reason is empty when it succeeded.
	Reason, Message string
	Result          json.RawMessage
}

// Failure is why a task ends without success.
type Failure struct {
	Reason  v1alpha1.ConditionReason
	Message string
}

func (f *Failure) Error() string { return f.Message }

func fails(reason v1alpha1.ConditionReason, format string, args ...any) *Failure {
	return &Failure{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// registry has all kinds.
var registry = map[v1alpha1.SeiNodeTaskKind]*Kind{}

// register adds a kind. Every file of a kind calls it once.
func register(kind Kind) *Kind { //nolint:unparam // a declaration needs a value
	registry[kind.Name] = &kind
	return &kind
}

// KindOf is the kind of a task; nil: this operator does not know it.
func KindOf(task *v1alpha1.SeiNodeTask) *Kind { return registry[task.Spec.Kind] }

// idSpace is what ids on nodes are derived from.
var idSpace = uuid.MustParse("0f6a2f3b-6c5d-4a57-8d3a-2f7a1f0c9be4")

// StepID is the id under which a sidecar knows a step of a task. It follows from what
// is persisted, so that nothing is ever submitted twice.
func StepID(task *v1alpha1.SeiNodeTask, step string) uuid.UUID {
	return uuid.NewSHA1(idSpace, []byte(string(task.UID)+"/"+step))
}

// nodeID is the id of a step on one of several nodes.
func nodeID(task *v1alpha1.SeiNodeTask, step string, node types.UID) uuid.UUID {
	return StepID(task, step+"/"+string(node))
}

// step is a step of this kind by its name; nil: there is none.
func (k *Kind) step(name string) (*Step, int) {
	for i := range k.Steps {
		if k.Steps[i].Name == name {
			return &k.Steps[i], i
		}
	}
	return nil, -1
}

// Step is a step of this kind by its name; nil: there is none.
func (k *Kind) Step(name string) *Step {
	step, _ := k.step(name)
	return step
}

// MustLook tells whether it has to be made sure, before a step is sent to the node,
// that no plan is about to stop seid: it is the first that is sent, and the task keeps
// the pod from then on.
func (k *Kind) MustLook(name string) bool {
	for i := range k.Steps {
		if k.Steps[i].Task != "" {
			return k.KeepsPod && k.Steps[i].Name == name
		}
	}
	return false
}

// skipsSafeStop tells whether somebody said that seid is to be stopped whether that is
// safe or not.
func skipsSafeStop(node *v1alpha1.SeiNode) bool {
	return node.Annotations[v1alpha1.AnnotationSkipSafeStop] == "true"
}
