package observe

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/seid"
)

// The entries of the Secrets that hold keys.
const (
	signingKeyEntry = "priv_validator_key.json"
	nodeKeyEntry    = "node_key.json"
)

// Keys looks at Secrets with keys, and remembers what it found: a Secret is read once
// for each time it changes. Nothing of a private key leaves this file.
type Keys struct {
	mu    sync.Mutex
	found map[question]answer
}

// question is what is to be known of a Secret.
type question struct {
	secret types.NamespacedName
	kind   plan.KeyKind
	entry  string
}

// answer is what was found in a Secret as it was then.
type answer struct {
	uid             types.UID
	resourceVersion string
	key             plan.Key
}

// Look looks at the Secrets of all keys that the spec names.
func (k *Keys) Look(ctx context.Context, c *kube.Client, node *v1alpha1.SeiNode) (map[plan.KeyKind]plan.Key, error) {
	found := map[plan.KeyKind]plan.Key{}
	for _, kind := range plan.KeysOf(&node.Spec) {
		key, err := k.lookAt(ctx, c, node, kind)
		if err != nil {
			return nil, err
		}
		found[kind] = key
	}
	return found, nil
}

func (k *Keys) lookAt(ctx context.Context, c *kube.Client, node *v1alpha1.SeiNode, kind plan.KeyKind) (plan.Key, error) {
	ask := question{secret: types.NamespacedName{Namespace: node.Namespace, Name: secretOf(node, kind)}, kind: kind}
	switch kind {
	case plan.SigningKey:
		return k.ask(ctx, c, ask, signingKey)
	case plan.NodeKey:
		return k.ask(ctx, c, ask, nodeKey)
	case plan.OperatorKeyring:
	}
	wanted := node.Spec.Validator.OperatorKeyring.Secret
	ask.entry = wanted.KeyName
	if key, err := k.ask(ctx, c, ask, keyring(wanted.KeyName)); err != nil || key.Problem != "" {
		return key, err
	}
	ask.secret.Name, ask.entry = wanted.PassphraseSecretRef.SecretName, wanted.PassphraseSecretRef.Key
	return k.ask(ctx, c, ask, passphrase(ask.entry))
}

// ask reads a Secret, if it is not the one that was read before.
func (k *Keys) ask(ctx context.Context, c *kube.Client, ask question, read func(*corev1.Secret) plan.Key) (plan.Key, error) {
	metadata, err := c.SecretMetadata(ctx, ask.secret)
	switch {
	case apierrors.IsNotFound(err):
		k.forget(ask)
		return missing(ask), nil
	case err != nil:
		return plan.Key{}, fmt.Errorf("reading the metadata of the Secret %s: %w", ask.secret, err)
	case metadata.DeletionTimestamp != nil:
		return terminating(ask), nil
	}
	k.mu.Lock()
	known, asked := k.found[ask]
	k.mu.Unlock()
	if asked && known.uid == metadata.UID && known.resourceVersion == metadata.ResourceVersion {
		return known.key, nil
	}
	secret := &corev1.Secret{}
	switch err := c.GetLive(ctx, ask.secret, secret); {
	case apierrors.IsNotFound(err):
		return missing(ask), nil
	case err != nil:
		return plan.Key{}, fmt.Errorf("reading the Secret %s: %w", ask.secret, err)
	case secret.DeletionTimestamp != nil:
		return terminating(ask), nil
	}
	key := read(secret)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.found == nil {
		k.found = map[question]answer{}
	}
	k.found[ask] = answer{uid: secret.UID, resourceVersion: secret.ResourceVersion, key: key}
	return key, nil
}

func (k *Keys) forget(ask question) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.found, ask)
}

func secretOf(node *v1alpha1.SeiNode, kind plan.KeyKind) string {
	if node.Spec.Seed != nil {
		return node.Spec.Seed.NodeKey.Secret.SecretName
	}
	switch kind {
	case plan.SigningKey:
		return node.Spec.Validator.SigningKey.Secret.SecretName
	case plan.NodeKey:
		return node.Spec.Validator.NodeKey.Secret.SecretName
	default:
		return node.Spec.Validator.OperatorKeyring.Secret.SecretName
	}
}

func missing(ask question) plan.Key {
	return plan.Key{
		Problem: v1alpha1.ReasonSecretNotFound,
		Message: fmt.Sprintf("The Secret %s with the %s does not exist: create it in namespace %s.", ask.secret.Name, ask.kind, ask.secret.Namespace),
	}
}

func terminating(ask question) plan.Key {
	return plan.Key{
		Problem: v1alpha1.ReasonSecretTerminating,
		Message: fmt.Sprintf("The Secret %s with the %s is being deleted.", ask.secret.Name, ask.kind),
	}
}

func malformed(secret *corev1.Secret, kind plan.KeyKind, what string) plan.Key {
	return plan.Key{
		Problem: v1alpha1.ReasonKeyMalformed,
		Message: fmt.Sprintf("The Secret %s does not hold a usable %s: %s.", secret.Name, kind, what),
	}
}

func signingKey(secret *corev1.Secret) plan.Key {
	content, present := secret.Data[signingKeyEntry]
	if !present {
		return malformed(secret, plan.SigningKey, "it has no entry "+signingKeyEntry)
	}
	key, err := seid.ParseSigningKey(content)
	if err != nil {
		return malformed(secret, plan.SigningKey, err.Error())
	}
	return plan.Key{PublicKey: key.PublicKey, Address: key.Address}
}

func nodeKey(secret *corev1.Secret) plan.Key {
	content, present := secret.Data[nodeKeyEntry]
	if !present {
		return malformed(secret, plan.NodeKey, "it has no entry "+nodeKeyEntry)
	}
	id, err := seid.ParseNodeKey(content)
	if err != nil {
		return malformed(secret, plan.NodeKey, err.Error())
	}
	return plan.Key{NodeID: id}
}

// keyring looks for the files of the key. It does not try to open it.
func keyring(name string) func(*corev1.Secret) plan.Key {
	return func(secret *corev1.Secret) plan.Key {
		if len(secret.Data[name+".info"]) == 0 {
			return malformed(secret, plan.OperatorKeyring, fmt.Sprintf("it has no entry %s.info", name))
		}
		for entry, content := range secret.Data {
			if strings.HasSuffix(entry, ".address") && len(content) > 0 {
				return plan.Key{}
			}
		}
		return malformed(secret, plan.OperatorKeyring, "it has no entry that ends in .address")
	}
}

// passphrase looks for what opens a keyring.
func passphrase(entry string) func(*corev1.Secret) plan.Key {
	return func(secret *corev1.Secret) plan.Key {
		if len(secret.Data[entry]) == 0 {
			return malformed(secret, plan.OperatorKeyring, fmt.Sprintf("it has no entry %s with the passphrase", entry))
		}
		return plan.Key{}
	}
}
