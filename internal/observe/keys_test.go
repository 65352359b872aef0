package observe

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/seid"
)

// signingSecret and nodeSecret are Secrets with keys made from a byte.
func signingSecret(b byte) *corev1.Secret {
	file, _, _ := keyFile(b)
	return secret("signing", map[string]string{"priv_validator_key.json": file})
}

func nodeSecret(b byte) *corev1.Secret {
	file, _, _ := keyFile(b)
	return secret("identity", map[string]string{"node_key.json": file})
}

func keyringSecret() *corev1.Secret {
	return secret("keyring", map[string]string{"admin.info": "x", "00ff.address": "y"})
}

func passphraseSecret() *corev1.Secret {
	return secret("passphrase", map[string]string{"word": "sesame"})
}

// signingKeyOf and nodeKeyOf are what is to be known of a key made from a byte.
func signingKeyOf(t *testing.T, b byte) plan.Key {
	t.Helper()
	file, _, public := keyFile(b)
	key, err := seid.ParseSigningKey([]byte(file))
	must(t, err)
	return plan.Key{PublicKey: public, Address: key.Address}
}

func nodeKeyOf(t *testing.T, b byte) plan.Key {
	t.Helper()
	file, _, _ := keyFile(b)
	id, err := seid.ParseNodeKey([]byte(file))
	must(t, err)
	return plan.Key{NodeID: id}
}

func look(t *testing.T, keys *Keys, c *cluster, of *v1alpha1.SeiNode) map[plan.KeyKind]plan.Key {
	t.Helper()
	found, err := keys.Look(t.Context(), c.Client, of)
	must(t, err)
	return found
}

func TestAllKeysAreLookedAt(t *testing.T) {
	t.Parallel()
	c := newCluster(t, signingSecret(1), nodeSecret(2), keyringSecret(), passphraseSecret())
	for name, test := range map[string]struct {
		of   *v1alpha1.SeiNode
		want map[plan.KeyKind]plan.Key
	}{
		"a full node has none": {of: node("full", "1"), want: map[plan.KeyKind]plan.Key{}},
		"a seed has one":       {of: node("seed", "2", seed), want: map[plan.KeyKind]plan.Key{plan.NodeKey: nodeKeyOf(t, 2)}},
		"a validator has three": {of: node("signer", "3", validator), want: map[plan.KeyKind]plan.Key{
			plan.SigningKey: signingKeyOf(t, 1), plan.NodeKey: nodeKeyOf(t, 2), plan.OperatorKeyring: {},
		}},
	} {
		if diff := cmp.Diff(test.want, look(t, &Keys{}, c, test.of)); diff != "" {
			t.Errorf("%s: keys (-want +got):\n%s", name, diff)
		}
	}
}

// TestASecretIsReadOnceForEachChange: the metadata says whether it changed.
func TestASecretIsReadOnceForEachChange(t *testing.T) {
	t.Parallel()
	c, keys, of := newCluster(t, signingSecret(1), nodeSecret(2), keyringSecret(), passphraseSecret()), &Keys{}, node("signer", "1", validator)
	reads := map[string]int{"signing": 1, "identity": 1, "keyring": 1, "passphrase": 1}
	settles := func(what string, want plan.Key) {
		t.Helper()
		for range 3 {
			if diff := cmp.Diff(want, look(t, keys, c, of)[plan.SigningKey]); diff != "" {
				t.Errorf("%s: signing key (-want +got):\n%s", what, diff)
			}
		}
		if diff := cmp.Diff(reads, c.reads); diff != "" {
			t.Errorf("%s: reads (-want +got):\n%s", what, diff)
		}
	}
	settles("at first", signingKeyOf(t, 1))

	changed := signingSecret(3)
	must(t, c.server.Get(t.Context(), client.ObjectKeyFromObject(changed), changed))
	maps.Copy(changed.Data, signingSecret(3).Data)
	must(t, c.server.Update(t.Context(), changed))
	reads["signing"]++
	settles("after a change", signingKeyOf(t, 3))

	// One that took its place may have the same version.
	c.put(t, signingSecret(4))
	twin := signingSecret(4)
	must(t, c.server.Get(t.Context(), client.ObjectKeyFromObject(twin), twin))
	reads["signing"]++
	settles("after it was made anew", signingKeyOf(t, 4))
	other := signingSecret(5)
	other.UID = "another"
	c.put(t, other)
	if other.ResourceVersion != twin.ResourceVersion {
		t.Fatalf("the versions are %s and %s, and the test shows nothing", twin.ResourceVersion, other.ResourceVersion)
	}
	reads["signing"]++
	settles("after another took its place", signingKeyOf(t, 5))

	// Another node with the same Secret costs nothing.
	of = node("twin", "2", validator)
	settles("for another node", signingKeyOf(t, 5))
}

