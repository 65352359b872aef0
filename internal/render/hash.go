package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// hashOf identifies a value by its JSON, in which the keys of maps are sorted.
func hashOf(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("cannot tell one version of the node from another: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// stamp puts the hash of a template on it, so that drift is seen on the pod itself.
func stamp(template *corev1ac.PodTemplateSpecApplyConfiguration) (string, error) {
	hash, err := hashOf(template)
	if err != nil {
		return "", err
	}
	template.WithAnnotations(map[string]string{v1alpha1.AnnotationTemplateHash: hash})
	return hash, nil
}

// specHash identifies a spec. Pausing is no edit of the node, and the size of the
// volume and what becomes of it later change nothing that runs.
func specHash(spec v1alpha1.SeiNodeSpec) (string, error) {
	spec.Paused = false
	if spec.DataVolume != nil {
		volume := *spec.DataVolume
		volume.Size, volume.DeletionPolicy = nil, ""
		if spec.DataVolume = &volume; volume == (v1alpha1.DataVolumeSpec{}) {
			spec.DataVolume = nil
		}
	}
	return hashOf(spec)
}
