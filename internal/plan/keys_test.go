package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
	return running(append([]edit{seed, hasClaim(marked(nodeUID)), hasSet(), hasPod(), admitted, settled}, edits...)...)
}

func validatorWith(v v1alpha1.ValidatorSpec) edit {
	return spec(func(s *v1alpha1.SeiNodeSpec) { s.FullNode, s.Validator = nil, &v })
}

// ownKeys makes the node a validator whose keys seid makes on the volume.
var ownKeys = validatorWith(v1alpha1.ValidatorSpec{})

func TestTroubleWithAKey(t *testing.T) {
	t.Parallel()
	signing, node := v1alpha1.ReservationSigningKey, v1alpha1.ReservationNodeKey
	changed := func(says ...string) wantGate {
		return wantGate{reason: v1alpha1.ReasonKeyIdentityChanged, stalled: true, says: append(says, "restore the Secret")}
	}
	inUse := func(says ...string) wantGate {
		return wantGate{reason: v1alpha1.ReasonKeyInUse, stalled: true, after: lookAgain, says: says}
	}
	for name, test := range map[string]struct {
		in   Input
		kind KeyKind
		want wantGate
	}{
		"it is reserved":                  {in: signer(), kind: SigningKey},
		"it is not reserved yet":          {in: fresh(validator, knownKeys), kind: SigningKey},
		"it is one that nobody reserves":  {in: signer(), kind: OperatorKeyring},
		"nobody looked at it":             {in: fresh(validator), kind: SigningKey, want: wantGate{reason: v1alpha1.ReasonWaiting, after: lookAgain, says: []string{"signing key", "not looked at"}}},
		"its Secret is not there":         {in: signer(missing(NodeKey)), kind: NodeKey, want: wantGate{reason: v1alpha1.ReasonSecretNotFound, says: []string{"The Secret does not exist."}}},
		"another Secret is not there":     {in: signer(missing(NodeKey)), kind: SigningKey},
		"its Secret holds none":           {in: signer(malformed(SigningKey)), kind: SigningKey, want: wantGate{reason: v1alpha1.ReasonKeyMalformed, stalled: true, says: []string{"It holds no key."}}},
		"its Secret holds another one":    {in: signer(signs(otherPublicKey, otherAddress)), kind: SigningKey, want: changed("another signing key (public-2)", "sei.io/accept-key=public-2")},
		"its Secret holds another id":     {in: signer(identifies(otherNodeID)), kind: NodeKey, want: changed("another node key (id-2)", "sei.io/accept-key=id-2")},
		"the Secret of a seed does":       {in: seedAtRest(identifies(otherNodeID), reserves(node, nodeID)), kind: NodeKey, want: changed("id-2")},
		"only the other key is another":   {in: signer(identifies(otherNodeID)), kind: SigningKey},
		"only the other one was reserved": {in: fresh(validator, knownKeys, reserves(node, nodeID)), kind: SigningKey},
		"a person accepts another one":    {in: signer(signs(otherPublicKey, otherAddress), acceptsKey("public-2")), kind: SigningKey},
		"a person accepts both":           {in: signer(identifies(otherNodeID), acceptsKey("public-2, id-2")), kind: NodeKey},
		"a person accepts a third one":    {in: signer(signs(otherPublicKey, otherAddress), acceptsKey("public-3,public-22")), kind: SigningKey, want: changed()},
		"another one is reserved already": {in: signer(signs(otherPublicKey, otherAddress), reserves(signing, otherPublicKey)), kind: SigningKey},
		"another one is reserved, which is not persisted": {
			in: signer(signs(otherPublicKey, otherAddress), reserves(signing, otherPublicKey), unpersisted), kind: SigningKey,
		},
		"another node holds it": {
			in: fresh(validator, knownKeys, leasedTo(signing, publicKey, otherUID)), kind: SigningKey,
			want: inUse("signing key public-1", "SeiNode elsewhere/holder", "Two nodes never run with one key"),
		},
		"another node holds the node key": {
			in: fresh(seed, identifies(nodeID), leasedTo(node, nodeID, otherUID)), kind: NodeKey,
			want: inUse("node key id-1", "SeiNode elsewhere/holder"),
		},
		"another node has it in its status, whoever holds it": {
			in:   fresh(validator, knownKeys, leased(signing, publicKey, Lease{Holder: nodeUID, HolderName: "sei/node", Recorded: []string{"sei/other", "sei/third"}})),
			kind: SigningKey, want: inUse("SeiNode sei/other."),
		},
		"another node holds the one that a person accepts": {
			in:   signer(signs(otherPublicKey, otherAddress), acceptsKey("public-2"), leasedTo(signing, otherPublicKey, otherUID)),
			kind: SigningKey, want: inUse("public-2"),
		},
		"another node holds the same key of another chain": {
			in: fresh(validator, knownKeys, leasedTo(signing, publicKey, otherUID), spec(func(s *v1alpha1.SeiNodeSpec) { s.ChainID = "atlantic-2" })), kind: SigningKey,
		},
		"whoever held it is gone": {
			in: fresh(validator, knownKeys, leased(signing, publicKey, Lease{Holder: otherUID, Abandoned: true})), kind: SigningKey,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.want.check(t, KeyTrouble(test.in, test.kind))
		})
	}
}

