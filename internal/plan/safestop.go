package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// safeStopPatience is how long a stop waits for the moment at which it is safe. After
// that it goes ahead: a node that cannot be stopped at all is worse.
const safeStopPatience = 30 * time.Minute

// SafeStop tells whether seid may be stopped now. Since is when the stop was first
// wanted.
//
// seid must not be stopped before its signal handler is in place, nor between the
// end of a state sync and the next block: that ruins the volume for good. The
// sidecar knows, as long as seid's parent answers it. A parent that does not answer may be
// gone, and seid with it: the parent of one that crashed ends with it, and the kubelet, which
// waits before it starts the next, knows that. So a node that crash-loops is corrected,
// paused and deleted at once. Should its container start at this very moment, the stop
// meets the new parent, which holds it back by itself until seid can take it.
func SafeStop(in Input, since time.Time) (gate *Gate, forced bool) {
	sidecar, pod := in.Seen.Sidecar, in.Seen.Pod
	if pod == nil || pod.DeletionTimestamp != nil || sidecar.Connected && sidecar.Status.Seid.SafeToStop {
		return nil, false
	}
	if !sidecar.Connected || sidecar.Status.Seid.State == api.SeidUnknown {
		if seidContainerEnded(pod) {
			return nil, false
		}
		return silent(in, since), false
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

// seidContainerEnded tells whether the kubelet says that no seid runs. A container that
// it says nothing about may run.
func seidContainerEnded(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == render.ContainerSeid && (c.State.Waiting != nil || c.State.Terminated != nil)
	})
}

// silentGrace is how long those who know of seid may be silent before they count as
// gone; nothing is gained by waiting longer. An operator that has just started, or a
// connection that broke a moment ago, says nothing about seid.
const silentGrace = time.Minute

// silent waits for a sidecar, or seid's parent behind it, that may answer in a moment.
func silent(in Input, since time.Time) *Gate {
	sidecar, who := in.Seen.Sidecar, "its sidecar"
	from := sidecar.Lost
	switch {
	case sidecar.New:
		from = in.Seen.Now
	case sidecar.Connected:
		who, from = "the supervisor, which is its parent,", sidecar.Status.Seid.Since
		if from.IsZero() || from.After(in.Seen.Now) {
			from = since // an older sidecar does not say, and its clock may be ahead of ours
		}
	}
	left := from.Add(silentGrace).Sub(in.Seen.Now)
	if left <= 0 || in.Node.Annotations[v1alpha1.AnnotationSkipSafeStop] == "true" {
		return nil
	}
	return &Gate{
		Reason: v1alpha1.ReasonWaitingForSafeStop, After: left,
		Message: fmt.Sprintf("Whether seid may be stopped is not known at this moment: %s does not answer yet. It is stopped when that is known, or in a minute.", who),
	}
}
