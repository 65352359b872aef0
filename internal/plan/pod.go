package plan

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// unreachableAfter is how long a pod may outlive the end of its grace period before
// its Kubernetes node counts as unreachable.
const unreachableAfter = 30 * time.Second

// PodTrouble is what keeps a pod from running, as far as Kubernetes knows; empty:
// nothing. The order is from what explains the most to what explains the least.
func PodTrouble(pod *corev1.Pod, now time.Time) (v1alpha1.ConditionReason, string) {
	if pod == nil {
		return "", ""
	}
	if unreachable(pod, now) {
		return v1alpha1.ReasonPodUnreachable, fmt.Sprintf(
			"The Kubernetes node %s of the pod %s does not answer. Nothing is started elsewhere until the pod is known to be gone: bring the node back, or make sure that it is off and delete its Node object.",
			pod.Spec.NodeName, pod.Name)
	}
	if c := unschedulable(pod); c != nil && UnschedulableIn(pod, now) == 0 {
		return v1alpha1.ReasonUnschedulable, fmt.Sprintf("No Kubernetes node takes the pod %s: %s", pod.Name, c.Message)
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if reason, message := containerTrouble(pod.Name, &statuses[i]); reason != "" {
				return reason, message
			}
		}
	}
	return "", ""
}

// schedulingGrace is how long a pod may find no Kubernetes node before that is worth
// a word: while its volume is being made, none takes it either.
const schedulingGrace = 10 * time.Second

// UnschedulableIn is how long it takes until a pod that finds no Kubernetes node is
// in trouble; 0 when it is, or when it does not look for one.
func UnschedulableIn(pod *corev1.Pod, now time.Time) time.Duration {
	c := unschedulable(pod)
	if c == nil {
		return 0
	}
	return max(0, c.LastTransitionTime.Add(schedulingGrace).Sub(now))
}

// unschedulable is the condition that says that no Kubernetes node takes a pod.
func unschedulable(pod *corev1.Pod) *corev1.PodCondition {
	if pod == nil {
		return nil
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c
		}
	}
	return nil
}

// containerTrouble is what keeps one container from running.
func containerTrouble(pod string, c *corev1.ContainerStatus) (v1alpha1.ConditionReason, string) {
	waiting := c.State.Waiting
	if waiting == nil {
		return "", ""
	}
	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable":
		return v1alpha1.ReasonImagePullBackOff, fmt.Sprintf("The image %s of container %s in pod %s cannot be pulled. Correct it in the spec, or make it available.", c.Image, c.Name, pod)
	case "CrashLoopBackOff", "RunContainerError", "CreateContainerError", "CreateContainerConfigError":
		ended := c.LastTerminationState.Terminated
		if ended != nil && ended.Reason == "OOMKilled" {
			return v1alpha1.ReasonOOMKilled, fmt.Sprintf("The container %s in pod %s was killed because it used more memory than its limit. Raise its resources.", c.Name, pod)
		}
		how := cmp.Or(waiting.Message, waiting.Reason)
		if ended != nil {
			how = fmt.Sprintf("it last ended with exit code %d", ended.ExitCode)
		}
		return v1alpha1.ReasonCrashLoopBackOff, fmt.Sprintf("The container %s in pod %s does not stay up: %s. Look at its log.", c.Name, pod, how)
	}
	return "", ""
}

// UnreachableIn is how long it takes until a pod that ends counts as out of reach; 0
// when it does, or does not end.
func UnreachableIn(pod *corev1.Pod, now time.Time) time.Duration {
	if pod == nil || pod.DeletionTimestamp == nil {
		return 0
	}
	return max(0, pod.DeletionTimestamp.Add(unreachableAfter).Sub(now))
}

// unreachable tells whether a pod is to be gone by now and still there.
func unreachable(pod *corev1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil && UnreachableIn(pod, now) == 0
}

// PodReady tells whether a pod is ready.
func PodReady(pod *corev1.Pod) bool {
	if pod == nil || pod.DeletionTimestamp != nil {
		return false
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// PodAlive tells whether a pod holds its volume: it was not seen to end.
func PodAlive(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// RunningImage is the image of a container that has started, as the pod names it:
// what the container runtime reports may be another name of the same image.
func RunningImage(pod *corev1.Pod, name string) string {
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == name && c.State.Running != nil {
			return imageOf(&pod.Spec, name)
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		if c := &pod.Status.InitContainerStatuses[i]; c.Name == name && c.State.Running != nil {
			return imageOf(&pod.Spec, name)
		}
	}
	return ""
}
