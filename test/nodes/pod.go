package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/signing"
)

// The containers of a node's pod.
const (
	sidecarContainer = "sei-sidecar"
	seidContainer    = "seid"
)

// SidecarFromBefore is the image of a sidecar that knows the dry run of config-apply and
// its peers as types of their own only.
const SidecarFromBefore = "registry.example.com/sei-sidecar:before"

// podFacts are what a sidecar learns from its pod.
type podFacts struct {
	uid       types.UID
	node      types.NamespacedName
	nodeUID   string
	address   string // host:port
	claim     string
	seidImage string
	validator bool
	before    bool // its sidecar is SidecarFromBefore
	// document, signingKey and nodeKey are files that are mounted; nil if they are not.
	document, signingKey, nodeKey *mountedFile
	// signing is what the operator knows of the signing key, beside the document.
	signing *mountedFile
	// certificate and certificateKey are those of the access proxy; nil without one.
	certificate, certificateKey *mountedFile
	// genesis finds a file of the mounted genesis ConfigMap; nil if none is mounted.
	genesis func(name string) *mountedFile
}

// mountedFile is an entry of a ConfigMap or Secret.
type mountedFile struct {
	secret    bool
	name, key string
}

// sidecarRuns tells whether the sidecar's container has started: it does not when an
// image before it cannot be pulled.
func sidecarRuns(pod *corev1.Pod) bool {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == sidecarContainer {
				return statuses[i].State.Running != nil
			}
		}
	}
	return false
}

// factsOf reads a pod. One that has no sidecar has no facts either.
func factsOf(pod *corev1.Pod) (*podFacts, error) {
	sidecar := container(pod, sidecarContainer)
	if sidecar == nil {
		return nil, nil
	}
	facts := &podFacts{
		uid:       pod.UID,
		node:      types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[v1alpha1.LabelNode]},
		nodeUID:   environment(sidecar, "SEI_NODE_UID"),
		address:   net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(portOf(sidecar))),
		claim:     claimOf(pod, sidecar),
		before:    sidecar.Image == SidecarFromBefore,
		validator: pod.Labels[v1alpha1.LabelMode] == string(seid.ModeValidator) || environment(sidecar, "SEI_NODE_MODE") == string(seid.ModeValidator),
	}
	if proxyFacts(pod, facts); facts.certificate != nil {
		facts.address = net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(proxyPort))
	}
	if facts.nodeUID == "" {
		return nil, errors.New("SEI_NODE_UID is not set in its container " + sidecarContainer)
	}
	if facts.claim == "" {
		return nil, errors.New("it has no volume with a claim")
	}
	if file := environment(sidecar, "SEI_NODE_CONFIG"); file != "" {
		facts.document = mountedAt(pod, sidecar, file)
		facts.signing = mountedAt(pod, sidecar, path.Join(path.Dir(file), signing.File))
	}
	if dir := environment(sidecar, "SEI_GENESIS_DIR"); dir != "" {
		facts.genesis = func(name string) *mountedFile { return mountedAt(pod, sidecar, path.Join(dir, name)) }
	}
	if main := container(pod, seidContainer); main != nil {
		facts.seidImage = main.Image
		facts.signingKey = mountedAs(pod, main, path.Base(seid.Home("").SigningKey()))
		facts.nodeKey = mountedAs(pod, main, path.Base(seid.Home("").NodeKey()))
	}
	return facts, nil
}

func container(pod *corev1.Pod, name string) *corev1.Container {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if containers[i].Name == name {
				return &containers[i]
			}
		}
	}
	return nil
}

func environment(c *corev1.Container, name string) string {
	for _, variable := range c.Env {
		if variable.Name == name {
			return variable.Value
		}
	}
	return ""
}

func portOf(c *corev1.Container) int {
	if port, err := strconv.Atoi(environment(c, "SEI_SIDECAR_PORT")); err == nil {
		return port
	}
	if len(c.Ports) > 0 {
		return int(c.Ports[0].ContainerPort)
	}
	return 7777
}

// claimOf is the claim that the sidecar mounts, or the only one of the pod.
func claimOf(pod *corev1.Pod, c *corev1.Container) string {
	found := ""
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim == nil {
			continue
		}
		found = volume.PersistentVolumeClaim.ClaimName
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume.Name }) {
			return found
		}
	}
	return found
}

// mountedAs finds a mount of a single file with this name.
func mountedAs(pod *corev1.Pod, c *corev1.Container, name string) *mountedFile {
	for _, mount := range c.VolumeMounts {
		if path.Base(mount.MountPath) == name {
			return mountedAt(pod, c, mount.MountPath)
		}
	}
	return nil
}

// mountedAt finds what is behind a path in a container.
func mountedAt(pod *corev1.Pod, c *corev1.Container, file string) *mountedFile {
	var best *corev1.VolumeMount
	for i, mount := range c.VolumeMounts {
		inside := file == mount.MountPath || strings.HasPrefix(file, strings.TrimSuffix(mount.MountPath, "/")+"/")
		if inside && (best == nil || len(mount.MountPath) > len(best.MountPath)) {
			best = &c.VolumeMounts[i]
		}
	}
	if best == nil {
		return nil
	}
	inVolume := strings.TrimPrefix(path.Join(best.SubPath, strings.TrimPrefix(file, best.MountPath)), "/")
	for _, volume := range pod.Spec.Volumes {
		switch {
		case volume.Name != best.Name:
		case volume.ConfigMap != nil:
			return &mountedFile{name: volume.ConfigMap.Name, key: keyOf(volume.ConfigMap.Items, inVolume)}
		case volume.Secret != nil:
			return &mountedFile{secret: true, name: volume.Secret.SecretName, key: keyOf(volume.Secret.Items, inVolume)}
		}
	}
	return nil
}

func keyOf(items []corev1.KeyToPath, file string) string {
	for _, item := range items {
		if item.Path == file {
			return item.Key
		}
	}
	return file
}

// read returns the content of a mounted file as it is in the cluster now, and nil for
// one that is not there.
func (f *Fleet) read(ctx context.Context, namespace string, file *mountedFile) ([]byte, error) {
	if file == nil {
		return nil, nil
	}
	var content []byte
	var err error
	if file.secret {
		var secret *corev1.Secret
		if secret, err = f.kube.CoreV1().Secrets(namespace).Get(ctx, file.name, metav1.GetOptions{}); err == nil {
			content = secret.Data[file.key]
		}
	} else {
		var configMap *corev1.ConfigMap
		if configMap, err = f.kube.CoreV1().ConfigMaps(namespace).Get(ctx, file.name, metav1.GetOptions{}); err == nil {
			if content = configMap.BinaryData[file.key]; content == nil && configMap.Data[file.key] != "" {
				content = []byte(configMap.Data[file.key])
			}
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what is mounted from %s: %w", file.name, err)
	}
	return content, nil
}
