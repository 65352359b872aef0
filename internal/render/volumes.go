package render

import (
	"path"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/sei-operator/sei-operator/internal/seid"
)

// Where things are in the pod. The programs know these places as their defaults or
// from their environment.
const (
	userHome    = "/home/nonroot"
	seidHome    = userHome + "/.sei"
	tempPath    = "/tmp"
	binPath     = "/sei-bin"
	runPath     = "/run/sei"
	configPath  = "/etc/sei/node"
	genesisPath = "/etc/sei/genesis"
	keyringPath = "/etc/sei/keyring"
)

const (
	volumeData        = "data"
	volumeHome        = "home"
	volumeTemp        = "tmp"
	volumeBin         = "sei-bin"
	volumeRun         = "run"
	volumeNodeConfig  = "node-config"
	volumeGenesis     = "genesis"
	volumeSigningKey  = "signing-key"
	volumeNodeKey     = "node-key"
	volumeKeyring     = "operator-keyring"
	volumeProxyConfig = "rbac-proxy-config"
	volumeProxyToken  = "rbac-proxy-token"
	volumeLoopback    = "loopback"
	volumeAccess      = "access"
)

// The entries of Secrets that hold keys.
const (
	signingKeyFile = "priv_validator_key.json"
	nodeKeyFile    = "node_key.json"
)

const (
	secretMode    int32 = 0o400
	configMapMode int32 = 0o444
)

func (p pod) volumes() []*corev1ac.VolumeApplyConfiguration {
	volumes := []*corev1ac.VolumeApplyConfiguration{
		corev1ac.Volume().WithName(volumeData).WithPersistentVolumeClaim(
			corev1ac.PersistentVolumeClaimVolumeSource().WithClaimName(ClaimName(p.node))),
		emptyDir(volumeHome), emptyDir(volumeTemp), emptyDir(volumeBin), emptyDir(volumeRun),
		// Optional: a node that was configured before must start without the operator,
		// also when somebody deleted its ConfigMap.
		configMapVolume(volumeNodeConfig, NodeConfigName(p.node), true),
	}
	if name := p.genesisConfigMap(); name != "" {
		// Optional: it is needed once, and must not keep a pod from starting later.
		volumes = append(volumes, configMapVolume(volumeGenesis, name, true))
	}
	keys := p.keys()
	if keys.signing != "" {
		volumes = append(volumes, secretFiles(volumeSigningKey, keys.signing, signingKeyFile))
	}
	if keys.node != "" {
		volumes = append(volumes, secretFiles(volumeNodeKey, keys.node, nodeKeyFile))
	}
	if keys.keyring != "" {
		volumes = append(volumes, corev1ac.Volume().WithName(volumeKeyring).
			WithSecret(corev1ac.SecretVolumeSource().WithSecretName(keys.keyring).WithDefaultMode(secretMode)))
	}
	return volumes
}

func (p pod) genesisConfigMap() string {
	if genesis := p.spec.Genesis; genesis != nil && genesis.ConfigMap != nil {
		return genesis.ConfigMap.Name
	}
	return ""
}

func emptyDir(name string) *corev1ac.VolumeApplyConfiguration {
	return corev1ac.Volume().WithName(name).WithEmptyDir(corev1ac.EmptyDirVolumeSource())
}

func configMapVolume(name, configMap string, optional bool) *corev1ac.VolumeApplyConfiguration {
	source := corev1ac.ConfigMapVolumeSource().WithName(configMap).WithDefaultMode(configMapMode)
	if optional {
		source.WithOptional(true)
	}
	return corev1ac.Volume().WithName(name).WithConfigMap(source)
}

// secretFiles has these files of a Secret in it, whatever else the Secret holds.
func secretFiles(name, secret string, files ...string) *corev1ac.VolumeApplyConfiguration {
	source := corev1ac.SecretVolumeSource().WithSecretName(secret).WithDefaultMode(secretMode)
	for _, file := range files {
		source.WithItems(corev1ac.KeyToPath().WithKey(file).WithPath(file))
	}
	return corev1ac.Volume().WithName(name).WithSecret(source)
}

func mount(name, at string) *corev1ac.VolumeMountApplyConfiguration {
	return corev1ac.VolumeMount().WithName(name).WithMountPath(at)
}

// keyMount puts a key where seid looks for it. A file that is mounted by itself is
// never exchanged under a running seid: a new key takes a new pod.
func keyMount(name, file string) *corev1ac.VolumeMountApplyConfiguration {
	return mount(name, path.Join(seid.Home(seidHome).ConfigDir(), file)).WithSubPath(file).WithReadOnly(true)
}

// homeMounts are what everything that works on the node's home has.
func homeMounts() []*corev1ac.VolumeMountApplyConfiguration {
	return []*corev1ac.VolumeMountApplyConfiguration{
		mount(volumeHome, userHome), mount(volumeData, seidHome), mount(volumeTemp, tempPath),
	}
}
