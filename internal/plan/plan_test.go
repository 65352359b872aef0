package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

func TestKeysOfASpec(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		edit edit
		want []KeyKind
	}{
		"a full node has none":            {edit: func(*Input) {}},
		"a seed has its node key":         {edit: seed, want: []KeyKind{NodeKey}},
		"a validator has them in order":   {edit: validator, want: []KeyKind{SigningKey, NodeKey, OperatorKeyring}},
		"a validator that makes its keys": {edit: validatorWith(v1alpha1.ValidatorSpec{})},
		"a validator without a keyring": {
			edit: validatorWith(v1alpha1.ValidatorSpec{SigningKey: keySource("signing"), NodeKey: keySource("identity")}),
			want: []KeyKind{SigningKey, NodeKey},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := fresh(test.edit)
			if diff := cmp.Diff(test.want, KeysOf(&in.Node.Spec)); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}

// seedAtRest is a seed that was brought up, and what happened to it then.
func seedAtRest(edits ...edit) Input {
	return running(append([]edit{seed, hasClaim(marked(nodeUID)), hasSet(), hasPod(), admitted, func(in *Input) {
		in.Node.Status.ConfigHash, in.Node.Status.AppliedConfigHash = in.Want.ConfigHash, in.Want.ConfigHash
		in.Node.Status.PodTemplateHash = in.Want.TemplateHash
	}}, edits...)...)
}

func validatorWith(v v1alpha1.ValidatorSpec) edit {
	return spec(func(s *v1alpha1.SeiNodeSpec) { s.FullNode, s.Validator = nil, &v })
}

func TestOnlyTheNodesOwnMarkCountsAsBootstrapped(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		claim edit
		want  bool
	}{
		"there is no claim":                        {claim: noClaim},
		"the claim has no mark":                    {claim: hasClaim()},
		"an earlier node of this name left a mark": {claim: hasClaim(marked(otherUID))},
		"this node left its mark":                  {claim: hasClaim(marked(nodeUID)), want: true},
		"the mark is empty":                        {claim: hasClaim(func(c *corev1.PersistentVolumeClaim) { marked("")(c) })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := fresh(test.claim)
			if got := Bootstrapped(in); got != test.want {
				t.Errorf("bootstrapped is %t", got)
			}
		})
	}
}
