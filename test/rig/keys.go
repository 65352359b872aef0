package rig

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/seid"
)

// The entries of the Secrets that hold keys.
const (
	SigningKeyEntry = "priv_validator_key.json"
	NodeKeyEntry    = "node_key.json"
)

// Key is a signing key or a node key.
type Key struct{ private ed25519.PrivateKey }

// NewKey is a key that nobody has.
func NewKey(tb testing.TB) Key {
	tb.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return Key{private: private}
}

// Public is the public key as it stands in key files.
func (k Key) Public() string {
	return base64.StdEncoding.EncodeToString(k.private.Public().(ed25519.PublicKey))
}

type typedKey struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

func (k Key) public() typedKey { return typedKey{"tendermint/PubKeyEd25519", k.Public()} }

func (k Key) secret() typedKey {
	return typedKey{"tendermint/PrivKeyEd25519", base64.StdEncoding.EncodeToString(k.private)}
}

// SigningSecret is a Secret with a signing key.
func SigningSecret(tb testing.TB, name types.NamespacedName, key Key) *corev1.Secret {
	tb.Helper()
	return secretOf(tb, name, SigningKeyEntry, map[string]typedKey{"pub_key": key.public(), "priv_key": key.secret()})
}

// NodeSecret is a Secret with a node key.
func NodeSecret(tb testing.TB, name types.NamespacedName, key Key) *corev1.Secret {
	tb.Helper()
	return secretOf(tb, name, NodeKeyEntry, map[string]typedKey{"priv_key": key.secret()})
}

func secretOf(tb testing.TB, name types.NamespacedName, entry string, content map[string]typedKey) *corev1.Secret {
	tb.Helper()
	raw, err := json.Marshal(content)
	if err != nil {
		tb.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Data:       map[string][]byte{entry: raw},
	}
}

// KeyIn is where a key is.
func KeyIn(secret string) *v1alpha1.KeySource {
	return &v1alpha1.KeySource{Secret: &v1alpha1.KeySecret{SecretName: secret}}
}

// Validator is a SeiNode with keys in the Secrets <name>-signing and <name>-node.
func Validator(name types.NamespacedName, chain string) *v1alpha1.SeiNode {
	return &v1alpha1.SeiNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Spec: v1alpha1.SeiNodeSpec{ChainID: chain, Image: Image, Validator: &v1alpha1.ValidatorSpec{
			SigningKey: KeyIn(name.Name + "-signing"), NodeKey: KeyIn(name.Name + "-node"),
		}},
	}
}

// NodeID is the node id that belongs to it.
func (k Key) NodeID(tb testing.TB) string {
	tb.Helper()
	id, err := seid.ParseNodeKey(NodeSecret(tb, types.NamespacedName{}, k).Data[NodeKeyEntry])
	if err != nil {
		tb.Fatal(err)
	}
	return id
}