func TestASecretThatIsNotThere(t *testing.T) {
	t.Parallel()
	missing := plan.Key{Problem: v1alpha1.ReasonSecretNotFound, Message: "The Secret identity with the node key does not exist: create it in namespace sei."}
	ends := plan.Key{Problem: v1alpha1.ReasonSecretTerminating, Message: "The Secret identity with the node key is being deleted."}
	c, keys, of := newCluster(t), &Keys{}, node("seed", "1", seed)
	expect := func(what string, want plan.Key) {
		t.Helper()
		if diff := cmp.Diff(want, look(t, keys, c, of)[plan.NodeKey]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("there never was one", missing)
	c.put(t, nodeSecret(1))
	expect("it is made", nodeKeyOf(t, 1))
	c.remove(t, nodeSecret(1))
	expect("it is deleted", missing)
	// The same one, as a restore brings it back: what was known before counts for nothing.
	c.put(t, nodeSecret(2))
	expect("it is made anew", nodeKeyOf(t, 2))

	c = newCluster(t, ending(nodeSecret(2)))
	expect("it is being deleted", ends)
	if len(c.reads) > 0 {
		t.Errorf("it was read: %v", c.reads)
	}
}

// TestTheAPIServerKnowsBetterThanTheCache: what is used is what is there.
func TestTheAPIServerKnowsBetterThanTheCache(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		server []client.Object
		want   plan.Key
	}{
		"it is gone":          {want: plan.Key{Problem: v1alpha1.ReasonSecretNotFound}},
		"it is being deleted": {server: []client.Object{ending(nodeSecret(1))}, want: plan.Key{Problem: v1alpha1.ReasonSecretTerminating}},
		"it is another one":   {server: []client.Object{nodeSecret(2)}, want: nodeKeyOf(t, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, test.server...)
			c.fallBehind(t, nodeSecret(1))
			got := look(t, &Keys{}, c, node("seed", "1", seed))[plan.NodeKey]
			got.Message = ""
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("key (-want +got):\n%s", diff)
			}
		})
	}
}

func TestASecretThatCannotBeRead(t *testing.T) {
	t.Parallel()
	c, keys, of := newCluster(t, nodeSecret(1)), &Keys{}, node("seed", "1", seed)
	for _, problem := range []*error{&c.stale, &c.broken} {
		*problem = errors.New("no route")
		_, err := keys.Look(t.Context(), c.Client, of)
		if !errors.Is(err, *problem) || !strings.Contains(err.Error(), "sei/identity") {
			t.Errorf("the error is %v", err)
		}
		*problem = nil
	}
	if diff := cmp.Diff(nodeKeyOf(t, 1), look(t, keys, c, of)[plan.NodeKey]); diff != "" {
		t.Errorf("key (-want +got):\n%s", diff)
	}
}

