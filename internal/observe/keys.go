package observe

import (
	"context"
	"fmt"
	"strings"

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

// Keys looks at the Secrets of all keys that the spec names. Nothing of a private
// key leaves this file.
func Keys(ctx context.Context, k *kube.Client, node *v1alpha1.SeiNode) (map[plan.KeyKind]plan.Key, error) {
	found := map[plan.KeyKind]plan.Key{}
	for _, kind := range plan.KeysOf(&node.Spec) {
		key, err := lookAt(ctx, k, node, kind)
		if err != nil {
			return nil, err
		}
		found[kind] = key
	}
	return found, nil
}

func lookAt(ctx context.Context, k *kube.Client, node *v1alpha1.SeiNode, kind plan.KeyKind) (plan.Key, error) {
	name := secretOf(node, kind)
	secret, problem, err := readSecret(ctx, k, node.Namespace, name, kind)
	if err != nil || problem != nil {
		return orZero(problem), err
	}
	switch kind {
	case plan.SigningKey:
		return signingKey(secret), nil
	case plan.NodeKey:
		return nodeKey(secret), nil
	default:
		return keyring(ctx, k, node, secret)
	}
}

func orZero(key *plan.Key) plan.Key {
	if key == nil {
		return plan.Key{}
	}
	return *key
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

// readSecret reads a Secret, or says what is wrong with it.
func readSecret(ctx context.Context, k *kube.Client, namespace, name string, kind plan.KeyKind) (*corev1.Secret, *plan.Key, error) {
	secret := &corev1.Secret{}
	switch err := k.GetLive(ctx, types.NamespacedName{Namespace: namespace, Name: name}, secret); {
	case apierrors.IsNotFound(err):
		return nil, &plan.Key{
			Problem: v1alpha1.ReasonSecretNotFound,
			Message: fmt.Sprintf("The Secret %s with the %s does not exist: create it in namespace %s.", name, kind, namespace),
		}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("reading the Secret %s/%s: %w", namespace, name, err)
	case secret.DeletionTimestamp != nil:
		return nil, &plan.Key{
			Problem: v1alpha1.ReasonSecretTerminating,
			Message: fmt.Sprintf("The Secret %s with the %s is being deleted.", name, kind),
		}, nil
	}
	return secret, nil, nil
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

// keyring looks for the files of the key and for the passphrase. It does not try to
// open it.
func keyring(ctx context.Context, k *kube.Client, node *v1alpha1.SeiNode, secret *corev1.Secret) (plan.Key, error) {
	wanted := node.Spec.Validator.OperatorKeyring.Secret
	if len(secret.Data[wanted.KeyName+".info"]) == 0 {
		return malformed(secret, plan.OperatorKeyring, fmt.Sprintf("it has no entry %s.info", wanted.KeyName)), nil
	}
	addresses := 0
	for entry, content := range secret.Data {
		if strings.HasSuffix(entry, ".address") && len(content) > 0 {
			addresses++
		}
	}
	if addresses == 0 {
		return malformed(secret, plan.OperatorKeyring, "it has no entry that ends in .address"), nil
	}
	passphrase, problem, err := readSecret(ctx, k, node.Namespace, wanted.PassphraseSecretRef.SecretName, plan.OperatorKeyring)
	if err != nil || problem != nil {
		return orZero(problem), err
	}
	if len(passphrase.Data[wanted.PassphraseSecretRef.Key]) == 0 {
		return malformed(passphrase, plan.OperatorKeyring, fmt.Sprintf("it has no entry %s with the passphrase", wanted.PassphraseSecretRef.Key)), nil
	}
	return plan.Key{}, nil
}
