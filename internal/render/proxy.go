package render

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// Where the proxy finds what it needs: its configuration, its certificate, what proves
// to the sidecar that it is the proxy, and its own token, which no other container of
// the pod gets.
const (
	proxyConfigKey  = "config.yaml"
	proxyConfigPath = "/etc/sei/rbac-proxy"
	accessPath      = "/etc/sei/access"
	loopbackPath    = "/run/sei-loopback"
	tokenPath       = "/var/run/secrets/kubernetes.io/serviceaccount"
	tokenSeconds    = 3600
)

// TokenAudience is what a token must be made for to be accepted by the proxies of a
// namespace. One that they get to see is of no use at the API server, nor in another
// namespace.
func TokenAudience(namespace string) string { return "sei-sidecar." + namespace }

// openPaths are answered to everybody: they tell nothing but that the sidecar lives.
var openPaths = []string{"/v0/livez", "/v0/healthz", "/v0/startupz"}

// proxyConfig tells the access proxy what to ask the API server about a caller: the
// sub-resource is the action, so that who may restart seid may not do anything else.
func proxyConfig(node *v1alpha1.SeiNode) *corev1ac.ConfigMapApplyConfiguration {
	// Nothing in it can fail to be written.
	text, _ := yaml.Marshal(map[string]any{
		"authorization": map[string]any{
			"rewrites": map[string]any{
				"byHttpHeader": map[string]any{"name": api.ActionHeader},
			},
			"resourceAttributes": map[string]any{
				"apiGroup":    v1alpha1.GroupVersion.Group,
				"apiVersion":  v1alpha1.GroupVersion.Version,
				"resource":    "seinodes",
				"subresource": "{{ .Value }}",
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

// AccessSecret holds the certificate and the key of the access proxy.
func AccessSecret(node *v1alpha1.SeiNode, certificate, key []byte, annotations map[string]string) *corev1ac.SecretApplyConfiguration {
	return corev1ac.Secret(AccessSecretName(node), node.Namespace).
		WithLabels(labels(node)).
		WithAnnotations(annotations).
		WithOwnerReferences(owner(node)).
		WithType(corev1.SecretTypeTLS).
		WithData(map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key})
}

// proxyContainer stands in front of the sidecar, which then listens on loopback. It has
// no probes: one that asks through it would end it for a sidecar that is slow.
func (p pod) proxyContainer() *corev1ac.ContainerApplyConfiguration {
	container := ownContainer(ContainerProxy, p.settings.AccessControl.ProxyImage).
		WithRestartPolicy(corev1.ContainerRestartPolicyAlways).
		WithPorts(containerPort(p.apiPort())).
		WithResources(resources("10m", "64Mi", "128Mi")).
		WithVolumeMounts(
			mount(volumeProxyConfig, proxyConfigPath).WithReadOnly(true),
			mount(volumeProxyToken, tokenPath).WithReadOnly(true),
			mount(volumeLoopback, loopbackPath).WithReadOnly(true),
			// A directory, so that a new certificate arrives without a new pod.
			mount(volumeAccess, accessPath).WithReadOnly(true),
		)
	if p.settings.AccessControl.ProxyImage == "" {
		container.WithImage(p.sidecarImage()).WithCommand(sidecarProgram).WithArgs("rbac-proxy").
			WithLifecycle(endsWhenAsked(sidecarProgram, "--program", "sei-rbac-proxy"))
	}
	return container.WithArgs(
		fmt.Sprintf("--secure-listen-address=0.0.0.0:%d", ProxyPort),
		fmt.Sprintf("--upstream=https://127.0.0.1:%d/", p.sidecarPort()),
		"--upstream-ca-file="+path.Join(loopbackPath, "ca.crt"),
		"--upstream-client-cert-file="+path.Join(loopbackPath, "client.crt"),
		"--upstream-client-key-file="+path.Join(loopbackPath, "client.key"),
		"--config-file="+path.Join(proxyConfigPath, proxyConfigKey),
		"--tls-cert-file="+path.Join(accessPath, corev1.TLSCertKey),
		"--tls-private-key-file="+path.Join(accessPath, corev1.TLSPrivateKeyKey),
		"--tls-reload-interval=10s",
		"--auth-token-audiences="+TokenAudience(p.node.Namespace),
		"--auth-header-fields-enabled=true",
		"--ignore-paths="+strings.Join(openPaths, ","),
	)
}

// loopbackSize is plenty for a few keys and certificates.
var loopbackSize = resource.MustParse("1Mi")

// proxyVolumes are the proxy's own. Its token is what Kubernetes would mount into every
// container by itself, for this one only. Lists like these are compared as a whole, so
// the defaults are in.
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
	certificate := secretFiles(volumeAccess, AccessSecretName(p.node), corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	certificate.Secret.WithOptional(true)
	return []*corev1ac.VolumeApplyConfiguration{
		// Optional, as the certificate: a pod must come back without either. The proxy lets
		// nobody in then, and seid runs.
		configMapVolume(volumeProxyConfig, ProxyConfigName(p.node), true),
		corev1ac.Volume().WithName(volumeProxyToken).WithProjected(token),
		// In memory: it is made anew for each pod, and is on no disk of the machine.
		corev1ac.Volume().WithName(volumeLoopback).WithEmptyDir(corev1ac.EmptyDirVolumeSource().
			WithMedium(corev1.StorageMediumMemory).WithSizeLimit(loopbackSize)),
		certificate,
	}
}
