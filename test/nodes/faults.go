package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/server"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// Wedge makes the sidecar accept connections and answer nothing, also on connections
// and streams that are open. What it was asked meanwhile it does afterwards.
func (n *Node) Wedge() (unwedge func()) {
	n.change(func() {
		if n.wedges++; n.wedges == 1 {
			n.unwedged = make(chan struct{})
		}
	})
	return sync.OnceFunc(func() {
		n.change(func() {
			if n.wedges--; n.wedges == 0 {
				close(n.unwedged)
				n.unwedged = nil
			}
		})
	})
}

func (n *Node) gate() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unwedged
}

// BlackHole ends all connections and takes no new ones; the sidecar goes on.
func (n *Node) BlackHole() (undo func()) {
	n.dig(1)
	return sync.OnceFunc(func() { n.dig(-1) })
}

func (n *Node) dig(holes int) {
	n.change(func() { n.holes += holes })
	if l, _ := n.current(); l != nil {
		l.relisten()
	}
}

func (n *Node) isBlackHole() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.holes > 0
}

// Refuse answers every request with this status and reason. Streams that are open
// stay open.
func (n *Node) Refuse(status int, reason string) (undo func()) {
	r := &refusal{status: status, reason: reason}
	n.change(func() { n.refusals = append(n.refusals, r) })
	return sync.OnceFunc(func() {
		n.change(func() { n.refusals = slices.DeleteFunc(n.refusals, func(other *refusal) bool { return other == r }) })
	})
}

func (n *Node) refusal() *refusal {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.refusals) == 0 {
		return nil
	}
	return n.refusals[len(n.refusals)-1]
}

// Unapprove tears the file with the approval, and restarts the sidecar, which finds it.
func (n *Node) Unapprove() {
	l, v := n.current()
	if v == nil {
		n.fleet.t.Errorf("%s has no volume yet from which an approval could be lost", n.key)
		return
	}
	tear := func() {
		if err := os.WriteFile(filepath.Join(v.dir, "approval.json"), []byte(`{"nodeUid":"`), 0o600); err != nil {
			n.fleet.t.Errorf("tearing the approval of %s: %v", n.key, err)
		}
	}
	if l == nil {
		tear()
		return
	}
	l.restart(tear)
}

// Hold holds the node, as somebody does whom the operator knows nothing of.
func (n *Node) Hold(reason string) {
	n.onConsent(func(c *consent.Consent, sequence uint64) error { return c.Hold("", reason, sequence) })
}

// Release ends a hold.
func (n *Node) Release() {
	n.onConsent(func(c *consent.Consent, sequence uint64) error { return c.Release(consent.Release{Sequence: sequence}) })
}

// onConsent acts on the consent of the sidecar that runs, or on the volume of the last.
func (n *Node) onConsent(act func(c *consent.Consent, sequence uint64) error) {
	l, v := n.current()
	if v == nil {
		n.fleet.t.Errorf("%s has no volume yet that could keep a hold", n.key)
		return
	}
	var err error
	onVolume := func(s *sidecar) {
		var c *consent.Consent
		if s != nil {
			c = s.consent
		} else if c, err = consent.Open(v.dir, "somebody", nil); err != nil {
			return
		}
		err = act(c, v.tasks.next())
	}
	if l == nil {
		onVolume(nil)
	} else {
		l.with(onVolume)
	}
	if err != nil {
		n.fleet.t.Errorf("changing the hold of %s: %v", n.key, err)
	}
}

// SetSeid changes what is told of the seid process, each time somebody looks; nil
// ends that.
func (n *Node) SetSeid(change func(*api.Seid)) { n.change(func() { n.seid = change }) }

// SetUpgrade changes what is told of an upgrade of the chain. A seid that halted for
// one is parked, until the pod runs another image.
func (n *Node) SetUpgrade(upgrade api.Upgrade) {
	n.change(func() {
		n.upgrade, n.haltImage = upgrade, ""
		if n.life != nil {
			n.haltImage = n.life.pod.seidImage
		}
	})
}

// KeyIdentity is the public half of the signing key that seid sees, whatever is
// mounted; empty: what is mounted.
func (n *Node) KeyIdentity(publicKey string) { n.change(func() { n.publicKey = publicKey }) }

func (n *Node) keyIdentity() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.publicKey
}

// script changes what is told of a node whose pod runs this image.
func (n *Node) script(view *server.Node, image string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.upgrade.Halted && n.haltImage != "" && n.haltImage != image {
		n.upgrade = api.Upgrade{}
	}
	view.Upgrade = n.upgrade
	if n.upgrade.Halted && view.Seid.State == api.SeidRunning {
		view.Seid.State, view.Seid.Pid, view.Seid.RPC = api.SeidParked, 0, false
		view.Seid.ParkedBecause = string(supervisor.ParkedUpgrade)
		view.Seid.Message = fmt.Sprintf("the upgrade %q is needed at height %d", n.upgrade.Name, n.upgrade.Height)
	}
	if n.seid != nil {
		n.seid(&view.Seid)
	}
}
