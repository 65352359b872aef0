package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// claim is the node's own data volume. It has no owner: deleting a SeiNode must
// not delete the data with it, whatever way it was deleted.
func (p pod) claim() *corev1.PersistentVolumeClaim {
	storage := p.settings.Modes[p.mode].Storage
	size, class := storage.Size.DeepCopy(), storage.ClassName
	if volume := p.spec.DataVolume; volume != nil {
		if volume.Size != nil {
			size = volume.Size.DeepCopy()
		}
		if volume.StorageClassName != "" {
			class = volume.StorageClassName
		}
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: ClaimName(p.node), Namespace: p.node.Namespace, Labels: labels(p.node)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size},
			},
		},
	}
	// An empty class would mean "no class at all" and not the cluster's default.
	if class != "" {
		claim.Spec.StorageClassName = &class
	}
	return claim
}
