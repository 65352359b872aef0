package node

import (
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// directories keeps each volume in a directory of the node. They are local volumes
// and not host paths, because those never get the group that a pod asks for
// (fsGroup): a pod that is not root could not write to them.
type directories struct{ root string }

func (d directories) Make(volume *corev1.PersistentVolume) error {
	path := filepath.Join(d.root, volume.Name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	volume.Spec.Local = &corev1.LocalVolumeSource{Path: path}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{nodeName},
		}}}},
	}}
	return nil
}

func (d directories) Destroy(volume *corev1.PersistentVolume) error {
	return os.RemoveAll(filepath.Join(d.root, volume.Name))
}
