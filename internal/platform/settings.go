// Package platform holds the settings of the whole cluster: one file, one
// environment variable, and defaults that work with neither.
package platform

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Version is that of the operator. It is set when a release is built.
var Version = "dev"

// sidecarRepository is where the sidecar's image of a release is found.
const sidecarRepository = "ghcr.io/sei-operator/sei-sidecar"

// Settings are what holds for every node in the cluster, where its own spec says
// nothing else.
type Settings struct {
	// SidecarImage is the image of the sidecar.
	SidecarImage string
	// AccessControl says who may talk to sidecars.
	AccessControl AccessControl
	// MaxConcurrentUpdates is how many nodes of one chain are updated at once, when
	// the operator or these settings are the cause.
	MaxConcurrentUpdates int
	// Modes are the settings of each mode. Every mode is in it.
	Modes map[v1alpha1.Mode]ModeSettings
	// Witnesses are, by chain id, the RPC servers against which state sync verifies
	// a snapshot.
	Witnesses map[string][]string
}

// AccessControl puts a proxy in front of every sidecar, which asks the API server
// who a caller is and what the caller may do.
type AccessControl struct {
	Enabled bool
	// ProxyImage is the image of the proxy. Empty means the sidecar's image, whose
	// program is a proxy too.
	ProxyImage string
	// CAFile has the authorities, in PEM, that issue the nodes' certificates, which are
	// then brought in Secrets. Empty means that the operator issues them.
	CAFile string
}

// ModeSettings are the defaults of a mode.
type ModeSettings struct {
	// Resources of the seid container.
	Resources    corev1.ResourceRequirements
	Storage      Storage
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
}

// Storage is the data volume of a node.
type Storage struct {
	// ClassName is the storage class. Empty means the default class of the cluster.
	ClassName string
	Size      resource.Quantity
}

// Default is what holds without any settings.
func Default() Settings {
	return Settings{
		SidecarImage:         sidecarRepository + ":" + Version,
		MaxConcurrentUpdates: 1,
		Modes: map[v1alpha1.Mode]ModeSettings{
			v1alpha1.ModeFullNode:  modeDefault("32", "256Gi", "2000Gi"),
			v1alpha1.ModeValidator: modeDefault("16", "128Gi", "2000Gi"),
			v1alpha1.ModeArchive:   modeDefault("64", "512Gi", "40Ti"),
			v1alpha1.ModeSeed:      modeDefault("1", "2Gi", "20Gi"),
			v1alpha1.ModeReplayer:  modeDefault("32", "256Gi", "2000Gi"),
		},
	}
}

// modeDefault asks for CPU without a limit: a throttled seid falls behind the
// chain. Memory is limited to what was asked for, so that a node never lives on
// memory that a neighbour may take back.
func modeDefault(cpu, memory, size string) ModeSettings {
	return ModeSettings{
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse(cpu),
				corev1.ResourceMemory: resource.MustParse(memory),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)},
		},
		Storage: Storage{Size: resource.MustParse(size)},
	}
}
