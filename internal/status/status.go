// Package status computes the status of a node: in one place, last, from what was
// seen and what was decided. It is pure, and the same input gives the same status:
// a node at rest is never written.
package status

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
)

// Input is what a status is computed from. The node carries what was decided and
// done: plans, phase, references.
type Input struct {
	plan.Input

	Decision plan.Decision
	Trouble  []plan.Gate
}

// Set computes the rest of the status of in.Node. It returns when to look again
// because of the time alone; 0: never.
func Set(in Input) time.Duration {
	status := &in.Node.Status
	status.ObservedGeneration = in.Node.Generation
	status.Mode = in.Node.Spec.Mode()
	setPhase(in)
	setPod(in)
	if id := in.Seen.Sidecar.Status.NodeID; id != "" {
		status.NodeID = id
	}
	if in.RenderProblem == "" && status.Phase == v1alpha1.PhaseRunning {
		status.Endpoint = in.Want.Endpoint.DeepCopy()
	}
	for _, condition := range bounded(in, conditions(in)) {
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	setStop(in)
	waits := []time.Duration{setSlot(in), plan.UnschedulableIn(in.Seen.Pod, in.Seen.Now), plan.UnreachableIn(in.Seen.Pod, in.Seen.Now)}
	if due, running := sidecarDue(in); running && !in.Seen.Sidecar.Connected {
		waits = append(waits, due)
	}
	return soonest(waits)
}

// soonest is the shortest time that is not 0; 0 when there is none.
func soonest(waits []time.Duration) time.Duration {
	var first time.Duration
	for _, wait := range waits {
		if wait > 0 && (first == 0 || wait < first) {
			first = wait
		}
	}
	return first
}

// setSlot gives up the place in the update budget that is no longer needed, and tells
// when to look again because of the time alone.
func setSlot(in Input) time.Duration {
	status := &in.Node.Status
	if status.Slot == nil {
		return 0
	}
	ends, wait := plan.SlotEnds(in.Node, in.Seen.Now, func(kind v1alpha1.ConditionType) metav1.ConditionStatus {
		return meta.FindStatusCondition(status.Conditions, string(kind)).Status
	})
	if ends {
		status.Slot = nil
	}
	return wait
}

// sidecarGrace is how long a sidecar that has started may take to answer before
// that is worth a word. It saves a write for every pod that simply comes up.
const sidecarGrace = 10 * time.Second

// sidecarDue is how long it may still take until the sidecar answers, and whether
// that time is running out. One that has not started may take as long as it likes:
// the pod says why. The clock of its machine may be ahead of ours.
func sidecarDue(in Input) (due time.Duration, running bool) {
	pod := in.Seen.Pod
	if pod == nil {
		return sidecarGrace, false
	}
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		if c.Name == render.ContainerSidecar && c.State.Running != nil {
			return min(sidecarGrace, max(0, c.State.Running.StartedAt.Add(sidecarGrace).Sub(in.Seen.Now))), true
		}
	}
	return sidecarGrace, false
}

// setPhase sees to it that there is always a phase, and when it changed.
func setPhase(in Input) {
	status := &in.Node.Status
	switch {
	case in.Node.DeletionTimestamp != nil:
		status.Phase = v1alpha1.PhaseTerminating
	case status.Phase == "":
		status.Phase = v1alpha1.PhasePending
	}
	if status.Phase != in.Persisted.Phase {
		status.PhaseTransitionTime = new(metav1.NewTime(in.Seen.Now))
	}
}

// setStop remembers since when a pause or a deletion waits to stop seid.
func setStop(in Input) {
	status := &in.Node.Status
	switch waits := waitsToStop(in) != nil; {
	case !waits:
		status.StopRequestedTime = nil
	case status.StopRequestedTime == nil:
		status.StopRequestedTime = new(metav1.NewTime(in.Seen.Now))
	}
}

// setPod tells what runs, from the pod that runs. It stays as it was while there is
// no pod, or none that has started.
func setPod(in Input) {
	pod, status := in.Seen.Pod, &in.Node.Status
	if pod == nil || pod.DeletionTimestamp != nil {
		return
	}
	seid, sidecar := plan.RunningImage(pod, render.ContainerSeid), plan.RunningImage(pod, render.ContainerSidecar)
	if seid == "" && sidecar == "" {
		return
	}
	if seid != "" {
		status.CurrentImage = seid
	}
	if sidecar != "" {
		status.CurrentSidecarImage = sidecar
	}
	switch hash := pod.Annotations[v1alpha1.AnnotationTemplateHash]; {
	case hash != "":
		status.PodTemplateHash = hash
	case status.PodTemplateHash == "" && in.RenderProblem == "":
		// A pod from before templates had a hash. It counts as what is wanted now, so that
		// it is not replaced for that, and the next edit is noticed.
		status.PodTemplateHash = in.Want.TemplateHash
	}
}
