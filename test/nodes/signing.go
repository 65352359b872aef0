package nodes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/server"
	"github.com/sei-operator/sei-operator/internal/sidecar/signer"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
	"github.com/sei-operator/sei-operator/internal/signing"
)

// chain is the one that all nodes of a fleet follow. A validator signs a block each time
// somebody looks at it: so there is no timer, and whoever looks often meets a validator
// that signs often.
type chain struct {
	mu     sync.Mutex
	height int64
	// signed is the highest block that each key signed.
	signed map[string]int64
	// still: blocks come from the nodes of this fleet only.
	still bool
}

func newChain() *chain { return &chain{height: 1000, signed: map[string]int64{}} }

func (c *chain) tip() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.height
}

// sign makes the next block, which the key signs.
func (c *chain) sign(key string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.height++
	c.signed[key] = c.height
	return c.height
}

// guarded is seid's own guard: it tells whether a seid with this key may join, which it
// may not with signatures of the key in the last blocks. That many come while it starts,
// unless the chain stands still.
func (c *chain) guarded(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.still {
		c.height += signing.Window + 1
	}
	return c.signed[key] == 0 || c.signed[key] <= c.height-signing.Window
}

// signsAgain is the highest block that the key signed, if a sign state at this height
// does not know of it; 0: it does.
func (c *chain) signsAgain(key string, height int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if height >= c.signed[key] {
		return 0
	}
	return c.signed[key]
}

// StandStill lets no more blocks come, but those that nodes of this fleet sign. Then
// seid's guard finds what the key signed last for as long as it looks.
func (f *Fleet) StandStill() {
	f.chain.mu.Lock()
	defer f.chain.mu.Unlock()
	f.chain.still = true
}

// SeidStart is a seid that was started with a signing key.
type SeidStart struct {
	PublicKey string
	// SignHeight is that of the sign state, and Guard why seid looked for its own
	// signatures first; empty: it did not.
	SignHeight int64
	Guard      signing.Reason
}

// newSigner is that of the real sidecar. It asks no witnesses, because it does not know
// of which chain.
func (s *sidecar) newSigner() *signer.Signer {
	return signer.New(signer.Options{Home: seid.Home(s.volume.dir), Consent: s.consent, Mounted: s.life.signingFile()})
}

// signingFile is where the operator's knowledge is mounted.
func (l *life) signingFile() string {
	return l.volume.dir + "-" + string(l.pod.uid) + "-" + signing.File
}

// deliver is the kubelet: it puts what the operator knows of the key into the pod.
func (l *life) deliver(ctx context.Context) error {
	content, err := l.node.fleet.read(ctx, l.node.key.Namespace, l.pod.signing)
	if err != nil || content == nil {
		return err
	}
	return os.WriteFile(l.signingFile(), content, 0o600)
}

// Deliver brings what is mounted from the ConfigMap of the configuration up to date, as
// far as it is about the signing key. The kubelet does it some time later, and here only
// now.
func (n *Node) Deliver() {
	l, _ := n.current()
	if l == nil {
		n.fleet.t.Errorf("%s has no pod into which anything could be mounted", n.key)
		return
	}
	if err := l.deliver(l.ctx); err != nil {
		n.fleet.t.Errorf("mounting what is known of the key of %s: %v", n.key, err)
	}
	n.change(func() {})
}

// joins tells whether a seid with this key joins the consensus, and why it looked for
// its own signatures first.
func (p *process) joins(approved supervisor.Approval) bool {
	chain, height := p.sidecar.node.fleet.chain, p.sidecar.signer.Height()
	if approved.PublicKey == "" {
		return true
	}
	guard := approved.Signing.Guard(height)
	joins := guard == signing.Off || chain.guarded(approved.PublicKey)
	if again := chain.signsAgain(approved.PublicKey, height); guard == signing.Off && again > 0 && !approved.Signing.Accepts(height) {
		// What no operator may ever bring about, whatever the test is about.
		p.sidecar.node.fleet.t.Errorf("%s signs height %d again with the key %s: its sign state is at height %d, and there is no guard",
			p.sidecar.node.key, again, approved.PublicKey, height)
	}
	if joins || !p.refused {
		p.sidecar.node.started(SeidStart{PublicKey: approved.PublicKey, SignHeight: height, Guard: guard})
	}
	return joins
}

