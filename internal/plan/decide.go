package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Step is what to do about plans.
type Step string

// The steps.
const (
	// Idle: nothing is to be done.
	Idle Step = "Idle"
	// Frozen: the node is paused or being deleted, and plans stand still.
	Frozen Step = "Frozen"
	// Blocked: a plan is needed, and something that it needs is not there.
	Blocked Step = "Blocked"
	// BackOff: a plan is needed, and the last one failed a short while ago.
	BackOff Step = "BackOff"
	// Waiting: an update is needed, and other nodes come first.
	Waiting Step = "Waiting"
	// Start: Plan is to be persisted; it takes the place of the one that is there.
	Start Step = "Start"
	// Continue: the plan that is there is to be carried on with.
	Continue Step = "Continue"
)

// Decision is what to do next about plans, and why.
type Decision struct {
	Step Step
	// Plan is the one to start.
	Plan *v1alpha1.Plan
	// Slot is the place in the update budget that the plan takes.
	Slot *v1alpha1.UpdateSlot
	// Superseded is how the plan that is there ends, when another takes its place.
	Superseded *v1alpha1.PlanRecord
	Reason     v1alpha1.ConditionReason
	Message    string
	// Stalled: only a person can change that.
	Stalled bool
	// After is how long to wait at most before deciding again; 0 is for ever.
	After time.Duration
}

// Decide decides about plans.
func Decide(in Input) Decision {
	switch {
	case in.Node.DeletionTimestamp != nil:
		return Decision{Step: Frozen, Reason: v1alpha1.ReasonTerminating, Message: "The node is being deleted; plans stand still."}
	case in.Node.Spec.Paused:
		return Decision{Step: Frozen, Reason: v1alpha1.ReasonPaused, Message: "The node is paused; plans stand still."}
	case in.RenderProblem != "":
		return Decision{Step: Blocked, Reason: v1alpha1.ReasonInvalidSpec, Message: in.RenderProblem, Stalled: true}
	case in.Node.Status.Plan != nil:
		return decideRunning(in)
	case volumeGivenUp(in):
		return begin(in, v1alpha1.PlanBootstrap, v1alpha1.ReasonBootstrapping, "A person gave up the data volume; the node is brought up on a new one.")
	case in.Node.Status.Phase != v1alpha1.PhaseRunning:
		return begin(in, v1alpha1.PlanBootstrap, v1alpha1.ReasonBootstrapping, bootstrapMessage(in))
	}
	return decideBroughtUp(in)
}

// bootstrapMessage says what a node is brought up from.
func bootstrapMessage(in Input) string {
	if retained(in) {
		return "The node is brought up again, on the volume that it was brought up on before."
	}
	return "The node is brought up for the first time."
}

// decideBroughtUp decides about a node that was brought up and has no plan.
func decideBroughtUp(in Input) Decision {
	next := Decision{Step: Idle, Reason: v1alpha1.ReasonSettled, Message: "Nothing is to be done."}
	if drift := FindDrift(in); drift != nil {
		next = begin(in, drift.Plan, drift.Reason, drift.Message)
	}
	return Meanwhile(in, next)
}

// Meanwhile is what to do while an update does not start: a node that lost its approval
// does not stand still until its turn comes.
func Meanwhile(in Input, next Decision) Decision {
	message, needed := needsApproval(in)
	if next.Step == Start || !needed {
		return next
	}
	approve := begin(in, v1alpha1.PlanReapprove, v1alpha1.ReasonNotApproved, message)
	approve.Superseded = next.Superseded
	if next.Step != Idle && approve.Step != Start {
		return next
	}
	return approve
}

// decideRunning carries on with a plan unless it leads somewhere else than to the
// spec. An edit always wins: whatever a plan waits for, a corrected spec gets rid
// of it.
func decideRunning(in Input) Decision {
	current := in.Node.Status.Plan
	message := supersededBecause(in, current)
	if message == "" {
		return Decision{Step: Continue, Reason: v1alpha1.ReasonProgressing, Message: "The plan " + string(current.Type) + " is carried on with."}
	}
	// What comes next is decided as if there were no plan.
	without := in
	without.Node = in.Node.DeepCopy()
	without.Node.Status.Plan = nil
	next := Decide(without)
	next.Superseded = Record(in, v1alpha1.PlanOutcomeSuperseded, string(v1alpha1.PlanOutcomeSuperseded), message)
	return next
}

