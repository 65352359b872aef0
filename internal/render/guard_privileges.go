package render

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// checkPrivileges: nothing in the pod is root or can become it, and nothing of the
// Kubernetes node is in the pod.
func checkPrivileges(template corev1.PodTemplateSpec, _ keySecrets) []error {
	var problems []error
	for _, volume := range template.Spec.Volumes {
		if volume.HostPath != nil {
			problems = append(problems, fmt.Errorf("the volume %s is a directory of the Kubernetes node", volume.Name))
		}
	}
	ofPod := template.Spec.SecurityContext
	if ofPod == nil {
		ofPod = &corev1.PodSecurityContext{}
	}
	for _, container := range everyContainer(template) {
		of := container.SecurityContext
		if of == nil {
			of = &corev1.SecurityContext{}
		}
		if isRoot(ofPod, of) {
			problems = append(problems, fmt.Errorf("the container %s may run as root", container.Name))
		}
		if isPrivileged(of) {
			problems = append(problems, fmt.Errorf("the container %s is privileged, or can become so", container.Name))
		}
	}
	return problems
}

// isRoot: what a container says wins over what its pod says.
func isRoot(ofPod *corev1.PodSecurityContext, of *corev1.SecurityContext) bool {
	user, nonRoot := ofPod.RunAsUser, ofPod.RunAsNonRoot
	if of.RunAsUser != nil {
		user = of.RunAsUser
	}
	if of.RunAsNonRoot != nil {
		nonRoot = of.RunAsNonRoot
	}
	return user == nil || *user == 0 || nonRoot == nil || !*nonRoot
}

func isPrivileged(of *corev1.SecurityContext) bool {
	if of.Privileged != nil && *of.Privileged {
		return true
	}
	if of.AllowPrivilegeEscalation == nil || *of.AllowPrivilegeEscalation {
		return true
	}
	if of.Capabilities == nil || len(of.Capabilities.Add) > 0 || !slices.Contains(of.Capabilities.Drop, "ALL") {
		return true
	}
	return of.SeccompProfile != nil && of.SeccompProfile.Type == corev1.SeccompProfileTypeUnconfined
}
