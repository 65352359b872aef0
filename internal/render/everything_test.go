package render

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// everything is a full node whose spec sets all that can be set.
func everything() *v1alpha1.SeiNode {
	return change(newNode(v1alpha1.ModeFullNode), func(spec *v1alpha1.SeiNodeSpec) {
		spec.FullNode = &v1alpha1.FullNodeSpec{
			Snapshot:           &v1alpha1.SnapshotSource{StateSync: &v1alpha1.StateSyncSource{}},
			SnapshotGeneration: &v1alpha1.SnapshotGeneration{Interval: 1000, KeepRecent: 3},
		}
		spec.Peers = []v1alpha1.PeerSource{{DNS: &v1alpha1.DNSPeers{Name: "seeds.example.com", Port: 26656}}}
		spec.Genesis = &v1alpha1.GenesisSource{ConfigMap: &v1alpha1.ConfigMapEntry{Name: "genesis", Key: "genesis.json"}}
		spec.Overrides = v1alpha1.Overrides{"config.p2p.max-connections": "40", "app.minimum-gas-prices": "0.02usei"}
		spec.Sidecar = &v1alpha1.SidecarSpec{
			Image: "registry.example.com/other:v2", Port: 7070,
			Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}},
		}
		spec.Resources = &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("10Gi")},
		}
		spec.Scheduling = &v1alpha1.SchedulingSpec{
			NodeSelector: map[string]string{"example.com/disk": "nvme"},
			Tolerations:  []corev1.Toleration{{Key: "example.com/sei", Operator: corev1.TolerationOpExists}},
			Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					TopologyKey:   "kubernetes.io/hostname",
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "nodes"}},
				}},
			}},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: corev1.ScheduleAnyway,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "nodes"}},
			}},
			PriorityClassName: "important",
		}
		spec.PodLabels = map[string]v1alpha1.LabelValue{"team": "nodes", "empty": ""}
		spec.PodAnnotations = map[string]string{"example.com/note": "hello", "karpenter.sh/do-not-disrupt": "false"}
		spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		spec.ServiceAccountName = "runner"
		spec.ExtraEnv = []corev1.EnvVar{
			{Name: "SEI_LOG_FORMAT", Value: "json"},
			{Name: "EMPTY"},
			{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
		}
		spec.ExtraArgs = []string{"--trace"}
		spec.DataVolume = &v1alpha1.DataVolumeSpec{
			Size: new(resource.MustParse("3Ti")), StorageClassName: "fast", DeletionPolicy: v1alpha1.DeletionPolicyDelete,
		}
		spec.ExternalAddress = "node.example.com:26656"
	})
}