func TestTheKeyThatANodeSignsWith(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in   Input
		want string
	}{
		"none, since it does not sign":                 {in: running(signs(publicKey, address), podHas(otherPublicKey, nodeID))},
		"the one in its Secret":                        {in: signer(podHas(otherPublicKey, nodeID)), want: publicKey},
		"none that is known, without its Secret":       {in: signer(missing(SigningKey))},
		"the one that seid made":                       {in: running(ownKeys, podHas(publicKey, nodeID)), want: publicKey},
		"none that is known, without word of its pod":  {in: running(ownKeys, podHas(publicKey, nodeID), silentSidecar)},
		"none that is known, before there is a key":    {in: running(ownKeys)},
		"none that is known, before there is a pod":    {in: fresh(ownKeys)},
		"the one in its Secret, without word of a pod": {in: signer(silentSidecar), want: publicKey},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := SigningIdentity(test.in); got != test.want {
				t.Errorf("it signs with %q, want %q", got, test.want)
			}
		})
	}
}

// silentSidecar says that the sidecar does not answer any more.
var silentSidecar = sidecar(func(s *Sidecar) { s.Connected = false })

// TestWhoMayBeApproved: nobody with a key that is not known, or not reserved for it.
func TestWhoMayBeApproved(t *testing.T) {
	t.Parallel()
	signing := v1alpha1.ReservationSigningKey
	waits := func(says string) wantGate { return wantGate{reason: v1alpha1.ReasonWaiting, says: []string{says}} }
	for name, test := range map[string]struct {
		in   Input
		want wantGate
	}{
		"a full node":                             {in: running()},
		"a validator with its keys":               {in: signer()},
		"a validator without one of its keys":     {in: signer(missing(NodeKey)), want: wantGate{reason: v1alpha1.ReasonSecretNotFound}},
		"a validator with another key":            {in: signer(signs(otherPublicKey, otherAddress)), want: wantGate{reason: v1alpha1.ReasonKeyIdentityChanged, stalled: true}},
		"a validator before its keys are its own": {in: running(validator, knownKeys), want: waits("not reserved for it yet")},
		"a validator before that is persisted":    {in: signer(unpersisted), want: waits("not reserved for it yet")},
		"one whose key seid has not made yet":     {in: running(ownKeys), want: waits("not known yet")},
		"one whose key seid made, before it is its own": {
			in: running(ownKeys, podHas(publicKey, nodeID)), want: waits("not reserved for it yet"),
		},
		"one whose key seid made": {
			in: running(ownKeys, podHas(publicKey, nodeID), reserves(signing, publicKey)),
		},
		"one whose volume is a copy of another's": {
			in:   running(ownKeys, podHas(publicKey, nodeID), leasedTo(signing, publicKey, otherUID)),
			want: wantGate{reason: v1alpha1.ReasonKeyInUse, stalled: true, after: lookAgain, says: []string{"public-1", "elsewhere/holder"}},
		},
		"one whose volume came with another key than before": {
			in: running(ownKeys, podHas(otherPublicKey, nodeID), reserves(signing, publicKey), reserves(signing, otherPublicKey)),
		},
		"one whose volume came with another key, before it is its own": {
			in: running(ownKeys, podHas(otherPublicKey, nodeID), reserves(signing, publicKey)), want: waits("not reserved for it yet"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.want.check(t, MayApprove(test.in))
		})
	}
}

// TestAnAcceptedKeyIsApproved: with the pod that has it, and no other.
func TestAnAcceptedKeyIsApproved(t *testing.T) {
	t.Parallel()
	signing := v1alpha1.ReservationSigningKey
	another := func(edits ...edit) Input {
		return signer(append([]edit{signs(otherPublicKey, otherAddress), acceptsKey(otherPublicKey), podHas(otherPublicKey, nodeID)}, edits...)...)
	}
	anotherID := func(edits ...edit) Input {
		return signer(append([]edit{identifies(otherNodeID), acceptsKey(otherNodeID), podHas(publicKey, otherNodeID)}, edits...)...)
	}
	for name, test := range map[string]struct {
		in   Input
		want bool
	}{
		"the key was never another":                 {in: signer()},
		"the key was never another, and accepted":   {in: signer(acceptsKey(publicKey))},
		"the pod has the accepted key":              {in: another(), want: true},
		"nobody accepts the key":                    {in: another(acceptsKey("public-3"))},
		"the pod has the old key":                   {in: another(podHas(publicKey, nodeID))},
		"it is approved with it already":            {in: another(approvedWith(otherPublicKey, nodeID))},
		"it is held":                                {in: another(sidecar(func(s *Sidecar) { s.Status.Held = true }))},
		"its sidecar does not answer":               {in: another(silentSidecar)},
		"another node holds the accepted key":       {in: another(leasedTo(signing, otherPublicKey, otherUID))},
		"the pod has the accepted id":               {in: anotherID(), want: true},
		"nobody accepts the id":                     {in: anotherID(acceptsKey("id-3"))},
		"the pod has the old id":                    {in: anotherID(podHas(publicKey, nodeID))},
		"it is approved with that id already":       {in: anotherID(approvedWith(publicKey, otherNodeID))},
		"neither is known":                          {in: signer(usable(SigningKey, NodeKey), acceptsKey(""), approvedWith("x", "x"), podHas("", ""))},
		"the pod of a full node has nothing to say": {in: running(acceptsKey(publicKey), podHas(publicKey, nodeID))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Decide(test.in)
			if approves := got.Plan != nil && got.Plan.Type == v1alpha1.PlanReapprove; approves != test.want {
				t.Fatalf("it decides %+v", got)
			}
			if test.want {
				saysAll(t, got.Message, []string{"accepted another key"})
			}
		})
	}
}
