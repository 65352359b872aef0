// Package consent decides whether seid may run: exactly when the node is approved
// and not held.
//
// Both are small files of their own on the data volume, durable before they are
// acknowledged, so that a node needs nobody to start again after its pod moved, and
// a torn task store neither stops a validator nor frees a held one. In doubt a node
// is not approved, and it is held.
package consent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// ErrHeldLater is the answer to a release that is older than a hold.
var ErrHeldLater = errors.New("the node was held again after this release was asked for, and stays held; release it again if that is wanted")

// ErrHoldUnreadable is the answer to a release of one hold, on a node whose hold cannot be
// read.
var ErrHoldUnreadable = errors.New("the hold of the node cannot be read, so its owner is unknown, and the node stays held; to release it all the same, name no hold")

// ErrHeld is the answer to an approval of a held node: only a release ends a hold.
var ErrHeld = errors.New("the node is held; release the hold first")

// Reasons of problems.
const (
	ReasonApprovalUnreadable = "ApprovalUnreadable"
	ReasonApprovalOfAnother  = api.ProblemApprovalOfAnother
	ReasonHoldUnreadable     = "HoldUnreadable"
)

// The files, in the directory of the sidecar.
const (
	approvalFile = "approval.json"
	holdFile     = "hold.json"
)

// Approval says which node may run on this volume, and with which keys. Whoever
// starts seid compares it with the keys it sees.
type Approval struct {
	NodeUID    string    `json:"nodeUid"`
	PublicKey  string    `json:"publicKey"` // empty where the node does not sign
	NodeID     string    `json:"nodeId"`
	ApprovedAt time.Time `json:"approvedAt"`

	// Signed is the highest height that the key is known to have signed: by the sign
	// state, by what the operator knows, or by proof.
	Signed int64 `json:"signed,omitempty"`
	// Doubted is the height of the sign state when the volume came to this node or to
	// this key; 0: it was theirs before, or knew of no signature.
	Doubted int64 `json:"doubted,omitempty"`
}

func (a Approval) validate() error {
	if a.NodeUID == "" || a.NodeID == "" {
		return errors.New("an approval names the uid of a node and its node id")
	}
	return nil
}

// Hold says since when and why the node must not run.
type Hold struct {
	Since  time.Time `json:"since"`
	TaskID string    `json:"taskId"`
	Reason string    `json:"reason"`
	// Sequence is the place of the latest hold among all that was asked of this node,
	// and LatestTaskID who asked. A release that came before does not end it. No clock
	// decides that: one that was wrong for an hour would keep a node from being
	// released, or release a node that was held anew. It is 0 in a file of a sidecar
	// that went by the clock.
	Sequence     uint64 `json:"sequence,omitempty"`
	LatestTaskID string `json:"latestTaskId,omitempty"`
}

// latest is who held the node last. A file of a sidecar that went by the clock names the
// first who did.
func (h Hold) latest() string { return cmp.Or(h.LatestTaskID, h.TaskID) }

func (h Hold) validate() error {
	if h.Since.IsZero() {
		return errors.New("a hold names the time it was placed")
	}
	return nil
}

// Problem is something a person should know of.
type Problem struct {
	Reason, Message string
}

// State is what the files say.
type State struct {
	// Approved: there is an approval, and it is for this node.
	Approved bool
	// Approval is what was found, also where it is for another node.
	Approval *Approval
	Held     bool
	// Hold is nil on a held node whose hold cannot be read.
	Hold     *Hold
	Problems []Problem

	// ApprovalDoubtful: there may be an approval, and it cannot be read.
	ApprovalDoubtful bool
}

// Wanted tells whether seid is to run.
func (s State) Wanted() bool { return s.Approved && !s.Held }

// Forbidden tells whether seid must certainly not run. It is not the opposite of
// Wanted: where a file cannot be read nothing is started, and a validator that runs
// is not stopped for it either.
func (s State) Forbidden() bool {
	if s.Held {
		return s.Hold != nil
	}
	return !s.Approved && !s.ApprovalDoubtful
}

