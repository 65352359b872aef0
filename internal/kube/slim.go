package kube

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
)

// slimPod keeps of a pod what the operator looks at. A cluster has many pods that
// are none of our business; of those only the claims that they mount matter,
// because a volume that somebody else uses must not be mounted by a node.
func slimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil // a tombstone
	}
	pod.ManagedFields = nil
	var volumes []corev1.Volume
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			volumes = append(volumes, corev1.Volume{Name: volume.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: volume.PersistentVolumeClaim}})
		}
	}
	spec := corev1.PodSpec{Volumes: volumes, NodeName: pod.Spec.NodeName}
	if _, ours := pod.Labels[v1alpha1.LabelNode]; !ours {
		pod.Labels, pod.Annotations, pod.OwnerReferences = nil, nil, nil
		pod.Spec = spec
		pod.Status = corev1.PodStatus{Phase: pod.Status.Phase}
		return pod, nil
	}
	spec.InitContainers, spec.Containers = slimContainers(pod.Spec.InitContainers), slimContainers(pod.Spec.Containers)
	pod.Spec = spec
	return pod, nil
}

// slimContainers keeps names, images and ports.
func slimContainers(containers []corev1.Container) []corev1.Container {
	slim := make([]corev1.Container, len(containers))
	for i := range containers {
		slim[i] = corev1.Container{Name: containers[i].Name, Image: containers[i].Image, Ports: containers[i].Ports}
	}
	return slim
}

// keepOnlyNodes keeps StatefulSets of nodes, without who wrote their status. Of all
// others, which may only ever be in the way of a name, it keeps who they are.
func keepOnlyNodes(object any) (any, error) {
	set, ok := object.(*appsv1.StatefulSet)
	if !ok {
		return object, nil
	}
	_, ours := set.Labels[v1alpha1.LabelNode]
	if set.Spec.Selector != nil && !ours {
		_, ours = set.Spec.Selector.MatchLabels[v1alpha1.LabelNode]
	}
	if ours {
		set.ManagedFields = slices.Clip(slices.DeleteFunc(set.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool { return entry.Subresource != "" }))
		return set, nil
	}
	set.ManagedFields, set.Annotations = nil, nil
	set.Spec = appsv1.StatefulSetSpec{Selector: set.Spec.Selector}
	set.Status = appsv1.StatefulSetStatus{}
	return set, nil
}

// keepFleetFields keeps of a SeiNode's managed fields what its fleet declares, from which
// is read what the node was given.
func keepFleetFields(object any) (any, error) {
	node, ok := object.(*v1alpha1.SeiNode)
	if !ok {
		return object, nil
	}
	node.ManagedFields = slices.DeleteFunc(node.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager != render.FleetManager
	})
	return node, nil
}

// keepOnlyOurs keeps Services and PodDisruptionBudgets of nodes and fleets as they are, and
// of all others who they are.
func keepOnlyOurs(object any) (any, error) {
	found, ok := object.(Object)
	if !ok {
		return object, nil // a tombstone
	}
	for _, label := range []string{v1alpha1.LabelNode, v1alpha1.LabelDeployment} {
		if _, ours := found.GetLabels()[label]; ours {
			return found, nil
		}
	}
	found.SetManagedFields(nil)
	found.SetAnnotations(nil)
	switch found := found.(type) {
	case *corev1.Service:
		found.Spec, found.Status = corev1.ServiceSpec{}, corev1.ServiceStatus{}
	case *policyv1.PodDisruptionBudget:
		found.Spec, found.Status = policyv1.PodDisruptionBudgetSpec{}, policyv1.PodDisruptionBudgetStatus{}
	}
	return found, nil
}

// slimVolume keeps of a volume whose it is and what becomes of it.
func slimVolume(object any) (any, error) {
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok {
		return object, nil
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volume.Name, UID: volume.UID, ResourceVersion: volume.ResourceVersion},
		Spec:       corev1.PersistentVolumeSpec{ClaimRef: volume.Spec.ClaimRef, PersistentVolumeReclaimPolicy: volume.Spec.PersistentVolumeReclaimPolicy},
	}, nil
}

// slimMetadata keeps who an object is. Of one that the operator wrote it keeps as well
// what is ours of it.
func slimMetadata(object any) (any, error) {
	full, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	slim := &metav1.PartialObjectMetadata{TypeMeta: full.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: full.Namespace, Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion, DeletionTimestamp: full.DeletionTimestamp,
	}}
	for _, entry := range full.ManagedFields {
		if entry.Manager == render.FieldManager {
			slim.Annotations = full.Annotations
			slim.ManagedFields = append(slim.ManagedFields, entry)
		}
	}
	return slim, nil
}
