package faults_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/faults"
)

func TestMain(m *testing.M) { cluster.Main(m) }

func TestAFullNodeIsBroughtUp(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name: "bootstrap of a full node",
		Act:  func(p *faults.Person) { p.Create(p.FullNode()) },
		Done: (*faults.Person).Ready,
	})
}

// secretWithKey holds a key file, with a key that is made of one number over and over.
func secretWithKey(name, entry string, number byte) *corev1.Secret {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize))
	content := fmt.Sprintf(`{"priv_key":{"type":"tendermint/PrivKeyEd25519","value":%q}}`, base64.StdEncoding.EncodeToString(key))
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{entry: content}}
}

func keyIn(secret string) *v1alpha1.KeySource {
	return &v1alpha1.KeySource{Secret: &v1alpha1.KeySecret{SecretName: secret}}
}

func TestAValidatorWithKeysInSecretsIsBroughtUp(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name: "bootstrap of a validator with keys in Secrets",
		Prepare: func(p *faults.Person) {
			p.Create(secretWithKey("signing-key", "priv_validator_key.json", 1))
			p.Create(secretWithKey("node-key", "node_key.json", 2))
		},
		Act: func(p *faults.Person) {
			p.Create(p.FullNode(func(node *v1alpha1.SeiNode) {
				node.Spec.FullNode = nil
				node.Spec.Validator = &v1alpha1.ValidatorSpec{SigningKey: keyIn("signing-key"), NodeKey: keyIn("node-key")}
			}))
		},
		Done: (*faults.Person).Ready,
	})
}

func TestANodeThatStartsFromASnapshotIsBroughtUp(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name: "bootstrap of a node with state sync",
		Act: func(p *faults.Person) {
			p.Create(p.FullNode(func(node *v1alpha1.SeiNode) {
				node.Spec.FullNode.Snapshot = &v1alpha1.SnapshotSource{
					StateSync: &v1alpha1.StateSyncSource{}, RPCServers: []string{"a.example.com:26657", "b.example.com:26657"},
				}
			}))
		},
		Done: (*faults.Person).Ready,
	})
}

func TestATaskFailsTwiceAndThenSucceeds(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name: "configure-genesis fails twice",
		Prepare: func(p *faults.Person) {
			p.Sidecar().Fail(plan.TaskConfigureGenesis, 2, "DownloadFailed", "not published yet", true)
		},
		Act:  func(p *faults.Person) { p.Create(p.FullNode()) },
		Done: (*faults.Person).Ready,
	})
}

func TestTheImageIsEditedWhileTheSidecarDoesNotAnswer(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name: "image edited during the bootstrap",
		Act: func(p *faults.Person) {
			restore := p.CutOff()
			p.Create(p.FullNode())
			p.Until("the pod to be up", func() bool { return p.Runs(faults.Image) })
			p.Edit(func(node *v1alpha1.SeiNode) { node.Spec.Image = otherImage })
			p.Until("a pod with the new image", func() bool { return p.Runs(otherImage) })
			restore()
		},
		Done: (*faults.Person).Ready,
	})
}