// supersededBecause says why a plan can no longer lead to the spec; empty: it can.
func supersededBecause(in Input, current *v1alpha1.Plan) string {
	switch {
	case volumeGivenUp(in) && !makesVolume(current):
		return "A person gave up the data volume."
	case current.Type != v1alpha1.PlanReapprove && in.Node.Status.AdmittedSpecHash != in.Want.SpecHash:
		return "The spec was edited since the last plan was made."
	case current.TemplateHash != in.Want.TemplateHash:
		return "The pod that is wanted changed since the last plan was made."
	case current.ConfigHash != in.Want.ConfigHash:
		return "The configuration that is wanted changed since the last plan was made."
	case completed(current, TaskApplyStatefulSet) && !completed(current, TaskObserveImage) && current.Type == v1alpha1.PlanNodeUpdate &&
		StatefulSet(in).Action == Assert && foreignTemplate(in) != nil:
		return "Somebody edited the template of the StatefulSet since the last plan applied it."
	}
	return ""
}

// completed tells whether a plan has completed a task.
func completed(p *v1alpha1.Plan, task string) bool {
	return slices.ContainsFunc(p.Tasks, func(t v1alpha1.PlanTask) bool {
		return t.Type == task && t.Status == v1alpha1.PlanTaskComplete
	})
}

// begin starts a plan, unless a gate is shut or the last one failed just now.
func begin(in Input, kind v1alpha1.PlanType, reason v1alpha1.ConditionReason, message string) Decision {
	if gate := ShutGate(in, kind); gate != nil {
		if gate.Aside && PodReady(in.Seen.Pod) {
			// Only the update waits. A node that works must not count as one that does not,
			// least of all every node at once when access control is switched on.
			return Decision{Step: Waiting, Reason: gate.Reason, Message: gate.Message, After: gate.After}
		}
		return Decision{Step: Blocked, Reason: gate.Reason, Message: gate.Message, Stalled: gate.Stalled, After: gate.After}
	}
	if wait := backOff(in, kind); wait > 0 {
		last := in.Node.Status.LastPlan
		return Decision{
			Step: BackOff, Reason: v1alpha1.ReasonPlanFailed, After: wait,
			Message: fmt.Sprintf("The last %s failed: %s. It is tried again by itself, after an edit, or when the annotation %s gets a new value.",
				kind, last.Message, v1alpha1.AnnotationRetry),
		}
	}
	next := newPlan(in, kind, reason, message)
	return Decision{Step: Start, Reason: reason, Message: message, Plan: next, Slot: Slot(in, next)}
}

// ids of plans and tasks are derived from this.
var idSpace = uuid.MustParse("5b0d2c5e-0a6f-4f5e-9a53-6d1f0a5e7c11")

// newPlan makes a plan. Its id follows from the input, so that the same input makes
// the same plan; two plans of a node differ in their time at least.
func newPlan(in Input, kind v1alpha1.PlanType, reason v1alpha1.ConditionReason, message string) *v1alpha1.Plan {
	name := fmt.Sprintf("%s/%s/%d", in.Node.UID, kind, in.Seen.Now.UnixNano())
	p := &v1alpha1.Plan{
		ID:           uuid.NewSHA1(idSpace, []byte(name)).String(),
		Type:         kind,
		Reason:       string(reason),
		Message:      Bounded(message, maxPlanMessage),
		Generation:   in.Node.Generation,
		TemplateHash: in.Want.TemplateHash,
		ConfigHash:   in.Want.ConfigHash,
		StartTime:    metav1.NewTime(in.Seen.Now),
	}
	for _, task := range tasksOf(in, kind) {
		p.Tasks = append(p.Tasks, v1alpha1.PlanTask{Type: task, Status: v1alpha1.PlanTaskPending})
	}
	p.Progress = Progress(p)
	return p
}

