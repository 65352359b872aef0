package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sei-operator/sei-operator/lab/kube/volumes"
)

func newNode(index int, n *Network, version string) *corev1.Node {
	name := nodeNames[index]
	// Nothing is really used, so nothing ever runs out.
	plenty := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("1000"),
		corev1.ResourceMemory:           resource.MustParse("10Ti"),
		corev1.ResourcePods:             resource.MustParse("10000"),
		corev1.ResourceEphemeralStorage: resource.MustParse("10Ti"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				KubeletLabel:               KubeletAnswering,
				corev1.LabelHostname:       name,
				corev1.LabelOSStable:       "linux",
				corev1.LabelArchStable:     "amd64",
				corev1.LabelTopologyZone:   fmt.Sprintf("zone-%d", index),
				corev1.LabelTopologyRegion: "lab",
			},
		},
		Status: corev1.NodeStatus{
			Capacity:    plenty,
			Allocatable: plenty,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: n.Node(index).String()},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: version, OperatingSystem: "linux", Architecture: "amd64",
				ContainerRuntimeVersion: "containerd://0.0.0-lab", OSImage: "lab", KernelVersion: "lab",
			},
		},
	}
}

func createNodes(ctx context.Context, client kubernetes.Interface, n *Network, version string) error {
	for i := range nodeNames {
		if _, err := client.CoreV1().Nodes().Create(ctx, newNode(i, n, version), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("cannot create %s: %w", nodeNames[i], err)
		}
	}
	return nil
}

func createStorageClasses(ctx context.Context, client kubernetes.Interface) error {
	for _, class := range volumes.Classes() {
		if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("cannot create the StorageClass %s: %w", class.Name, err)
		}
	}
	return nil
}
