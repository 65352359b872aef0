package status

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// verdict sums a node up.
type verdict struct {
	plan.Gate

	ready bool
}

// checks are asked in this order; the first that has something to say sums the node
// up. What a person has to do comes before what passes by itself, and a cause before
// its effects.
var checks = []func(Input) *verdict{
	beingDeleted, isPaused, inTrouble, volumeTrouble, gateShut, isHeld, parked, upgradeHalt, volumeRuined, signedElsewhere, diskFull, podTrouble, stoodStill,
	scaledToZero, unsafeStop, planAtGate, taskFirst, planUnderWay, planFailed, sidecarTrouble, notReady,
}

func summary(in Input) verdict {
	for _, check := range checks {
		found := check(in)
		if found == nil {
			continue
		}
		if before := lastKnown(in, v1alpha1.ConditionReady); before != nil && before.Status != metav1.ConditionTrue && in.Seen.Sidecar.New && found.Reason == v1alpha1.ReasonPodNotReady {
			return asBefore(in, before) // only the sidecar could tell why, and it was not heard yet
		}
		return *found
	}
	return whenReady(in)
}

// asBefore is the verdict that was last written.
func asBefore(in Input, before *metav1.Condition) verdict {
	stalled := lastKnown(in, v1alpha1.ConditionStalled)
	return verdict{
		Gate: plan.Gate{
			Reason: v1alpha1.ConditionReason(before.Reason), Message: before.Message,
			Stalled: stalled != nil && stalled.Status == metav1.ConditionTrue,
		},
		ready: before.Status == metav1.ConditionTrue,
	}
}

