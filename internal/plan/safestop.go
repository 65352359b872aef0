package plan

import (
	"fmt"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// safeStopPatience is how long a stop waits for the moment at which it is safe. After
// that it goes ahead: a node that cannot be stopped at all is worse.
const safeStopPatience = 30 * time.Minute

// SafeStop tells whether seid may be stopped now. Since is when the stop was first
// wanted.
//
// seid must not be stopped before its signal handler is in place, nor between the
// end of a state sync and the next block: that ruins the volume for good. The
// sidecar knows. Where it does not answer nobody knows, and nothing is gained by
// waiting.
func SafeStop(in Input, since time.Time) (gate *Gate, forced bool) {
	sidecar, pod := in.Seen.Sidecar, in.Seen.Pod
	if pod == nil || pod.DeletionTimestamp != nil || sidecar.Connected && sidecar.Status.Seid.SafeToStop {
		return nil, false
	}
	if !sidecar.Connected {
		return silent(in), false
	}
	if in.Node.Annotations[v1alpha1.AnnotationSkipSafeStop] == "true" {
		return nil, true
	}
	left := since.Add(safeStopPatience).Sub(in.Seen.Now)
	if left <= 0 {
		return nil, true
	}
	why := sidecar.Status.Seid.UnsafeBecause
	if why == "" {
		why = "the sidecar does not say why"
	}
	return &Gate{
		Reason: v1alpha1.ReasonWaitingForSafeStop, After: left,
		Message: fmt.Sprintf("seid must not be stopped at this moment (%s). It is stopped when that is over, or after %s; the annotation %s=true stops it now.",
			why, safeStopPatience, v1alpha1.AnnotationSkipSafeStop),
	}, false
}

// HoldsStop is what speaks against stopping the pod now; nil: nothing. Since is when
// the stop was first wanted.
func HoldsStop(in Input, since time.Time) *Gate {
	if gate := volumeAtRisk(in); gate != nil {
		return gate
	}
	gate, _ := SafeStop(in, since)
	return gate
}

// silentGrace is how long a sidecar may be silent before it counts as gone. An operator
// that has just started, or a connection that broke a moment ago, says nothing about
// seid.
const silentGrace = time.Minute

// silent waits for a sidecar that may answer in a moment.
func silent(in Input) *Gate {
	left := in.Seen.Sidecar.Lost.Add(silentGrace).Sub(in.Seen.Now)
	if in.Seen.Sidecar.New {
		left = silentGrace
	}
	if left <= 0 || in.Node.Annotations[v1alpha1.AnnotationSkipSafeStop] == "true" {
		return nil
	}
	return &Gate{
		Reason: v1alpha1.ReasonWaitingForSafeStop, After: left,
		Message: "Whether seid may be stopped is not known at this moment: its sidecar does not answer yet.",
	}
}
