package plan

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// Stale tells whether another pod has to take the place of the one that is there,
// which the StatefulSet made.
func Stale(in Input) bool {
	set, pod := in.Seen.StatefulSet, in.Seen.Pod
	revision, labelled := pod.Labels[appsv1.StatefulSetRevisionLabel]
	if !labelled || !metav1.IsControlledBy(pod, set) {
		return false
	}
	return revision != set.Status.UpdateRevision || imagesEdited(in) || hasOtherKeys(in)
}

// imagesEdited tells whether somebody edited the images of the pod since it was made.
// An image that was another one from the start is no such thing: where images are
// rewritten when pods are made, the next pod would have it again.
func imagesEdited(in Input) bool {
	pod := in.Seen.Pod
	return pod.Generation > 1 &&
		(imageOf(&pod.Spec, render.ContainerSeid) != in.Want.SeidImage || imageOf(&pod.Spec, render.ContainerSidecar) != in.Want.SidecarImage)
}

// hasOtherKeys tells whether seid does not run, the pod has other keys than the
// Secrets, and those of the Secrets are the right ones. A key that is mounted stays
// what it was when the pod was made: a Secret that is restored reaches only the next.
func hasOtherKeys(in Input) bool {
	sidecar := in.Seen.Sidecar
	if !sidecar.Connected || sidecar.Status.Held || len(KeysOf(&in.Node.Spec)) == 0 || keyGate(in) != nil {
		return false
	}
	if state := sidecar.Status.Seid.State; state != api.SeidParked && state != api.SeidWaiting {
		return false
	}
	return differs(in.Seen.Keys[SigningKey].PublicKey, sidecar.Status.SigningPublicKey) || differs(in.Seen.Keys[NodeKey].NodeID, sidecar.Status.NodeID)
}

// differs tells whether a pod has another key than the Secret, where both are known.
func differs(secret, pod string) bool { return secret != "" && pod != "" && secret != pod }

// madeFromTemplate tells whether the pod was made from the template that the
// StatefulSet has now.
func madeFromTemplate(in Input) bool {
	set, pod := in.Seen.StatefulSet, in.Seen.Pod
	return pod != nil && metav1.IsControlledBy(pod, set) && set.Status.ObservedGeneration >= set.Generation &&
		pod.Labels[appsv1.StatefulSetRevisionLabel] == set.Status.UpdateRevision
}