// Consent is approval and hold of one node. It is safe for concurrent use.
type Consent struct {
	nodeUID string
	clock   clock.PassiveClock
	dir     directory

	// starting holds one value while seid is being started. It is no lock: a
	// start takes minutes on a bad day, and the clock of a test stands still while
	// somebody waits for a lock.
	starting chan struct{}

	// changing is held from the decision to change something until that is durable. Only its
	// holder sets what mu guards.
	changing sync.Mutex
	// mu is never held during a write: a status request would wait for it, and a slow disk
	// would make the node look silent.
	mu          sync.Mutex
	approval    *Approval
	hold        *Hold
	held        bool
	approvalErr error
	holdErr     error
	changed     chan struct{}
}

// Open reads approval and hold of the node with this uid. What cannot be read is a
// problem in the state, not an error.
func Open(dir, nodeUID string, c clock.PassiveClock) (*Consent, error) {
	if nodeUID == "" {
		return nil, errors.New("the uid of the node is not known; it is needed to tell whose approval is on the volume")
	}
	if c == nil {
		c = clock.RealClock{}
	}
	o := &Consent{nodeUID: nodeUID, clock: c, dir: directory{path: dir}, starting: make(chan struct{}, 1), changed: make(chan struct{})}
	// The hold first: nothing may be decided before it is known.
	o.readHold()
	o.readApproval()
	return o, nil
}

// set changes what is known. The caller holds the lock of changes.
func (c *Consent) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *Consent) readApproval() {
	approval, err := read[Approval](c.dir, approvalFile)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.approval, c.approvalErr = nil, nil
	switch {
	case err == nil:
		c.approval = &approval
	case !errors.Is(err, fs.ErrNotExist):
		c.approvalErr = err
	}
}

// Reread reads again what could not be read. A disk that did not answer once may
// answer now.
func (c *Consent) Reread() {
	if c.readable() {
		return
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	if c.holdErr != nil {
		c.readHold()
	}
	if c.approvalErr != nil {
		c.readApproval()
	}
	if c.holdErr == nil || c.approvalErr == nil {
		c.set(c.notify)
	}
}

// readable tells whether both files could be read.
func (c *Consent) readable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holdErr == nil && c.approvalErr == nil
}

// Starting calls start if seid is to run, and lets nobody believe meanwhile that it
// does not: see Settled.
func (c *Consent) Starting(start func(State) error) error {
	c.starting <- struct{}{}
	defer func() { <-c.starting }()
	state := c.State()
	if !state.Wanted() {
		return nil
	}
	return start(state)
}

// Settled returns when no start is under way. On a held node none begins after
// that: who wants to prove that seid does not run has to call it before looking.
func (c *Consent) Settled() {
	c.starting <- struct{}{}
	<-c.starting
}

// readHold takes the hold from the disk. Only a file that is certainly not there is
// no hold.
func (c *Consent) readHold() {
	hold, err := read[Hold](c.dir, holdFile)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold, c.holdErr = nil, nil
	c.held = !errors.Is(err, fs.ErrNotExist)
	switch {
	case err == nil:
		c.hold = &hold
	case c.held:
		c.holdErr = err
	}
}

// State returns what is known now.
func (c *Consent) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := State{Held: c.held, ApprovalDoubtful: c.approvalErr != nil}
	if c.approval != nil {
		s.Approval = new(*c.approval)
		s.Approved = c.approval.NodeUID == c.nodeUID
		if !s.Approved {
			s.Problems = append(s.Problems, Problem{ReasonApprovalOfAnother, fmt.Sprintf(
				"the approval on the volume is for the node with uid %s, this is %s; approve this node if it is to run on this volume", c.approval.NodeUID, c.nodeUID)})
		}
	}
	if c.approvalErr != nil {
		s.Problems = append(s.Problems, Problem{ReasonApprovalUnreadable, fmt.Sprintf(
			"the approval on the volume cannot be read, so the node does not run; approve it again: %v", c.approvalErr)})
	}
	if c.hold != nil {
		s.Hold = new(*c.hold)
	}
	if c.holdErr != nil {
		s.Problems = append(s.Problems, Problem{ReasonHoldUnreadable, fmt.Sprintf(
			"there is a hold on the volume that cannot be read, so the node stays held; release it if it may run: %v", c.holdErr)})
	}
	return s
}

// Wanted tells whether seid is to run.
func (c *Consent) Wanted() bool { return c.State().Wanted() }

