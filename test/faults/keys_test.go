package faults_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/faults"
)

const signingEntry = "priv_validator_key.json"

// validator makes the keys of a node and the node itself.
func validator(p *faults.Person, change ...func(*v1alpha1.SeiNode)) *v1alpha1.SeiNode {
	p.Create(secretWithKey("signing-key", signingEntry, 1))
	p.Create(secretWithKey("node-key", "node_key.json", 2))
	return p.FullNode(append([]func(*v1alpha1.SeiNode){func(node *v1alpha1.SeiNode) {
		node.Spec.FullNode = nil
		node.Spec.Validator = &v1alpha1.ValidatorSpec{SigningKey: keyIn("signing-key"), NodeKey: keyIn("node-key")}
	}}, change...)...)
}

func withPolicy(policy v1alpha1.DeletionPolicy) func(*v1alpha1.SeiNode) {
	return func(node *v1alpha1.SeiNode) { node.Spec.DataVolume = &v1alpha1.DataVolumeSpec{DeletionPolicy: policy} }
}

// goneWithKeys tells whether the node is gone and its keys are free.
func goneWithKeys(p *faults.Person) bool { return gone(p) && p.KeysAreFree() }

func TestAValidatorIsDeletedAndItsVolumeStays(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "deletion of a validator, volume retained",
		Prepare: func(p *faults.Person) { p.Bring(validator(p)) },
		Act:     func(p *faults.Person) { p.Delete(faults.Node, &v1alpha1.SeiNode{}) },
		Done:    goneWithKeys,
	})
}

func TestAValidatorIsDeletedWithItsVolume(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:          "deletion of a validator, volume deleted",
		Prepare:       func(p *faults.Person) { p.Bring(validator(p, withPolicy(v1alpha1.DeletionPolicyDelete))) },
		Act:           func(p *faults.Person) { p.Delete(faults.Node, &v1alpha1.SeiNode{}) },
		Done:          goneWithKeys,
		DeletesVolume: true,
	})
}

// A validator is deleted and made again, and takes its volume and its keys.
func TestAValidatorIsMadeAgainOnItsVolume(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name: "re-creation of a validator on its volume",
		Prepare: func(p *faults.Person) {
			p.Bring(validator(p))
			p.Delete(faults.Node, &v1alpha1.SeiNode{})
			p.Until("the node to be gone", func() bool { return gone(p) })
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

// publicKey is that of a key that is made of one number over and over.
func publicKey(number byte) string {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize))
	return base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
}

func TestAValidatorGetsAnotherKey(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "signing key replaced and accepted",
		Prepare: func(p *faults.Person) { p.Bring(validator(p)) },
		Act: func(p *faults.Person) {
			p.Replace(secretWithKey("signing-key", signingEntry, 3))
			p.Until("the change to be told of", func() bool {
				return p.Has(v1alpha1.ConditionSigningKeyReady, v1alpha1.ReasonKeyIdentityChanged)
			})
			p.Annotate(v1alpha1.AnnotationAcceptKey, publicKey(3))
			p.Until("the new key to be accepted", func() bool { return p.Has(v1alpha1.ConditionSigningKeyReady, v1alpha1.ReasonKeyValid) })
			p.Delete(faults.Node+"-0", &corev1.Pod{})
		},
		Done: func(p *faults.Person) bool {
			return p.Ready() && len(p.SeiNode().Status.Reservations) == 2 && p.HoldsItsKeys() && p.Has(v1alpha1.ConditionSigningKeyReady, v1alpha1.ReasonKeyValid)
		},
		ReplacesKey: true,
	})
}

func TestTheVolumeOfAValidatorGrows(t *testing.T) {
	size := func(size string) func(*v1alpha1.SeiNode) {
		return func(node *v1alpha1.SeiNode) {
			node.Spec.DataVolume = &v1alpha1.DataVolumeSpec{Size: new(resource.MustParse(size))}
		}
	}
	faults.Run(t, faults.Workload{
		Name:    "expansion",
		Prepare: func(p *faults.Person) { p.Bring(validator(p, size("10Gi"))) },
		Act:     func(p *faults.Person) { p.Edit(size("20Gi")) },
		Done: func(p *faults.Person) bool {
			claim := &corev1.PersistentVolumeClaim{}
			return p.Get("data-"+faults.Node, claim) && claim.Status.Capacity.Storage().String() == "20Gi" &&
				p.Has(v1alpha1.ConditionDataVolumeReady, v1alpha1.ReasonBound) && p.Ready()
		},
	})
}

// Somebody deletes the reservation of a key, or gives it to somebody else.
func TestTheReservationOfAKeyIsTamperedWith(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "Leases edited",
		Prepare: func(p *faults.Person) { p.Bring(validator(p)) },
		Act: func(p *faults.Person) {
			for _, lease := range p.Leases() {
				p.Tamper(&lease)
			}
		},
		Done: func(p *faults.Person) bool { return p.HoldsItsKeys() && p.Ready() },
	})
}
