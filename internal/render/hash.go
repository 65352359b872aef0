package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Hash identifies a value by its JSON, in which the keys of maps are sorted.
func Hash(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("cannot tell one version of the node from another: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// stamp puts the hash of a template on it, so that drift is seen on the pod itself.
func stamp(template *corev1ac.PodTemplateSpecApplyConfiguration) (string, error) {
	hash, err := Hash(template)
	if err != nil {
		return "", err
	}
	template.WithAnnotations(map[string]string{v1alpha1.AnnotationTemplateHash: hash})
	return hash, nil
}

// specFormat begins every hash of a spec. It changes when specs are hashed in another
// way, so that this is not taken for an edit of every node.
const specFormat = "1"

// SpecHash identifies a spec, in two parts: everything that a plan may depend on, and
// what can change the pod or the configuration. Pausing is no edit of the node, and
// the size of the volume and what becomes of it later change nothing that runs.
func SpecHash(spec v1alpha1.SeiNodeSpec) (string, error) {
	spec.Paused = false
	if spec.DataVolume != nil {
		volume := *spec.DataVolume
		volume.Size, volume.DeletionPolicy = nil, ""
		if spec.DataVolume = &volume; volume == (v1alpha1.DataVolumeSpec{}) {
			spec.DataVolume = nil
		}
	}
	whole, err := Hash(spec)
	if err != nil {
		return "", err
	}
	spec = *spec.DeepCopy()
	spec.Peers = nil
	if snapshot := spec.Snapshot(); snapshot != nil {
		*snapshot = v1alpha1.SnapshotSource{} // it only matters while a node is brought up
	}
	rolls, err := Hash(spec)
	return specFormat + "." + whole + "." + rolls, err
}

// Edited tells whether a spec was edited in a way that can change the pod or the
// configuration, by its hash now and when it was last admitted. Where the two cannot
// be compared it was not: then the operator is the one that changed.
func Edited(admitted, now string) bool {
	before, after := strings.Split(admitted, "."), strings.Split(now, ".")
	const parts = 3
	return len(before) == parts && len(after) == parts && before[0] == after[0] && before[2] != after[2]
}
