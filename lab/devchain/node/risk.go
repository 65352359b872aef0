package node

import "strings"

// foundSignature is what the engine says when "double-sign-check-height" found that the key
// has signed one of the last blocks.
const foundSignature = "found signature from the same key"

// signedBefore is called when the engine has said so, before it does anything about it. After
// block sync that is a panic with the whole state in its text; seid's is short.
func (n *node) signedBefore([]any) {
	if n.started.Load() {
		n.refuseToSign()
	}
}

// orSignedBefore is for an engine that has nothing to sync, whose start fails instead. seid
// starts consensus beside the rest, so RPC is open when it ends.
func (n *node) orSignedBefore(err error) error {
	if !strings.Contains(err.Error(), foundSignature) {
		return err
	}
	if err := n.front.listen(n.settings.rpc); err != nil {
		return err
	}
	n.refuseToSign()
	return nil
}

// refuseToSign ends the process, and does not return.
func (n *node) refuseToSign() {
	go func() {
		panic("critical task failed: name=state.Run, service=Consensus: " + foundSignature)
	}()
	select {}
}
