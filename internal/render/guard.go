package render

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// CheckLive tells what in a live template could hurt the node, whoever put it there.
func CheckLive(node *v1alpha1.SeiNode, template corev1.PodTemplateSpec) error {
	return checkSafe(template, keysOf(node))
}

// checkSafe refuses a pod that could hurt its node, whoever made the template: this
// package, a later version of it, or somebody's edit. Each of these things has cost
// somebody a validator. Everything that is wrong is told at once.
func checkSafe(template corev1.PodTemplateSpec, keys keySecrets) error {
	var problems []error
	for _, rule := range []func(corev1.PodTemplateSpec, keySecrets) []error{
		checkSeid, checkPod, checkProbes, checkMounts, checkEnvironment, checkToken, checkLoopback, checkPrivileges,
	} {
		problems = append(problems, rule(template, keys)...)
	}
	return errors.Join(problems...)
}

// everyContainer is all of them, init containers and sidecars first.
func everyContainer(template corev1.PodTemplateSpec) []corev1.Container {
	return slices.Concat(template.Spec.InitContainers, template.Spec.Containers)
}

// checkSeid: seid is there, and nothing kills it for not answering. A node that is
// held, halted or syncing answers nothing for hours.
func checkSeid(template corev1.PodTemplateSpec, _ keySecrets) []error {
	at := slices.IndexFunc(template.Spec.Containers, func(c corev1.Container) bool { return c.Name == ContainerSeid })
	if at < 0 {
		return []error{fmt.Errorf("there is no container %s", ContainerSeid)}
	}
	var problems []error
	seidContainer := template.Spec.Containers[at]
	if seidContainer.LivenessProbe != nil {
		problems = append(problems, errors.New("seid has a liveness probe, which would kill a node that is held, halted or syncing"))
	}
	if seidContainer.StartupProbe != nil {
		problems = append(problems, errors.New("seid has a startup probe, which would kill a node that waits for approval"))
	}
	return problems
}

// checkPod is about the pod as a whole.
func checkPod(template corev1.PodTemplateSpec, _ keySecrets) []error {
	var problems []error
	spec := template.Spec
	if spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace {
		problems = append(problems, errors.New("its containers share their processes, so that each can read the files of seid, keys included"))
	}
	if spec.HostPID || spec.HostIPC || spec.HostNetwork {
		problems = append(problems, errors.New("it shares processes, memory or network with the Kubernetes node"))
	}
	if grace := spec.TerminationGracePeriodSeconds; grace == nil || *grace < gracePeriod {
		problems = append(problems, fmt.Errorf("seid has less than %d seconds to end, and a kill at the wrong moment ruins the volume", gracePeriod))
	}
	return problems
}

// checkProbes: a probe of something that the mode does not serve never succeeds.
func checkProbes(template corev1.PodTemplateSpec, _ keySecrets) []error {
	var problems []error
	mode := v1alpha1.Mode(template.Labels[v1alpha1.LabelMode])
	for _, container := range everyContainer(template) {
		served := servedBy(container, mode)
		for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
			if probe == nil {
				continue
			}
			if port, asked := portOf(probe.ProbeHandler); asked && !reaches(container, served, port) {
				problems = append(problems, fmt.Errorf("a probe of the container %s asks port %s, where a node of mode %s serves nothing", container.Name, port.String(), mode))
			}
			if wrong := modeOf(container); probe.Exec != nil && wrong != "" && wrong != mode {
				problems = append(problems, fmt.Errorf("a probe of the container %s takes the node for one of mode %s, but its mode is %s", container.Name, wrong, mode))
			}
		}
	}
	return problems
}

// servedBy are the ports that the kubelet reaches in a container.
func servedBy(container corev1.Container, mode v1alpha1.Mode) []int32 {
	var served []int32
	if container.Name == ContainerSeid {
		for _, port := range portsOf(mode) {
			served = append(served, port.number)
		}
		return served
	}
	for _, port := range container.Ports {
		served = append(served, port.ContainerPort)
	}
	return served
}

func portOf(handler corev1.ProbeHandler) (intstr.IntOrString, bool) {
	switch {
	case handler.HTTPGet != nil:
		return handler.HTTPGet.Port, true
	case handler.TCPSocket != nil:
		return handler.TCPSocket.Port, true
	case handler.GRPC != nil:
		return intstr.FromInt32(handler.GRPC.Port), true
	default:
		return intstr.IntOrString{}, false
	}
}

// reaches resolves a port that is given by its name.
func reaches(container corev1.Container, served []int32, port intstr.IntOrString) bool {
	if port.Type == intstr.Int {
		return slices.Contains(served, port.IntVal)
	}
	return slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool {
		return p.Name == port.StrVal && slices.Contains(served, p.ContainerPort)
	})
}

// modeOf is the mode that our program in a container goes by; empty when it is told
// none.
func modeOf(container corev1.Container) v1alpha1.Mode {
	for _, variable := range container.Env {
		if variable.Name == envMode {
			return v1alpha1.Mode(variable.Value)
		}
	}
	return ""
}

// checkToken: whoever takes over seid must not be able to talk to the API server. The
// proxy alone has to: it asks who callers are.
func checkToken(template corev1.PodTemplateSpec, _ keySecrets) []error {
	var problems []error
	if automount := template.Spec.AutomountServiceAccountToken; automount == nil || *automount {
		problems = append(problems, errors.New("a service account token is mounted into every container, seid's included"))
	}
	for _, container := range everyContainer(template) {
		if container.Name == ContainerProxy {
			continue
		}
		for _, mounted := range container.VolumeMounts {
			if mounted.MountPath == tokenPath || holdsToken(volumeNamed(template, mounted.Name)) {
				problems = append(problems, fmt.Errorf("a service account token is mounted into the container %s", container.Name))
			}
		}
	}
	return problems
}

// checkLoopback: with what is in this volume one passes for the proxy, and says in the
// name of anybody what the sidecar shall do.
func checkLoopback(template corev1.PodTemplateSpec, _ keySecrets) []error {
	var problems []error
	for _, container := range everyContainer(template) {
		for _, mounted := range container.VolumeMounts {
			if mounted.Name != volumeLoopback {
				continue
			}
			switch {
			case container.Name != ContainerSidecar && container.Name != ContainerProxy:
				problems = append(problems, fmt.Errorf("the secret of sidecar and proxy is mounted into the container %s, where it must not be", container.Name))
			case container.Name == ContainerProxy && !mounted.ReadOnly:
				problems = append(problems, fmt.Errorf("the secret of sidecar and proxy can be written in the container %s", container.Name))
			}
		}
	}
	return problems
}

func holdsToken(volume corev1.Volume) bool {
	return volume.Projected != nil && slices.ContainsFunc(volume.Projected.Sources, func(s corev1.VolumeProjection) bool {
		return s.ServiceAccountToken != nil
	})
}

func volumeNamed(template corev1.PodTemplateSpec, name string) corev1.Volume {
	for _, volume := range template.Spec.Volumes {
		if volume.Name == name {
			return volume
		}
	}
	return corev1.Volume{}
}
