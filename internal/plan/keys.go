package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// KeyKind is one of the keys that a spec may name.
type KeyKind string

// The kinds of keys.
const (
	SigningKey      KeyKind = "signing key"
	NodeKey         KeyKind = "node key"
	OperatorKeyring KeyKind = "operator keyring"
)

// Key is what was found in the Secret of a key.
type Key struct {
	// Problem is empty when the key can be used.
	Problem v1alpha1.ConditionReason
	Message string
	// PublicKey and Address are those of a signing key, NodeID that of a node key.
	PublicKey, Address, NodeID string
}

// identity is what tells this key from all others; empty where nobody minds.
func (k Key) identity() string { return k.PublicKey + k.NodeID }

// KeysOf are the kinds of keys that a spec names, in the order in which they are
// checked.
func KeysOf(spec *v1alpha1.SeiNodeSpec) []KeyKind {
	var kinds []KeyKind
	if v := spec.Validator; v != nil {
		if v.SigningKey != nil {
			kinds = append(kinds, SigningKey)
		}
		if v.NodeKey != nil {
			kinds = append(kinds, NodeKey)
		}
		if v.OperatorKeyring != nil {
			kinds = append(kinds, OperatorKeyring)
		}
	}
	if spec.Seed != nil {
		kinds = append(kinds, NodeKey)
	}
	return kinds
}

// KeyTrouble is why a key that the spec names cannot be used; nil: it can.
func KeyTrouble(in Input, kind KeyKind) *Gate {
	key, looked := in.Seen.Keys[kind]
	switch {
	case !looked:
		return &Gate{Reason: v1alpha1.ReasonWaiting, Message: fmt.Sprintf("The %s was not looked at yet.", kind), After: gateInterval}
	case key.Problem != "":
		return &Gate{Reason: key.Problem, Message: key.Message, Stalled: key.Problem == v1alpha1.ReasonKeyMalformed}
	case identityChanged(in, kind):
		return &Gate{
			Reason: v1alpha1.ReasonKeyIdentityChanged, Stalled: true,
			Message: fmt.Sprintf("The Secret holds another %s (%s) than the one this node was approved with. What runs goes on with the old one, and nothing is started with the new one: restore the Secret, or set the annotation %s=%s.",
				kind, key.identity(), v1alpha1.AnnotationAcceptKey, key.identity()),
		}
	}
	if wish, wants := keyWish(in, kind); wants {
		return heldByOther(in, wish)
	}
	return nil
}

// keyGate is shut while a key cannot be used. A key that nobody looked at does not
// open it.
func keyGate(in Input) *Gate {
	for _, kind := range KeysOf(&in.Node.Spec) {
		if gate := KeyTrouble(in, kind); gate != nil {
			return gate
		}
	}
	return nil
}

// identityChanged tells whether a Secret holds another key than the one that the node
// reserved before, and nobody accepted that. A validator that starts to sign with
// another key is a decision of a person.
func identityChanged(in Input, kind KeyKind) bool {
	wish, wants := keyWish(in, kind)
	if !wants || !slices.Contains(KeysOf(&in.Node.Spec), kind) {
		return false // a key that seid made comes and goes with the volume
	}
	if recorded(in.Node.Status.Reservations, wish.Name) || accepted(in.Node, wish.Identity) {
		return false
	}
	return slices.ContainsFunc(in.Node.Status.Reservations, func(r v1alpha1.Reservation) bool { return r.Kind == wish.Kind })
}

// accepted tells whether a person accepted a key by naming it.
func accepted(node *v1alpha1.SeiNode, identity string) bool {
	for value := range strings.SplitSeq(node.Annotations[v1alpha1.AnnotationAcceptKey], ",") {
		if strings.TrimSpace(value) == identity {
			return true
		}
	}
	return false
}

// SigningIdentity is the public key that the node is to sign with; empty: it does not
// sign, or the key is not known yet. Without a Secret it is the one that seid made on
// the volume, which only the sidecar can tell.
func SigningIdentity(in Input) string {
	validator := in.Node.Spec.Validator
	switch {
	case validator == nil:
		return ""
	case validator.SigningKey != nil:
		return in.Seen.Keys[SigningKey].PublicKey
	case in.Seen.Sidecar.Connected:
		return in.Seen.Sidecar.Status.SigningPublicKey
	}
	return ""
}

// MayApprove is what speaks against approving the node to run; nil: nothing. Nobody is
// approved with a key that is not reserved for it.
func MayApprove(in Input) *Gate {
	if gate := keyGate(in); gate != nil {
		return gate
	}
	if in.Node.Spec.Validator != nil && SigningIdentity(in) == "" {
		return &Gate{Reason: v1alpha1.ReasonWaiting, Message: "The key that this validator signs with is not known yet."}
	}
	return ReservationGate(in)
}

// acceptedKeyWaits tells whether a person accepted another key, and the pod that is
// there has it and is not approved with it.
func acceptedKeyWaits(in Input) bool {
	sidecar, key := in.Seen.Sidecar.Status, in.Seen.Keys[SigningKey]
	if !in.Seen.Sidecar.Connected || sidecar.Held || keyGate(in) != nil {
		return false
	}
	newKey := key.PublicKey != "" && accepted(in.Node, key.PublicKey) &&
		sidecar.SigningPublicKey == key.PublicKey && sidecar.Approval.PublicKey != key.PublicKey
	id := in.Seen.Keys[NodeKey].NodeID
	newID := id != "" && accepted(in.Node, id) && sidecar.NodeID == id && sidecar.Approval.NodeID != id
	return newKey || newID
}
