package render

import (
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/platform"
)

const (
	// nonroot is the user and group of everything in the pod.
	nonroot int64 = 65532
	// gracePeriod is how long seid has to end. A kill before that ruins the volume
	// at certain moments, and the supervisor holds a stop back until they are over.
	gracePeriod int64 = 600
)

// doNotDisrupt keeps autoscalers from moving a node for the sake of tidiness.
var doNotDisrupt = map[string]string{
	"karpenter.sh/do-not-disrupt":                    "true",
	"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}

// pod is what a pod is rendered from.
type pod struct {
	node     *v1alpha1.SeiNode
	spec     *v1alpha1.SeiNodeSpec
	mode     v1alpha1.Mode
	settings platform.Settings
}

func (p pod) template() (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	seidContainer, err := p.seidContainer()
	if err != nil {
		return nil, err
	}
	spec := corev1ac.PodSpec().
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).WithRunAsUser(nonroot).WithRunAsGroup(nonroot).
			WithFSGroup(nonroot).WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithAutomountServiceAccountToken(false).
		// A Service called sei-sidecar or seid-something would otherwise put variables
		// into the pod that our programs and seid read.
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(gracePeriod).
		WithInitContainers(p.installContainer(), p.initContainer(), p.sidecarContainer()).
		WithContainers(seidContainer).
		WithVolumes(p.volumes()...)
	if p.settings.AccessControl.Enabled {
		spec.WithInitContainers(p.proxyContainer()).WithVolumes(p.proxyVolumes()...)
	}
	for _, secret := range p.spec.ImagePullSecrets {
		spec.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(secret.Name))
	}
	if p.spec.ServiceAccountName != "" {
		spec.WithServiceAccountName(p.spec.ServiceAccountName)
	}
	if err := p.schedule(spec); err != nil {
		return nil, err
	}
	return corev1ac.PodTemplateSpec().
		WithLabels(under(podLabels(p.node), p.spec.PodLabels)).
		WithAnnotations(under(doNotDisrupt, p.spec.PodAnnotations)).
		WithSpec(spec), nil
}

// schedule says where the pod may run: what the spec says, over what the platform
// says for the mode.
func (p pod) schedule(spec *corev1ac.PodSpecApplyConfiguration) error {
	scheduling := v1alpha1.SchedulingSpec{}
	if p.spec.Scheduling != nil {
		scheduling = *p.spec.Scheduling
	}
	mode := p.settings.Modes[p.mode]
	nodeSelector := maps.Clone(mode.NodeSelector)
	if nodeSelector == nil {
		nodeSelector = map[string]string{}
	}
	maps.Copy(nodeSelector, scheduling.NodeSelector)
	if len(nodeSelector) > 0 {
		spec.WithNodeSelector(nodeSelector)
	}
	if scheduling.PriorityClassName != "" {
		spec.WithPriorityClassName(scheduling.PriorityClassName)
	}
	for _, tolerations := range [][]corev1.Toleration{mode.Tolerations, scheduling.Tolerations} {
		for _, toleration := range tolerations {
			converted, err := convert[corev1ac.TolerationApplyConfiguration](toleration)
			if err != nil {
				return err
			}
			spec.WithTolerations(converted)
		}
	}
	for _, constraint := range scheduling.TopologySpreadConstraints {
		converted, err := convert[corev1ac.TopologySpreadConstraintApplyConfiguration](constraint)
		if err != nil {
			return err
		}
		spec.WithTopologySpreadConstraints(converted)
	}
	if scheduling.Affinity != nil {
		converted, err := convert[corev1ac.AffinityApplyConfiguration](scheduling.Affinity)
		if err != nil {
			return err
		}
		spec.WithAffinity(converted)
	}
	return nil
}

// convert makes of a part of a spec the same part of an apply configuration. They
// have the same JSON, and empty values are left out of it.
func convert[To any](from any) (*To, error) {
	text, err := json.Marshal(from)
	if err != nil {
		return nil, fmt.Errorf("%T cannot be written: %w", from, err)
	}
	to := new(To)
	if err := json.Unmarshal(text, to); err != nil {
		return nil, fmt.Errorf("%T cannot be read: %w", from, err)
	}
	return to, nil
}