// Progress is how far a plan is, for people.
func Progress(p *v1alpha1.Plan) string {
	done := 0
	for i := range p.Tasks {
		if p.Tasks[i].Status == v1alpha1.PlanTaskComplete {
			done++
		}
	}
	return fmt.Sprintf("%s %d/%d", p.Type, done, len(p.Tasks))
}

// TaskID is the id under which a sidecar knows a task of a plan. It follows from
// what is persisted, so that a crash between persisting and submitting never makes
// a second task of it.
func TaskID(p *v1alpha1.Plan, index int) uuid.UUID {
	return uuid.NewSHA1(idSpace, fmt.Appendf(nil, "%s/%s/%d", p.ID, p.Tasks[index].Type, index))
}

// Record is how the node's plan ended.
func Record(in Input, outcome v1alpha1.PlanOutcome, reason, message string) *v1alpha1.PlanRecord {
	ended := in.Node.Status.Plan
	record := &v1alpha1.PlanRecord{
		Type: ended.Type, Outcome: outcome, Reason: reason, Message: message,
		StartTime: ended.StartTime, CompletionTime: metav1.NewTime(in.Seen.Now),
		Retry: retryValue(in.Node), Slot: in.Node.Status.Slot.DeepCopy(),
	}
	if outcome == v1alpha1.PlanOutcomeFailed {
		record.Failures = 1
		if last := in.Node.Status.LastPlan; last != nil && last.Type == ended.Type && last.Outcome == v1alpha1.PlanOutcomeFailed {
			record.Failures += last.Failures
		}
	}
	return record
}

// The time between a failed plan and the next of its type doubles with each failure.
const (
	firstBackOff = 15 * time.Second
	lastBackOff  = 10 * time.Minute
)

// backOff is how long a plan of this type has to wait after those that failed.
func backOff(in Input, kind v1alpha1.PlanType) time.Duration {
	last := in.Node.Status.LastPlan
	switch {
	case last == nil, last.Type != kind, last.Outcome != v1alpha1.PlanOutcomeFailed:
		return 0
	case in.Node.Status.AdmittedSpecHash != in.Want.SpecHash:
		return 0
	case retryValue(in.Node) != last.Retry:
		return 0
	}
	wait := firstBackOff
	for range last.Failures - 1 {
		if wait = min(2*wait, lastBackOff); wait == lastBackOff {
			break
		}
	}
	if in.Seen.Now.Before(last.CompletionTime.Time) {
		return 0 // another clock wrote it; how far it is ahead must not hold the node up
	}
	return max(0, last.CompletionTime.Add(wait).Sub(in.Seen.Now))
}

const (
	// maxPlanMessage is how much of a message a plan keeps. Images and the names of
	// settings may be long, and the API server refuses a status with more than it takes.
	maxPlanMessage = 256
	// maxRetryValue is how much of the annotation is remembered.
	maxRetryValue = 256
)

func retryValue(node *v1alpha1.SeiNode) string {
	return Bounded(node.Annotations[v1alpha1.AnnotationRetry], maxRetryValue)
}

// Bounded cuts a text, never inside a character: that would be stored as another one,
// and what is stored would look changed for ever.
func Bounded(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// needsApproval tells whether a node that was brought up lost its approval to run,
// and may get it back without a person: on the very volume it was brought up on,
// and unless another SeiNode was approved on it since.
func needsApproval(in Input) (string, bool) {
	sidecar, volume := in.Seen.Sidecar, in.Node.Status.DataVolume
	if acceptedKeyWaits(in) {
		return "A person accepted another key, and the pod that is there has it.", true
	}
	if !sidecar.Connected || sidecar.Status.Approved || sidecar.Status.Held {
		return "", false
	}
	if volume == nil || in.Seen.Claim == nil || in.Seen.Claim.UID != volume.UID || !Bootstrapped(in) {
		return "", false
	}
	if by := sidecar.Status.Approval.NodeUID; by != "" && by != string(in.Node.UID) {
		return "", false
	}
	return "The sidecar says that the node is not approved to run, and its volume is the one that it was brought up on.", true
}
