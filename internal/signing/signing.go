// Package signing decides when seid has to look for signatures of its own key before
// it signs: the guard against signing twice.
//
// seid never signs a height twice as long as its sign state, a file on the data
// volume, says what the key signed last. A volume can be copied, restored or put to
// another use, and then the file does not say that any more. With the guard on, seid
// looks through the last Window blocks for its own signature before it joins the
// consensus, and ends when it finds one: then the key still signs elsewhere, or did
// until a moment ago.
//
// The guard cannot tell a signature that the sign state knows of from one that it does
// not know. Near the tip of the chain it would therefore keep a node down that only
// restarts; for as long as Window blocks take, and for ever where the chain does not
// go on without this key. So it is on exactly when it is needed, and that is decided
// here, from values alone.
package signing

import (
	"encoding/json"
	"fmt"
	"slices"
)

const (
	// Window is how many blocks seid looks through.
	Window = 100
	// Distance is how far the sign state may be below the tip until the guard is on for
	// that alone. It is larger than Window, and by so much that a node that joins the
	// consensus a little below the tip does not find what it signed itself: the guard
	// then costs nothing.
	Distance = 2 * Window
)

// File is where the operator's knowledge is, beside the configuration of the node.
const File = "signing.json"

// Known is what is known of a key apart from the volume that it signs on. The operator
// keeps it in the Lease of the key and mounts it into the pod, because a volume that was
// put back to an older state says nothing of what came after.
type Known struct {
	// PublicKey is whose knowledge this is.
	PublicKey string `json:"publicKey"`
	// Height is the highest one that the key is known to have signed.
	Height int64 `json:"height,omitempty"`
	// Vouched: the volume is the one on which the key signed last, as far as this
	// cluster knows.
	Vouched bool `json:"vouched,omitempty"`
	// Accepted is the height of the sign state that a person accepted.
	Accepted *int64 `json:"accepted,omitempty"`
	// Tip is a height that the chain is known to have reached.
	Tip int64 `json:"tip,omitempty"`
	// Witnesses are RPC servers that may have seen what the key signed.
	Witnesses []string `json:"witnesses,omitempty"`
}

// Parse reads what was mounted. What it does not know is left out: a newer operator may
// have written it.
func Parse(content []byte) (Known, error) {
	var k Known
	if err := json.Unmarshal(content, &k); err != nil {
		return Known{}, fmt.Errorf("what is known of the signing key cannot be read: %w", err)
	}
	return k, nil
}

// Text is what is mounted.
func (k Known) Text() string {
	text, _ := json.MarshalIndent(k, "", "  ") // nothing in the type can fail
	return string(text) + "\n"
}

// Of is what is known of this key: nothing, if it is about another one.
func (k Known) Of(publicKey string) Known {
	if publicKey == "" || k.PublicKey != publicKey {
		return Known{PublicKey: publicKey}
	}
	return k
}

// SameBut tells whether two differ at most in what changes with the chain and matters
// only when seid starts.
func (k Known) SameBut(other Known) bool {
	return k.PublicKey == other.PublicKey && k.Height == other.Height && k.Vouched == other.Vouched && sameHeight(k.Accepted, other.Accepted)
}

// Equal tells whether two are the same.
func (k Known) Equal(other Known) bool {
	return k.SameBut(other) && k.Tip == other.Tip && slices.Equal(k.Witnesses, other.Witnesses)
}

func sameHeight(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

// Limits are what the sign state of a key is held against.
type Limits struct {
	// Known is the highest height that the key is known to have signed.
	Known int64 `json:"known,omitempty"`
	// Doubted is the height that the sign state had when the volume came to this node or
	// to this key, and Vouched that somebody vouches for it nevertheless. A sign state
	// that has passed it was written by this node, under the guard.
	Doubted int64 `json:"doubted,omitempty"`
	Vouched bool  `json:"vouched,omitempty"`
	// Tip is a height that the chain is known to have reached.
	Tip int64 `json:"tip,omitempty"`
	// Accepted is the height of the sign state that a person accepted.
	Accepted *int64 `json:"accepted,omitempty"`
}

// Reason is why the guard is on.
type Reason string

// The reasons.
const (
	// Off: the sign state is all that is needed.
	Off Reason = ""
	// Fresh: the sign state knows of no signature, or cannot be read.
	Fresh Reason = "FreshSignState"
	// Behind: the key is known to have signed a higher block.
	Behind Reason = "SignStateBehind"
	// Doubted: the sign state is from another node, or of another key, and nobody vouches
	// for it.
	Doubted Reason = "SignStateDoubted"
	// FarBehind: the chain is so far ahead that nobody knows what the key did since.
	FarBehind Reason = "SignStateFarBehind"
)

// Trusted tells whether what the sign state says is what this key signed last, so that
// others may rely on it.
func (r Reason) Trusted() bool { return r == Off || r == FarBehind }

// Guard decides whether the guard is on with a sign state at this height; 0 is one that
// knows of nothing, or cannot be read.
func (l Limits) Guard(height int64) Reason {
	switch {
	case l.Accepts(height):
		return Off
	case height <= 0:
		return Fresh
	case height < l.Known:
		return Behind
	case l.Doubted > 0 && height <= l.Doubted && !l.Vouched:
		return Doubted
	case l.Tip-height > Distance:
		return FarBehind
	}
	return Off
}

// Accepts tells whether a person accepted exactly this sign state.
func (l Limits) Accepts(height int64) bool { return l.Accepted != nil && *l.Accepted == height }

// Explain says in a sentence why the guard is on; nothing when it is off.
func (l Limits) Explain(height int64) string {
	switch l.Guard(height) {
	case Fresh:
		return "The sign state knows of no signature."
	case Behind:
		return fmt.Sprintf("The sign state is at height %d, and the key is known to have signed height %d.", height, l.Known)
	case Doubted:
		return fmt.Sprintf("The sign state is at height %d, from another node or key, so it is unknown what this key signed since.", height)
	case FarBehind:
		return fmt.Sprintf("The sign state is at height %d, and the chain has reached height %d.", height, l.Tip)
	case Off:
	}
	return ""
}