func because(reason v1alpha1.ConditionReason, format string, args ...any) *verdict {
	return &verdict{Gate: plan.Gate{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

func person(reason v1alpha1.ConditionReason, format string, args ...any) *verdict {
	v := because(reason, format, args...)
	v.Stalled = true
	return v
}

func beingDeleted(in Input) *verdict {
	if in.Node.DeletionTimestamp == nil {
		return nil
	}
	if gate := waitsToStop(in); gate != nil {
		return &verdict{Gate: *gate}
	}
	if in.Seen.Pod != nil {
		if reason, message := plan.PodTrouble(in.Seen.Pod, in.Seen.Now); reason == v1alpha1.ReasonPodUnreachable {
			return because(reason, "%s", message)
		}
		return because(v1alpha1.ReasonTerminating, "The node is being deleted; its pod %s is still there.", in.Seen.Pod.Name)
	}
	return because(v1alpha1.ReasonTerminating, "The node is being deleted.")
}

func isPaused(in Input) *verdict {
	if !in.Node.Spec.Paused {
		return nil
	}
	if gate := waitsToStop(in); gate != nil && gate.Stalled {
		return &verdict{Gate: *gate}
	}
	return because(v1alpha1.ReasonPaused, "The node is paused: set spec.paused to false to start it.")
}

func inTrouble(in Input) *verdict {
	for _, gate := range in.Trouble {
		return &verdict{Gate: gate}
	}
	return nil
}

// volumeTrouble tells of a lost or wrong volume, whatever runs at the moment.
func volumeTrouble(in Input) *verdict {
	if v := plan.Volume(in.Input); v.Stalled {
		return person(v.Reason, "%s", v.Message)
	}
	return nil
}

func gateShut(in Input) *verdict {
	if in.Decision.Step != plan.Blocked {
		return nil
	}
	return &verdict{Gate: plan.Gate{Reason: in.Decision.Reason, Message: in.Decision.Message, Stalled: in.Decision.Stalled}}
}

func isHeld(in Input) *verdict {
	if c := held(in); in.Seen.Sidecar.Connected && c.Status == metav1.ConditionTrue {
		return because(v1alpha1.ReasonHeld, "%s", c.Message)
	}
	return nil
}

// parked tells why the supervisor does not start seid although it may run.
func parked(in Input) *verdict {
	seid := in.Seen.Sidecar.Status.Seid
	if !in.Seen.Sidecar.Connected || seid.State != api.SeidParked || in.Seen.Sidecar.Status.Upgrade.Halted {
		return nil
	}
	reason := v1alpha1.ConditionReason(seid.ParkedBecause)
	if reason == "" {
		reason = v1alpha1.ReasonPodNotReady
	}
	for _, kind := range plan.KeysOf(&in.Node.Spec) {
		if gate := plan.KeyTrouble(in.Input, kind); gate != nil && gate.Reason == reason {
			return person(reason, "%s", gate.Message) // it says what to do
		}
	}
	return person(reason, "seid is not started: %s%s", seid.Message, imageToSet[reason])
}

// imageToSet is the way out for a binary that does not fit the data.
var imageToSet = map[v1alpha1.ConditionReason]string{
	v1alpha1.ReasonBinaryTooNew: " The image has an upgrade that the chain has not reached. Set spec.image back to the one that ran before; set the new one when the node halts for the upgrade.",
	v1alpha1.ReasonBinaryTooOld: " The image lacks an upgrade that this node has already executed. Set spec.image to one that has it.",
}

func upgradeHalt(in Input) *verdict {
	if c := upgradeHalted(in); in.Seen.Sidecar.Connected && c.Status == metav1.ConditionTrue {
		return because(v1alpha1.ReasonUpgradeHalted, "%s", c.Message)
	}
	return nil
}

// ruinShowsWithin is how long a seid lives at most that finds its volume ruined. One that
// lives longer has other data.
const ruinShowsWithin = 10 * time.Second

// volumeRuined tells of data that seid can never be started from again, and that it is
// started from nevertheless, over and over: Kubernetes restarts what ends.
func volumeRuined(in Input) *verdict {
	if !endsWith(in, v1alpha1.ReasonVolumeRuined) {
		return nil
	}
	way := "Create a SeiNodeTask of kind ResyncNode, which removes the data and syncs anew."
	if in.Node.Spec.FullNode == nil {
		way = fmt.Sprintf("Pause the node, delete its claim, and set the annotation %s to the uid of that claim.", v1alpha1.AnnotationAcceptNewVolume)
	}
	return person(v1alpha1.ReasonVolumeRuined, "seid was killed between a state sync and the next block, and can never start from this data again. %s", way)
}

// endsWith tells whether seid ends for this cause each time it is started.
func endsWith(in Input, cause v1alpha1.ConditionReason) bool {
	seid := in.Seen.Sidecar.Status.Seid
	lives := seid.RPC || seid.State == api.SeidRunning && in.Seen.Now.Sub(seid.Since) > ruinShowsWithin
	return in.Seen.Sidecar.Connected && seid.LastExit.Cause == string(cause) && !lives && !plan.PodReady(in.Seen.Pod)
}

// signedElsewhere tells of a key that signs at another place, as seid's own guard found.
// It is started again and again, and goes on by itself when that has an end.
func signedElsewhere(in Input) *verdict {
	if !endsWith(in, v1alpha1.ReasonSignedElsewhere) {
		return nil
	}
	return person(v1alpha1.ReasonSignedElsewhere, "%s", signedElsewhereMessage(in))
}

// diskFull comes before what a full disk does to a pod: that does not stay up, or is not
// ready. Other trouble has other causes, and is told as it is.
func diskFull(in Input) *verdict {
	trouble, _ := plan.PodTrouble(in.Seen.Pod, in.Seen.Now)
	mayBeWhy := trouble == "" || trouble == v1alpha1.ReasonCrashLoopBackOff
	if plan.DiskNearlyFull(in.Input) && !plan.PodReady(in.Seen.Pod) && mayBeWhy {
		v := plan.Volume(in.Input)
		return because(v.Reason, "%s", v.Message)
	}
	return nil
}

func podTrouble(in Input) *verdict {
	if reason, message := plan.PodTrouble(in.Seen.Pod, in.Seen.Now); reason != "" {
		return because(reason, "%s", message)
	}
	return nil
}

// stoodStill tells of a hold or a halt that was the last thing heard of a sidecar. What
// is wrong with the pod comes first: that may be why nothing is heard.
func stoodStill(in Input) *verdict {
	for _, c := range []metav1.Condition{held(in), upgradeHalted(in)} {
		if c.Status == metav1.ConditionTrue {
			return because(map[string]v1alpha1.ConditionReason{
				string(v1alpha1.ConditionHeld): v1alpha1.ReasonHeld, string(v1alpha1.ConditionUpgradeHalted): v1alpha1.ReasonUpgradeHalted,
			}[c.Type], "%s", c.Message)
		}
	}
	return nil
}

// scaledToZero tells why a node that is not paused has no pod and gets none.
func scaledToZero(in Input) *verdict {
	if replicas, gate := plan.Replicas(in.Input); replicas == 0 && in.Seen.StatefulSet != nil {
		return &verdict{Gate: *gate}
	}
	return nil
}

// stops are the tasks that stop seid.
var stops = map[string]bool{plan.TaskReplacePod: true, plan.TaskRestartSeid: true}

// unsafeStop tells of an update that waits for the moment at which seid may be
// stopped.
func unsafeStop(in Input) *verdict {
	if in.Node.Status.Plan == nil {
		return nil
	}
	for _, task := range in.Node.Status.Plan.Tasks {
		if task.Status != v1alpha1.PlanTaskRunning || !stops[task.Type] || task.StartTime == nil {
			continue
		}
		if gate := plan.HoldsStop(in.Input, task.StartTime.Time); gate != nil && strings.HasPrefix(gate.Message, strings.TrimSuffix(task.Message, "...")) {
			return &verdict{Gate: *gate}
		}
	}
	return nil
}

// taskFirst tells of an update that waits for a SeiNodeTask on the node.
func taskFirst(in Input) *verdict {
	if gate := plan.WaitsForTask(in.Input); gate != nil {
		return because(gate.Reason, "%s", gate.Message)
	}
	return nil
}

// planAtGate tells of something that a plan needs and that went away, or to another
// node, after the plan began.
func planAtGate(in Input) *verdict {
	if in.Node.Status.Plan == nil || in.Decision.Step != plan.Continue {
		return nil
	}
	if gate := plan.ShutGate(in.Input, in.Node.Status.Plan.Type); gate != nil && gate.Reason != v1alpha1.ReasonWaiting {
		return &verdict{Gate: *gate}
	}
	return nil
}

func planUnderWay(in Input) *verdict {
	p := in.Node.Status.Plan
	switch {
	case p == nil:
		return nil
	case p.Type == v1alpha1.PlanBootstrap:
		return because(v1alpha1.ReasonBootstrapping, "%s", p.Message)
	case p.Type == v1alpha1.PlanReapprove:
		return because(v1alpha1.ReasonNotApproved, "%s", p.Message)
	}
	return because(v1alpha1.ReasonUpdating, "%s", p.Message)
}

func planFailed(in Input) *verdict {
	if in.Decision.Step == plan.BackOff {
		return because(v1alpha1.ReasonPlanFailed, "%s", in.Decision.Message)
	}
	last := in.Node.Status.LastPlan
	justEnded := in.Node.Status.Plan == nil && in.Persisted.Plan != nil
	if last != nil && (in.Node.Status.Phase == v1alpha1.PhaseFailed || justEnded && last.Outcome == v1alpha1.PlanOutcomeFailed) {
		return because(v1alpha1.ReasonPlanFailed, "The plan %s failed: %s", last.Type, last.Message)
	}
	return nil
}

func sidecarTrouble(in Input) *verdict {
	switch {
	case in.Seen.Pod == nil:
		return because(v1alpha1.ReasonPodNotReady, "There is no pod yet.")
	case in.Seen.Sidecar.Connected && !in.Seen.Sidecar.Status.Approved:
		return because(v1alpha1.ReasonNotApproved, "The node is not approved to run on this volume, which another SeiNode was approved on: create a SeiNodeTask of kind MarkReady if it shall.")
	}
	return nil
}
