package render

import (
	"slices"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// keySecrets are the names of the Secrets with a node's keys; empty where there is
// none.
type keySecrets struct {
	signing, node, keyring, passphrase string
}

// has tells whether a Secret is one of them.
func (k keySecrets) has(name string) bool {
	return name != "" && (name == k.signing || name == k.node || name == k.keyring || name == k.passphrase)
}

// SecretNames are the names of all Secrets that a node's keys come from.
func SecretNames(node *v1alpha1.SeiNode) []string {
	keys := keysOf(&node.Spec)
	return slices.DeleteFunc([]string{keys.signing, keys.node, keys.keyring, keys.passphrase}, func(name string) bool { return name == "" })
}

func (p pod) keys() keySecrets { return keysOf(p.spec) }

func keysOf(spec *v1alpha1.SeiNodeSpec) keySecrets {
	var keys keySecrets
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
