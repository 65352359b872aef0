package render

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Where the proxy finds what it needs, and its own token, which no other container
// of the pod gets.
const (
	proxyConfigKey  = "config.yaml"
	proxyConfigPath = "/etc/sei/rbac-proxy"
	tokenPath       = "/var/run/secrets/kubernetes.io/serviceaccount"
	tokenSeconds    = 3600
)

// accessSubresource is what a caller must be allowed to use: the API that acts on
// a node is more than reading or editing its SeiNode.
const accessSubresource = "sidecar"

// proxyConfig tells the access proxy what to ask the API server about a caller.
func proxyConfig(node *v1alpha1.SeiNode) *corev1ac.ConfigMapApplyConfiguration {
	// Nothing in it can fail to be written.
	text, _ := yaml.Marshal(map[string]any{
		"authorization": map[string]any{
			"resourceAttributes": map[string]any{
				"apiGroup":    v1alpha1.GroupVersion.Group,
				"apiVersion":  v1alpha1.GroupVersion.Version,
				"resource":    "seinodes",
				"subresource": accessSubresource,
				"namespace":   node.Namespace,
				"name":        node.Name,
			},
		},
	})
	return corev1ac.ConfigMap(ProxyConfigName(node), node.Namespace).
		WithLabels(labels(node)).
		WithOwnerReferences(owner(node)).
		WithData(map[string]string{proxyConfigKey: string(text)})
}

// proxyContainer stands in front of the sidecar, which then listens on loopback.
func (p pod) proxyContainer() *corev1ac.ContainerApplyConfiguration {
	container := ownContainer(containerProxy, p.settings.AccessControl.ProxyImage).
		WithRestartPolicy(corev1.ContainerRestartPolicyAlways).
		WithPorts(containerPort(p.apiPort())).
		WithResources(resources("10m", "32Mi", "128Mi")).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName(volumeProxyConfig).WithMountPath(proxyConfigPath).WithReadOnly(true),
			corev1ac.VolumeMount().WithName(volumeProxyToken).WithMountPath(tokenPath).WithReadOnly(true),
		)
	if p.settings.AccessControl.ProxyImage == "" {
		container.WithImage(p.sidecarImage()).WithCommand(sidecarProgram).WithArgs("rbac-proxy")
	}
	return container.WithArgs(
		fmt.Sprintf("--secure-listen-address=0.0.0.0:%d", proxyPort),
		fmt.Sprintf("--upstream=http://127.0.0.1:%d/", p.sidecarPort()),
		"--config-file="+path.Join(proxyConfigPath, proxyConfigKey),
	)
}

// proxyVolumes are what Kubernetes would mount into every container by itself, for
// this one only. Lists like these are compared as a whole, so the defaults are in.
func (p pod) proxyVolumes() []*corev1ac.VolumeApplyConfiguration {
	token := corev1ac.ProjectedVolumeSource().WithSources(
		corev1ac.VolumeProjection().WithServiceAccountToken(corev1ac.ServiceAccountTokenProjection().
			WithPath("token").WithExpirationSeconds(tokenSeconds)),
		corev1ac.VolumeProjection().WithConfigMap(corev1ac.ConfigMapProjection().
			WithName("kube-root-ca.crt").WithItems(corev1ac.KeyToPath().WithKey("ca.crt").WithPath("ca.crt"))),
		corev1ac.VolumeProjection().WithDownwardAPI(corev1ac.DownwardAPIProjection().
			WithItems(corev1ac.DownwardAPIVolumeFile().WithPath("namespace").
				WithFieldRef(corev1ac.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath("metadata.namespace")))),
	)
	return []*corev1ac.VolumeApplyConfiguration{
		configMapVolume(volumeProxyConfig, ProxyConfigName(p.node), false),
		corev1ac.Volume().WithName(volumeProxyToken).WithProjected(token),
	}
}