// TestASecretThatHoldsNoUsableKey says which one it is and what is missing, and nothing
// of what is in it.
func TestASecretThatHoldsNoUsableKey(t *testing.T) {
	t.Parallel()
	signing, private, public := keyFile(1)
	_, other, _ := keyFile(2)
	for name, test := range map[string]struct {
		kind plan.KeyKind
		// in is the Secret that is not as it should be.
		in   *corev1.Secret
		says []string
	}{
		"no signing key": {
			kind: plan.SigningKey, in: secret("signing", map[string]string{"node_key.json": signing}), says: []string{"Secret signing", "signing key", "no entry priv_validator_key.json"},
		},
		"a signing key that is cut off": {
			kind: plan.SigningKey, in: secret("signing", map[string]string{"priv_validator_key.json": signing[:40]}), says: []string{"Secret signing", "valid JSON"},
		},
		"a signing key that belongs to another": {
			kind: plan.SigningKey, says: []string{"Secret signing", "does not belong"},
			in: secret("signing", map[string]string{"priv_validator_key.json": fmt.Sprintf(
				`{"pub_key":{"type":"tendermint/PubKeyEd25519","value":%q},"priv_key":{"type":"tendermint/PrivKeyEd25519","value":%q}}`, public, other)}),
		},
		"no node key": {
			kind: plan.NodeKey, in: secret("identity", map[string]string{"priv_validator_key.json": signing}), says: []string{"Secret identity", "node key", "no entry node_key.json"},
		},
		"a node key that is empty": {
			kind: plan.NodeKey, in: secret("identity", map[string]string{"node_key.json": " "}), says: []string{"Secret identity", "empty"},
		},
		"no keyring": {
			kind: plan.OperatorKeyring, in: secret("keyring", nil), says: []string{"Secret keyring", "operator keyring", "no entry admin.info"},
		},
		"a keyring of another key": {
			kind: plan.OperatorKeyring, in: secret("keyring", map[string]string{"other.info": "x", "00.address": "x"}), says: []string{"no entry admin.info"},
		},
		"a keyring with an empty key": {
			kind: plan.OperatorKeyring, in: secret("keyring", map[string]string{"admin.info": "", "00.address": "x"}), says: []string{"no entry admin.info"},
		},
		"a keyring without an address": {
			kind: plan.OperatorKeyring, in: secret("keyring", map[string]string{"admin.info": "x", "address": "x"}), says: []string{"Secret keyring", "ends in .address"},
		},
		"a keyring with an empty address": {
			kind: plan.OperatorKeyring, in: secret("keyring", map[string]string{"admin.info": "x", "00.address": ""}), says: []string{"ends in .address"},
		},
		"no passphrase": {
			kind: plan.OperatorKeyring, in: secret("passphrase", map[string]string{"other": "x"}), says: []string{"Secret passphrase", "no entry word"},
		},
		"an empty passphrase": {
			kind: plan.OperatorKeyring, in: secret("passphrase", map[string]string{"word": ""}), says: []string{"Secret passphrase", "no entry word"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, keys := newCluster(t, signingSecret(1), nodeSecret(2), keyringSecret(), passphraseSecret()), &Keys{}
			c.put(t, test.in)
			for range 2 { // the second time it is remembered
				found := look(t, keys, c, node("signer", "1", validator))
				for kind, key := range found {
					if (key.Problem != "") != (kind == test.kind) {
						t.Errorf("the %s is %+v", kind, key)
					}
				}
				got := found[test.kind]
				if got.Problem != v1alpha1.ReasonKeyMalformed || got.PublicKey+got.Address+got.NodeID != "" {
					t.Errorf("the key is %+v", got)
				}
				for _, part := range test.says {
					if !strings.Contains(got.Message, part) {
						t.Errorf("it says %q, which lacks %q", got.Message, part)
					}
				}
			}
			if c.reads[test.in.Name] != 1 {
				t.Errorf("it was read %d times", c.reads[test.in.Name])
			}
			if told := fmt.Sprintf("%+v", keys.found); strings.Contains(told, private) || strings.Contains(told, other) || strings.Contains(told, private[:20]) {
				t.Errorf("a private key is remembered: %s", told)
			}
		})
	}
}

// TestAKeyringNeedsItsPassphrase: each of the two Secrets is told of by its own name.
func TestAKeyringNeedsItsPassphrase(t *testing.T) {
	t.Parallel()
	for gone, want := range map[string]string{
		"keyring":    "The Secret keyring with the operator keyring does not exist: create it in namespace sei.",
		"passphrase": "The Secret passphrase with the operator keyring does not exist: create it in namespace sei.",
	} {
		c := newCluster(t, signingSecret(1), nodeSecret(2), keyringSecret(), passphraseSecret())
		c.remove(t, secret(gone, nil))
		got := look(t, &Keys{}, c, node("signer", "1", validator))[plan.OperatorKeyring]
		if got.Problem != v1alpha1.ReasonSecretNotFound || got.Message != want {
			t.Errorf("without the %s: %+v", gone, got)
		}
	}
}