// Changed returns a channel that is closed at the next change. Take it before
// reading the state, and no change is missed.
func (c *Consent) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Approve lets this node run, with these keys. signed is the height of the sign state
// on the volume. It fails with ErrHeld on a held node.
func (c *Consent) Approve(publicKey, nodeID string, signed int64) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	if c.held {
		return ErrHeld
	}
	next := Approval{NodeUID: c.nodeUID, PublicKey: publicKey, NodeID: nodeID, ApprovedAt: c.now()}
	if err := next.validate(); err != nil {
		return err
	}
	if old := c.approval; old != nil && old.NodeUID == next.NodeUID && old.PublicKey == publicKey && old.NodeID == nodeID {
		next.ApprovedAt = old.ApprovedAt
	}
	next.inherit(c.approval, signed)
	// Written also where it is known: another approval that failed half way may be in
	// its place.
	if err := write(c.dir, approvalFile, next); err != nil {
		return fmt.Errorf("the approval cannot be made durable; try again: %w", err)
	}
	if changed := !same(c.approval, &next); changed {
		c.set(func() {
			c.approval, c.approvalErr = &next, nil
			c.notify()
		})
	}
	return nil
}

// Sequence is the place of the hold in the order of what was asked of this node; 0 for
// none. Whoever gives out places goes on behind it, also when all else is forgotten:
// otherwise no release would ever come after this hold.
func (c *Consent) Sequence() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hold == nil {
		return 0
	}
	return c.hold.Sequence
}

// Hold keeps the node from running until it is released. A node that is held
// already stays held for the reason it has. sequence is the place of this hold in the
// order of what was asked of the node.
func (c *Consent) Hold(taskID, reason string, sequence uint64) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	next := Hold{Since: c.now(), TaskID: taskID, Reason: reason, Sequence: sequence, LatestTaskID: taskID}
	if c.hold != nil {
		next = *c.hold
		if sequence >= next.Sequence {
			next.Sequence, next.LatestTaskID = sequence, taskID
		}
	}
	// Written also where it is known: a release that failed half way may have taken
	// the file away.
	if err := write(c.dir, holdFile, next); err != nil {
		// The new hold may be on the disk all the same, and then it counts. An old one
		// counts in any case.
		if !c.held {
			c.readHold()
			if c.held {
				c.set(c.notify)
			}
		}
		return fmt.Errorf("the hold cannot be made durable; try again: %w", err)
	}
	c.set(func() {
		changed := !c.held || c.holdErr != nil
		c.held, c.hold, c.holdErr = true, &next, nil
		if changed {
			c.notify()
		}
	})
	return nil
}

// Release is the wish to end a hold.
type Release struct {
	// Sequence is its place in the order of what was asked of the node.
	Sequence uint64
	// Resumed: an earlier sidecar took it. It may be older than a hold whose own place
	// is not known.
	Resumed bool
	// Of is the task whose hold is meant; one that somebody else asked for later stays.
	// Empty: whoever asked.
	Of string
}

// refusal is why this release does not end the hold; nil when it does. A nil hold is one
// that cannot be read. In doubt it belongs to another caller.
func (r Release) refusal(hold *Hold) error {
	ends := false
	switch {
	case r.Of != "" && hold == nil:
		return ErrHoldUnreadable
	case r.Of != "" && r.Of != hold.latest():
	case hold == nil || hold.Sequence == 0:
		ends = !r.Resumed
	default:
		ends = r.Sequence >= hold.Sequence
	}
	if !ends {
		return ErrHeldLater
	}
	return nil
}

// Release ends a hold, and nothing else does. The node runs again if it is approved.
func (c *Consent) Release(r Release) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	if c.held {
		if err := r.refusal(c.hold); err != nil {
			return err
		}
	}
	if err := c.dir.remove(holdFile); err != nil {
		// The file may be gone, and not for good. It is put back, so that what is said
		// here stays true for the next sidecar.
		if c.hold != nil {
			err = errors.Join(err, write(c.dir, holdFile, *c.hold))
		}
		return fmt.Errorf("the release cannot be made durable, so the node stays held: %w", err)
	}
	if c.held {
		c.set(func() {
			c.held, c.hold, c.holdErr = false, nil, nil
			c.notify()
		})
	}
	return nil
}

func (c *Consent) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Consent) now() time.Time { return c.clock.Now().UTC().Round(0) }

func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
