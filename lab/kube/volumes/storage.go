package volumes

import corev1 "k8s.io/api/core/v1"

// Storage is where the data of volumes is.
type Storage interface {
	// Make makes place for a volume and says in its spec where that is. Making it
	// again changes nothing.
	Make(volume *corev1.PersistentVolume) error
	// Destroy destroys the data of a volume, which may be gone already.
	Destroy(volume *corev1.PersistentVolume) error
}

// Imaginary is the storage of nodes that run nothing.
type Imaginary struct{}

// Make says that a CSI driver would know.
func (Imaginary) Make(volume *corev1.PersistentVolume) error {
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: Driver, VolumeHandle: volume.Name}
	return nil
}

// Destroy has nothing to do.
func (Imaginary) Destroy(*corev1.PersistentVolume) error { return nil }
