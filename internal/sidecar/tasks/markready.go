package tasks

import (
	"context"
	"errors"
	"fmt"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// MarkReady lets the node run with these keys. An empty public key is for a node
// that does not sign, or for a validator with whichever key is on its volume; an
// empty node id for whichever node this is. What is approved is what was seen.
type MarkReady struct {
	PublicKey string `json:"publicKey,omitempty"`
	NodeID    string `json:"nodeId,omitempty"`
}

// Validate refuses what is no key.
func (p *MarkReady) Validate() error {
	return errors.Join(checkPublicKey(p.PublicKey), checkNodeID(p.NodeID))
}

// MarkReadyResult is what was approved.
type MarkReadyResult struct {
	Changed   bool   `json:"changed"`
	PublicKey string `json:"publicKey"`
	NodeID    string `json:"nodeId"`
}

// markReady approves what seid's parent sees, not what somebody believes to be
// there: the signing key is mounted only where seid runs.
func (t *tasks) markReady(ctx context.Context, _ engine.Execution, p MarkReady) (any, error) {
	seen, err := t.expected(ctx, p)
	if err != nil {
		return nil, err
	}
	// A validator never runs without an approved key: it would sign with whatever is
	// mounted next time.
	mode, err := t.configuredMode()
	if err != nil {
		return nil, configFailure(err)
	}
	if mode == "validator" && p.PublicKey == "" {
		if p.PublicKey = seen.PublicKey; p.PublicKey == "" {
			return nil, engine.Terminal(ReasonKeyIdentityChanged, "the node was not approved: it is a validator, and seid has no signing key that can be read; without one it would make a new key")
		}
	}
	before := t.Consent.State()
	signed, err := t.signed(before, p.PublicKey)
	if err != nil {
		return nil, err
	}
	err = t.do("approval", func() error { return t.Consent.Approve(p.PublicKey, seen.NodeID, signed) })
	switch {
	case errors.Is(err, consent.ErrHeld):
		return nil, held()
	case err != nil:
		return nil, volumeError(err)
	}
	same := before.Approved && before.Approval.PublicKey == p.PublicKey && before.Approval.NodeID == seen.NodeID
	return MarkReadyResult{Changed: !same, PublicKey: p.PublicKey, NodeID: seen.NodeID}, nil
}

// expected waits until the supervisor tells who the node is, and compares.
func (t *tasks) expected(ctx context.Context, p MarkReady) (seen supervisor.Identity, err error) {
	lack := obstacle{errNotAsked}
	err = t.await(ctx, func(state supervisor.State, err error) (bool, error) {
		if t.Consent.State().Held {
			return false, held()
		}
		if err != nil {
			lack.is(err)
			return false, nil
		}
		if err := expect(p, state.Identity); err != nil {
			return false, err
		}
		lack.is(errors.New("the supervisor sees no node key"))
		seen = state.Identity
		return seen.NodeID != "", nil
	})
	if ctx.Err() != nil && err != nil {
		return seen, fmt.Errorf("the node was not approved, because its identity is not known: %w (%w)", lack.err, err)
	}
	return seen, err
}

// signed is the height of the sign state. On a volume that comes to this node or to this
// key it has to be known: it is what the sign state has to pass.
func (t *tasks) signed(before consent.State, publicKey string) (int64, error) {
	state, err := seid.ReadSignState(t.Home.SignState())
	switch {
	case publicKey == "", errors.Is(err, seid.ErrSignStateMissing):
		return 0, nil
	case err == nil:
		return state.Height, nil
	case before.Approved && before.Approval.PublicKey == publicKey:
		return 0, nil // nothing changes hands
	}
	return 0, engine.Retryable(ReasonVolumeError, "the node was not approved, because nobody can tell what was signed on this volume: %w; put the file back", err)
}

// expect compares, and names public values only. A key that is expected and not
// there is another identity too: the files are in place before the supervisor is.
func expect(p MarkReady, found supervisor.Identity) error {
	for _, part := range []struct{ what, want, have string }{
		{"signing key", p.PublicKey, found.PublicKey},
		{"node id", p.NodeID, found.NodeID},
	} {
		if part.want == "" || part.want == part.have {
			continue
		}
		have := part.have
		if have == "" {
			have = "none"
		}
		return engine.Terminal(ReasonKeyIdentityChanged, "the node was not approved: the %s that is expected is %s, seid has %s; mount the right key, or accept this one", part.what, part.want, have)
	}
	return nil
}

func held() error {
	return engine.Terminal(ReasonHeld, "%w", consent.ErrHeld)
}
