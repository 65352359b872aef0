package render

import (
	"slices"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// keySecrets are the names of the Secrets with a node's keys; empty where there is
// none. With the key of the access proxy one can pass for the way in to this node.
type keySecrets struct {
	signing, node, keyring, passphrase, access string
}

// has tells whether a Secret is one of them.
func (k keySecrets) has(name string) bool {
	return name != "" && (name == k.signing || name == k.node || name == k.keyring || name == k.passphrase || name == k.access)
}

// SecretNames are the names of all Secrets that a node's keys come from.
func SecretNames(node *v1alpha1.SeiNode) []string {
	keys := keysOf(node)
	return slices.DeleteFunc([]string{keys.signing, keys.node, keys.keyring, keys.passphrase, keys.access}, func(name string) bool { return name == "" })
}

func (p pod) keys() keySecrets {
	keys := keysOf(p.node)
	if !p.settings.AccessControl.Enabled {
		keys.access = "" // a Secret of this name is somebody's own business
	}
	return keys
}

func keysOf(node *v1alpha1.SeiNode) keySecrets {
	spec, keys := &node.Spec, keySecrets{access: AccessSecretName(node)}
	if validator := spec.Validator; validator != nil {
		keys.signing, keys.node = secretOf(validator.SigningKey), secretOf(validator.NodeKey)
		if ring := validator.OperatorKeyring; ring != nil && ring.Secret != nil {
			keys.keyring, keys.passphrase = ring.Secret.SecretName, ring.Secret.PassphraseSecretRef.SecretName
		}
	}
	if spec.Seed != nil {
		keys.node = secretOf(&spec.Seed.NodeKey)
	}
	return keys
}

func secretOf(source *v1alpha1.KeySource) string {
	if source == nil || source.Secret == nil {
		return ""
	}
	return source.Secret.SecretName
}
