package volumes

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Classes are the StorageClasses of a cluster.
func Classes() []*storagev1.StorageClass {
	standard := newClass("standard", storagev1.VolumeBindingImmediate, true)
	standard.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	return []*storagev1.StorageClass{
		standard,
		newClass("wait", storagev1.VolumeBindingWaitForFirstConsumer, true),
		newClass("fixed", storagev1.VolumeBindingImmediate, false),
	}
}

func newClass(name string, binding storagev1.VolumeBindingMode, grows bool) *storagev1.StorageClass {
	reclaim := corev1.PersistentVolumeReclaimDelete
	return &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: name},
		Provisioner:          Driver,
		ReclaimPolicy:        &reclaim,
		VolumeBindingMode:    &binding,
		AllowVolumeExpansion: &grows,
	}
}