// signs has seid sign a block, if it runs and signs at all.
func (p *process) signs(seen api.Seid) {
	state := p.sidecar.consent.State()
	if p.pid == 0 || seen.State != api.SeidRunning || !state.Approved || state.Approval.PublicKey == "" {
		return
	}
	p.sidecar.volume.sign(p.sidecar.node.fleet.chain.sign(state.Approval.PublicKey), p.sidecar.node.fleet.t.Errorf)
	p.note()
}

// tellSigned is what the real sidecar tells of it. That the guard goes on or off is an
// event here; the real one has another to tell at about that time.
func (p *process) tellSigned(view *server.Node) {
	height := p.sidecar.signer.Height()
	reason, why := p.sidecar.signer.Guard(p.sidecar.consent.State(), height)
	if reason != p.guard {
		p.guard = reason
		p.sidecar.node.change(func() {})
	}
	view.SignHeight, view.SignGuard = &height, api.SignGuard{Decided: true, Reason: string(reason), Message: why}
	if view.Seid.RPC {
		view.Height = p.sidecar.node.fleet.chain.tip()
	}
}

// note writes down what was signed, as the real sidecar does.
func (p *process) note() {
	p.sidecar.signer.Note(supervisor.State{Identity: p.sidecar.identity(), SignHeight: p.sidecar.signer.Height(), PID: p.pid})
}

// sign writes the sign state.
func (v *volume) sign(height int64, failed func(string, ...any)) {
	file := seid.Home(v.dir).SignState()
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file, []byte(`{"height":"`+strconv.FormatInt(height, 10)+`","round":0,"step":3}`), 0o600)
	}
	if err != nil {
		failed("writing a sign state: %v", err)
	}
}

// Sign has somebody look at the node so often that it signs so many blocks, if it signs
// at all, and tells the operator.
func (n *Node) Sign(blocks int) {
	l, _ := n.current()
	if l == nil {
		n.fleet.t.Errorf("%s has no pod that could sign", n.key)
		return
	}
	l.with(func(s *sidecar) {
		for range blocks {
			if s != nil {
				s.seid.Node()
			}
		}
	})
	n.change(func() {})
}

func (n *Node) started(start SeidStart) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.starts = append(n.starts, start)
}

// Starts are all seids that were started with a signing key. One that the guard ends
// again and again is there once.
func (n *Node) Starts() []SeidStart {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.starts)
}

// SignHeight is that of the sign state on the volume of the node's last pod.
func (n *Node) SignHeight() int64 {
	_, v := n.current()
	if v == nil {
		return 0
	}
	state, err := seid.ReadSignState(seid.Home(v.dir).SignState())
	if err != nil {
		return 0
	}
	return state.Height
}

// Snapshot keeps what is on the volume of the node: sign state, approval and hold. The
// volume can be put back to it later; a pod that runs then has its sidecar restarted.
func (n *Node) Snapshot() (restore func()) {
	l, v := n.current()
	if v == nil {
		n.fleet.t.Errorf("%s has no volume yet that could be kept", n.key)
		return func() {}
	}
	kept := filepath.Join(n.fleet.dir, fmt.Sprintf("snapshot-%s-%d", v.claim, n.SignHeight()))
	replace := func(from, to string) {
		if err := os.RemoveAll(to); err != nil {
			n.fleet.t.Errorf("putting the volume of %s back: %v", n.key, err)
		}
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			n.fleet.t.Errorf("copying the volume of %s: %v", n.key, err)
		}
	}
	keep := func(*sidecar) { replace(v.dir, kept) }
	if l == nil {
		keep(nil)
	} else {
		l.with(keep)
	}
	return func() {
		back := func() { replace(kept, v.dir) }
		if l, _ := n.current(); l != nil {
			l.restart(back)
			return
		}
		back()
	}
}
