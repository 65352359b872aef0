package render

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// secrets are those of a node with every kind of key.
var secrets = keySecrets{signing: "signing", node: "identity", keyring: "keyring", passphrase: "passphrase", access: "node-access"}

// tcp is a probe of a port.
func tcp(port int32) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}}}
}

// secretVolume is a second volume with a Secret, beside what is rendered.
func secretVolume(secret string, items ...corev1.KeyToPath) corev1.Volume {
	return corev1.Volume{Name: "another", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret, Items: items}}}
}

// mountInto mounts a volume into a container, as a single read-only file.
func mountInto(t *testing.T, template *corev1.PodTemplateSpec, container string, volume corev1.Volume) *corev1.VolumeMount {
	t.Helper()
	template.Spec.Volumes = append(template.Spec.Volumes, volume)
	c := containerOf(t, template, container)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume.Name, MountPath: "/mounted", SubPath: "file", ReadOnly: true})
	return &c.VolumeMounts[len(c.VolumeMounts)-1]
}

// TestGuardRefusesEveryDefect puts each defect into a template of every mode. Nothing
// else is wrong with it, so it must be the defect that is told.
func TestGuardRefusesEveryDefect(t *testing.T) {
	t.Parallel()
	type template = corev1.PodTemplateSpec
	defects := map[string]struct {
		damage func(*testing.T, *template)
		says   string
	}{
		"a liveness probe on seid": {func(t *testing.T, p *template) {
			t.Helper()
			containerOf(t, p, ContainerSeid).LivenessProbe = tcp(portP2P)
		}, "seid has a liveness probe"},
		"a startup probe on seid": {func(t *testing.T, p *template) {
			t.Helper()
			containerOf(t, p, ContainerSeid).StartupProbe = tcp(portP2P)
		}, "seid has a startup probe"},
		"no seid at all": {func(_ *testing.T, p *template) {
			p.Spec.Containers = nil
		}, "there is no container seid"},
		"a probe on a port that nobody serves": {func(t *testing.T, p *template) {
			t.Helper()
			containerOf(t, p, ContainerSeid).ReadinessProbe = tcp(26658)
		}, "asks port 26658"},
		"a probe by the name of a port that is not there": {func(t *testing.T, p *template) {
			t.Helper()
			containerOf(t, p, ContainerSeid).ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("admin")},
			}}
		}, "asks port admin"},
		"a gRPC probe on the sidecar": {func(t *testing.T, p *template) {
			t.Helper()
			containerOf(t, p, ContainerSidecar).ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				GRPC: &corev1.GRPCAction{Port: 9090},
			}}
		}, "a probe of the container sei-sidecar asks port 9090"},
		"a probe that takes the node for another mode": {func(t *testing.T, p *template) {
			t.Helper()
			for i, variable := range containerOf(t, p, ContainerSeid).Env {
				if variable.Name == envMode {
					containerOf(t, p, ContainerSeid).Env[i].Value = "full"
				}
			}
		}, "takes the node for one of mode full"},
		"the signing key in the sidecar": {func(t *testing.T, p *template) {
			t.Helper()
			mountInto(t, p, ContainerSidecar, secretVolume("signing"))
		}, "the signing key is mounted into the container sei-sidecar"},
		"the signing key in an init container, by its file": {func(t *testing.T, p *template) {
			t.Helper()
			mountInto(t, p, containerInit, secretVolume("copy", corev1.KeyToPath{Key: "priv_validator_key.json", Path: "k"}))
		}, "the signing key is mounted into the container seid-init"},
		"the signing key in a projected volume": {func(t *testing.T, p *template) {
			t.Helper()
			mountInto(t, p, containerInstall, corev1.Volume{Name: "another", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
					Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "signing"}},
				}}},
			}})
		}, "the signing key is mounted into the container install"},
		"a signing key that can be written": {func(t *testing.T, p *template) {
			t.Helper()
			mountInto(t, p, ContainerSeid, secretVolume("signing")).ReadOnly = false
		}, "the signing key can be written in the container seid"},
		"a signing key in a directory": {func(t *testing.T, p *template) {
			t.Helper()
			mountInto(t, p, ContainerSeid, secretVolume("signing")).SubPath = ""
		}, "the signing key is mounted into the container seid as a directory"},
		"the node key in an init container": {func(t *testing.T, p *template) {
			t.Helper()
			mountInto(t, p, containerInit, secretVolume("identity"))
		}, "the node key is mounted into the container seid-init"},
		"the keyring in seid": {func(t *testing.T, p *template) {
			t.Helper()
			mountInto(t, p, ContainerSeid, secretVolume("keyring"))
		}, "the operator's keyring or its passphrase is mounted into the container seid"},
		"the passphrase in seid": {func(t *testing.T, p *template) {
			t.Helper()
			mountInto(t, p, ContainerSeid, secretVolume("passphrase"))
		}, "the operator's keyring or its passphrase is mounted into the container seid"},
		"a key in a variable, by its Secret": {func(t *testing.T, p *template) {
			t.Helper()
			c := containerOf(t, p, ContainerSeid)
			c.Env = append(c.Env, corev1.EnvVar{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "signing"}, Key: "k",
			}}})
		}, "the variable KEY of the container seid holds a key"},
		"a key in a variable, by its file": {func(t *testing.T, p *template) {
			t.Helper()
			c := containerOf(t, p, ContainerSidecar)
			c.Env = append(c.Env, corev1.EnvVar{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "copy"}, Key: "node_key.json",
			}}})
		}, "the variable KEY of the container sei-sidecar holds a key"},
		"all of a key's Secret as variables": {func(t *testing.T, p *template) {
			t.Helper()
			containerOf(t, p, ContainerSeid).EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "keyring"},
			}}}
		}, "variables of the container seid hold a key"},
		"the key of the proxy in seid": {func(t *testing.T, p *template) {
			t.Helper()
			mountInto(t, p, ContainerSeid, secretVolume("node-access"))
		}, "the key of the access proxy is mounted into the container seid"},
		"the key of the proxy in the sidecar": {func(t *testing.T, p *template) {
			t.Helper()
			mountInto(t, p, ContainerSidecar, secretVolume("node-access"))
		}, "the key of the access proxy is mounted into the container sei-sidecar"},
		"the secret of the loopback in seid": {func(t *testing.T, p *template) {
			t.Helper()
			c := containerOf(t, p, ContainerSeid)
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "loopback", MountPath: "/loopback", ReadOnly: true})
		}, "the secret of sidecar and proxy is mounted into the container seid"},
		"the secret of the loopback in an init container": {func(t *testing.T, p *template) {
			t.Helper()
			c := containerOf(t, p, containerInit)
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "loopback", MountPath: "/loopback", ReadOnly: true})
		}, "the secret of sidecar and proxy is mounted into the container seid-init"},
		"a secret of the loopback that the proxy can write": {func(t *testing.T, p *template) {
			t.Helper()
			c := containerOf(t, p, ContainerProxy)
			for i := range c.VolumeMounts {
				if c.VolumeMounts[i].Name == "loopback" {
					c.VolumeMounts[i].ReadOnly = false
				}
			}
		}, "the secret of sidecar and proxy can be written in the container rbac-proxy"},
		"the token of the proxy in the sidecar": {func(t *testing.T, p *template) {
			t.Helper()
			c := containerOf(t, p, ContainerSidecar)
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "rbac-proxy-token", MountPath: "/token", ReadOnly: true})
		}, "a service account token is mounted into the container sei-sidecar"},
		"a token for everybody": {func(_ *testing.T, p *template) {
			p.Spec.AutomountServiceAccountToken = nil
		}, "a service account token is mounted into every container"},
		"a token for everybody, on purpose": {func(_ *testing.T, p *template) {
			p.Spec.AutomountServiceAccountToken = new(true)
		}, "a service account token is mounted into every container"},
		"a token in seid": {func(t *testing.T, p *template) {
			t.Helper()
			mountInto(t, p, ContainerSeid, corev1.Volume{Name: "another", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
					ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"},
				}}},
			}})
		}, "a service account token is mounted into the container seid"},
		"something where the token would be": {func(t *testing.T, p *template) {
			t.Helper()
			mountInto(t, p, containerInit, secretVolume("token")).MountPath = tokenPath
		}, "a service account token is mounted into the container seid-init"},
		"shared processes": {func(_ *testing.T, p *template) {
			p.Spec.ShareProcessNamespace = new(true)
		}, "its containers share their processes"},
		"the network of the host": {func(_ *testing.T, p *template) {
			p.Spec.HostNetwork = true
		}, "it shares processes, memory or network"},
		"a directory of the host": {func(_ *testing.T, p *template) {
			p.Spec.Volumes[1].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		}, "is a directory of the Kubernetes node"},
		"the configuration by subPath": {func(t *testing.T, p *template) {
			t.Helper()
			for i, mounted := range containerOf(t, p, ContainerSidecar).VolumeMounts {
				if mounted.Name == volumeNodeConfig {
					containerOf(t, p, ContainerSidecar).VolumeMounts[i].SubPath = DocumentEntry
				}
			}
		}, "the ConfigMap node-config is mounted into the container sei-sidecar by subPath"},
		"a privileged container": {func(t *testing.T, p *template) {
			t.Helper()
			containerOf(t, p, ContainerSeid).SecurityContext.Privileged = new(true)
		}, "the container seid is privileged"},
		"a container that can become privileged": {func(t *testing.T, p *template) {
			t.Helper()
			containerOf(t, p, containerInit).SecurityContext.AllowPrivilegeEscalation = nil
		}, "the container seid-init is privileged"},
		"a container with a capability": {func(t *testing.T, p *template) {
			t.Helper()
			containerOf(t, p, ContainerSidecar).SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_PTRACE"}
		}, "the container sei-sidecar is privileged"},
		"a container without a profile": {func(t *testing.T, p *template) {
			t.Helper()
			containerOf(t, p, ContainerSeid).SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		}, "the container seid is privileged"},
		"a container with nothing said about it": {func(t *testing.T, p *template) {
			t.Helper()
			containerOf(t, p, containerInstall).SecurityContext = nil
		}, "the container install is privileged"},
		"root in one container": {func(t *testing.T, p *template) {
			t.Helper()
			containerOf(t, p, ContainerSeid).SecurityContext.RunAsUser = new(int64(0))
		}, "the container seid may run as root"},
		"root allowed in one container": {func(t *testing.T, p *template) {
			t.Helper()
			containerOf(t, p, ContainerSeid).SecurityContext.RunAsNonRoot = new(false)
		}, "the container seid may run as root"},
		"root in the pod": {func(_ *testing.T, p *template) {
			p.Spec.SecurityContext = nil
		}, "the container install may run as root"},
		"too little time to end": {func(_ *testing.T, p *template) {
			p.Spec.TerminationGracePeriodSeconds = new(int64(599))
		}, "seid has less than 600 seconds to end"},
		"the default time to end": {func(_ *testing.T, p *template) {
			p.Spec.TerminationGracePeriodSeconds = nil
		}, "seid has less than 600 seconds to end"},
	}
	for _, mode := range modes {
		sound := templateOf(t, render(t, newNode(mode), withAccessControl()))
		if err := checkSafe(sound, secrets); err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		for name, defect := range defects {
			t.Run(string(mode)+"/"+name, func(t *testing.T) {
				t.Parallel()
				broken := sound.DeepCopy()
				defect.damage(t, broken)
				if err := checkSafe(*broken, secrets); err == nil || !strings.Contains(err.Error(), defect.says) {
					t.Errorf("%v does not say %q", err, defect.says)
				}
			})
		}
	}
}

// TestGuardKnowsWhatAModeServes: a probe of RPC is fine where the kubelet reaches it,
// and would keep a validator or a seed unready for ever.
func TestGuardKnowsWhatAModeServes(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		served := mode != v1alpha1.ModeValidator && mode != v1alpha1.ModeSeed
		template := templateOf(t, render(t, newNode(mode), settings()))
		seidContainer := containerOf(t, &template, ContainerSeid)
		for _, probe := range []*corev1.Probe{tcp(portRPC), tcp(portGRPC)} {
			seidContainer.ReadinessProbe = probe
			if err := checkSafe(template, secrets); (err == nil) != served {
				t.Errorf("%s, port %v: %v", mode, probe.TCPSocket.Port, err)
			}
		}
		seidContainer.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("p2p")},
		}}
		containerOf(t, &template, ContainerSidecar).ReadinessProbe = tcp(DefaultSidecarPort)
		if err := checkSafe(template, secrets); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// TestGuardTellsEverythingAtOnce: nobody wants to be refused twice.
func TestGuardTellsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	err := checkSafe(corev1.PodTemplateSpec{}, keySecrets{})
	for _, says := range []string{"there is no container seid", "less than 600 seconds", "a service account token"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
}
