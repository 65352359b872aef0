package nodes

import (
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/node"
	"github.com/sei-operator/sei-operator/internal/sidecar/server"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
	"github.com/sei-operator/sei-operator/internal/signing"
)

// process is the seid that would run in the pod, its parent, and who drives both: it
// runs exactly when the node is approved and not held.
type process struct {
	sidecar *sidecar

	mu       sync.Mutex
	pid      int
	started  int
	instance string
	since    time.Time
	lastExit api.Exit
	// parked: the keys are not those that were approved.
	parked bool
	// refused: seid's own guard ended it, because it found signatures of its key.
	refused bool
	// guard is what was last told of it.
	guard signing.Reason
	// trouble is why seid was not started, unconfigured why the mounted document is not
	// applied.
	trouble, unconfigured error
}

func newProcess(s *sidecar) *process { return &process{sidecar: s, since: time.Now()} }

// settle makes seid run exactly when it may. Whoever looks at the process or has
// changed what it depends on calls it, so nobody ever sees it otherwise.
func (p *process) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drive()
}

// drive does it; the caller holds the lock.
func (p *process) drive() {
	state := p.sidecar.consent.State()
	switch {
	case state.Wanted() && p.pid == 0:
		p.sidecar.signer.Prepare(p.sidecar.life.ctx, state)
		p.start(p.sidecar.signer.Approval(p.sidecar.consent.State()))
	case !state.Wanted():
		p.parked, p.refused, p.trouble = false, false, nil
		p.stop()
	}
}

func (p *process) start(approved supervisor.Approval) {
	p.unconfigured = p.sidecar.applyMounted()
	if p.unconfigured != nil && p.sidecar.volume.applied().Serial == 0 {
		p.trouble = p.unconfigured
		return
	}
	p.trouble = nil
	found := p.sidecar.identity()
	// A node that was approved without a signing key does not sign.
	if p.parked = approved.NodeID != found.NodeID || approved.PublicKey != "" && approved.PublicKey != found.PublicKey; p.parked {
		return
	}
	if !p.joins(approved) {
		p.refuse()
		return
	}
	p.refused = false
	p.started++
	p.pid, p.instance, p.since = 100+p.started, uuid.NewString(), time.Now()
	p.sidecar.volume.setData(true)
	p.sidecar.node.fleet.signs(p, found.PublicKey)
}

// refuse is the end of a seid by its own guard. It is tried again and again; that is told
// once, because each end would wake those who follow the node.
func (p *process) refuse() {
	if p.refused {
		return
	}
	p.refused, p.since = true, time.Now()
	p.lastExit = api.Exit{Code: 1, Time: p.since, Cause: string(supervisor.SignedElsewhere), Message: "found signature from the same key"}
}

// stop ends a seid, and what it signed is written down.
func (p *process) stop() {
	if p.pid != 0 {
		p.exit(string(supervisor.Requested))
		p.note()
	}
}

func (p *process) exit(cause string) {
	if p.pid == 0 {
		return
	}
	p.pid, p.since = 0, time.Now()
	p.sidecar.node.fleet.signsNoMore(p)
	p.lastExit = api.Exit{Time: p.since, Cause: cause}
}

// end is that of the pod. It is sudden: nothing is written down any more.
func (p *process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exit(string(supervisor.Requested))
}

// restart replaces seid by a new one, and tells of both.
func (p *process) restart() (before, after string, pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before = p.instance
	p.stop()
	p.drive()
	return before, p.instance, p.pid
}

// Changed returns a channel that is closed at the next change that no approval and no
// hold explains.
func (p *process) Changed() <-chan struct{} { return p.sidecar.node.changes() }

// Node tells all that is known, for the API.
func (p *process) Node() server.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drive()
	found := p.sidecar.identity()
	view := server.Node{
		Seid: p.seid(), Config: p.sidecar.volume.applied(),
		NodeID: found.NodeID, SigningPublicKey: found.PublicKey,
		FreeBytes: 900 << 30, TotalBytes: 1000 << 30,
	}
	if found.NodeID == "" {
		view.NodeIDProblem = "the mounted node key cannot be read"
	}
	if p.trouble != nil {
		view.Problems = append(view.Problems, api.Problem{Reason: node.ReasonNotAsWanted, Message: p.trouble.Error()})
	}
	if p.unconfigured != nil {
		view.Problems = append(view.Problems, api.Problem{Reason: node.ReasonConfigNotApplied, Message: p.unconfigured.Error()})
	}
	p.sidecar.node.script(&view, p.sidecar.life.pod.seidImage)
	p.signs(view.Seid)
	p.tellSigned(&view)
	return view
}

func (p *process) seid() api.Seid {
	seen := api.Seid{State: api.SeidWaiting, SafeToStop: true, Since: p.since, LastExit: p.lastExit, Instance: p.instance}
	switch {
	case p.pid != 0:
		seen.State, seen.Pid = api.SeidRunning, p.pid
		seen.RPC = p.sidecar.volume.mode() != seid.ModeSeed
		if seen.Progress = api.ProgressNone; seen.RPC {
			seen.Progress = api.ProgressExecuted
		}
	case p.refused:
		seen.State = api.SeidStopped
	case p.parked:
		seen.State, seen.ParkedBecause = api.SeidParked, string(supervisor.ParkedKeys)
		seen.Message = "the keys are not those that were approved"
	}
	return seen
}

// identity is who the key files say the node is.
func (s *sidecar) identity() supervisor.Identity {
	mounted := s.life.mounted
	found := supervisor.Identity{PublicKey: mounted.signingKey, NodeID: mounted.nodeID}
	if mounted.ownNodeID {
		found.NodeID = s.volume.nodeID()
	}
	if mounted.ownSigning && (s.life.pod.validator || s.volume.mode() == seid.ModeValidator) {
		found.PublicKey = s.volume.publicKey()
	}
	if key := s.node.keyIdentity(); key != "" {
		found.PublicKey = key
	}
	return found
}

// applyMounted applies the mounted document if it is newer than what is applied.
func (s *sidecar) applyMounted() error {
	content := s.life.mounted.document
	switch {
	case s.life.pod.document == nil || content == nil && s.volume.applied().Serial > 0:
		return nil
	case content == nil:
		return errors.New("the node was never configured, and its configuration is not mounted")
	}
	document, err := seid.ParseIntent(content)
	if err != nil || document.Serial <= s.volume.applied().Serial {
		return err
	}
	_, err = s.volume.apply(document)
	return err
}
