package render

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// held is what a volume holds of a node's secrets.
type held struct {
	what string
	// allowed are the containers that may have it.
	allowed []string
	// single: it must be mounted as a single file, which is never exchanged under a
	// running process.
	single bool
}

// heldBy finds a key by the Secret that the spec names and by the name of the file,
// so that a second volume with the same key does not slip through.
func heldBy(volume corev1.Volume, keys keySecrets) []held {
	var found []held
	for _, source := range secretsIn(volume) {
		if source.holds(keys.signing, signingKeyFile) {
			found = append(found, held{"the signing key", []string{ContainerSeid}, true})
		}
		if source.holds(keys.node, nodeKeyFile) {
			found = append(found, held{"the node key", []string{ContainerSeid, ContainerSidecar}, true})
		}
		if source.holds(keys.keyring, "") || source.holds(keys.passphrase, "") {
			found = append(found, held{"the operator's keyring or its passphrase", []string{ContainerSidecar}, false})
		}
		if source.holds(keys.access, "") {
			found = append(found, held{"the key of the access proxy", []string{ContainerProxy}, false})
		}
	}
	return found
}

// secretIn is a Secret that is part of a volume.
type secretIn struct {
	name  string
	items []corev1.KeyToPath
}

func secretsIn(volume corev1.Volume) []secretIn {
	var found []secretIn
	if volume.Secret != nil {
		found = append(found, secretIn{volume.Secret.SecretName, volume.Secret.Items})
	}
	if volume.Projected != nil {
		for _, source := range volume.Projected.Sources {
			if source.Secret != nil {
				found = append(found, secretIn{source.Secret.Name, source.Secret.Items})
			}
		}
	}
	return found
}

func (s secretIn) holds(secret, file string) bool {
	if secret != "" && s.name == secret {
		return true
	}
	return file != "" && slices.ContainsFunc(s.items, func(item corev1.KeyToPath) bool {
		return item.Key == file || item.Path == file
	})
}

// checkMounts: keys are where they are needed and nowhere else, and a mounted
// ConfigMap follows its source.
func checkMounts(template corev1.PodTemplateSpec, keys keySecrets) []error {
	var problems []error
	for _, container := range everyContainer(template) {
		for _, mounted := range container.VolumeMounts {
			volume := volumeNamed(template, mounted.Name)
			asFile := mounted.SubPath != "" || mounted.SubPathExpr != ""
			for _, secret := range heldBy(volume, keys) {
				switch {
				case !slices.Contains(secret.allowed, container.Name):
					problems = append(problems, fmt.Errorf("%s is mounted into the container %s, where it must not be", secret.what, container.Name))
				case !mounted.ReadOnly:
					problems = append(problems, fmt.Errorf("%s can be written in the container %s", secret.what, container.Name))
				case secret.single && !asFile:
					problems = append(problems, fmt.Errorf("%s is mounted into the container %s as a directory, in which it can change under a running seid", secret.what, container.Name))
				}
			}
			if volume.ConfigMap != nil && asFile {
				problems = append(problems, fmt.Errorf("the ConfigMap %s is mounted into the container %s by subPath, so that changes of it would never arrive", volume.ConfigMap.Name, container.Name))
			}
		}
	}
	return problems
}

// checkEnvironment: an environment is shown by debuggers, crash reports and /proc,
// and every child inherits it.
func checkEnvironment(template corev1.PodTemplateSpec, keys keySecrets) []error {
	var problems []error
	for _, container := range everyContainer(template) {
		for _, variable := range container.Env {
			if variable.ValueFrom == nil || variable.ValueFrom.SecretKeyRef == nil {
				continue
			}
			from := variable.ValueFrom.SecretKeyRef
			if keys.has(from.Name) || from.Key == signingKeyFile || from.Key == nodeKeyFile {
				problems = append(problems, fmt.Errorf("the variable %s of the container %s holds a key, from the Secret %s", variable.Name, container.Name, from.Name))
			}
		}
		for _, source := range container.EnvFrom {
			if source.SecretRef != nil && keys.has(source.SecretRef.Name) {
				problems = append(problems, fmt.Errorf("variables of the container %s hold a key, from the Secret %s", container.Name, source.SecretRef.Name))
			}
		}
	}
	return problems
}
