package consent

import "fmt"

// inherit takes over what is known of the key from the approval before, if there is
// one. A sign state that was written by another node, or under another key, does not
// say what this key signed: it is doubted until it has grown under this approval.
func (a *Approval) inherit(old *Approval, signed int64) {
	if a.PublicKey == "" {
		return
	}
	if old != nil && old.PublicKey == a.PublicKey {
		a.Signed = old.Signed
	}
	if old != nil && old.PublicKey == a.PublicKey && old.NodeUID == a.NodeUID {
		a.Doubted = old.Doubted
		return
	}
	a.Doubted = signed
}

// Signed keeps that the key signed this height, if that is more than was known. It is
// durable when it returns.
func (c *Consent) Signed(publicKey string, height int64) error {
	return c.changeApproval(publicKey, func(a *Approval) { a.Signed = max(a.Signed, height) })
}

// SignStateAccepted keeps that a person accepted the sign state at this height: the key
// signed nothing above it that matters. Nothing else lowers what is known.
func (c *Consent) SignStateAccepted(publicKey string, height int64) error {
	return c.changeApproval(publicKey, func(a *Approval) { a.Signed, a.Doubted = height, 0 })
}

// changeApproval changes what the approval of this node says of this key. It changes
// nobody's right to run, so nobody is told.
func (c *Consent) changeApproval(publicKey string, change func(*Approval)) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	if c.approval == nil || publicKey == "" || c.approval.PublicKey != publicKey || c.approval.NodeUID != c.nodeUID {
		return nil
	}
	next := *c.approval
	change(&next)
	if next == *c.approval {
		return nil
	}
	if err := write(c.dir, approvalFile, next); err != nil {
		return fmt.Errorf("what the signing key signed cannot be made durable: %w", err)
	}
	c.set(func() { c.approval = &next })
	return nil
}
