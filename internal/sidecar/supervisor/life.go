package supervisor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/sei-operator/sei-operator/internal/seid"
)

// The codes a shell would end with.
const (
	codeNotRunnable = 126
	codeNotFound    = 127
)

// begin starts a seid, if the keys are the approved ones. The lock is held, and
// no seid lives.
func (s *Supervisor) begin(ctx context.Context, approved Approval) *Error {
	s.look()
	set := readSettings(s.home, s.cfg.Command, s.cfg.Env)
	if lack := unnamed(approved, s.state.Identity, set.validator); lack != "" {
		s.park(ParkedKeys, "The approval names no signing key: "+lack+".")
		return refuse(ReasonKeys, "seid was not started, because the approval names no signing key: %s", lack)
	}
	if difference := mismatch(approved, s.state.Identity); difference != "" {
		s.park(ParkedKeys, "The keys are not the approved ones: "+difference+".")
		return refuse(ReasonKeys, "seid was not started: %s", difference)
	}
	args := arguments(s.cfg.Command, approved, set.validator, s.state.SignHeight, s.cfg.DoubleSignCheckHeight)
	s.reaper.mu.Lock()
	c, err := launch(s.cfg, args, s.noticed)
	if err == nil {
		s.reaper.ours = c.process.PID()
	}
	s.reaper.mu.Unlock()
	if err != nil {
		return s.notStarted(err)
	}
	c.seed = set.seed
	s.child = c
	s.unpark()
	s.state.Instance, s.state.PID = c.instance, c.process.PID()
	s.state.Upgrade = nil
	s.state.SafeToStop, s.state.UnsafeBecause = false, Booting
	c.settings, c.ctx = set, context.WithoutCancel(ctx)
	boot := s.observation(c, set)
	if danger := SafeToStop(boot.Observation, s.cfg.Timing); danger != "" {
		s.state.UnsafeBecause = danger
	}
	s.enter(Starting)
	s.work.Go(func() { s.attend(context.WithoutCancel(ctx), c) })
	s.work.Go(func() { s.observe(context.WithoutCancel(ctx), c, boot) })
	return nil
}

// notStarted ends the supervisor as a shell would: a program that is not there
// will not appear in this container. The lock is held.
func (s *Supervisor) notStarted(err error) *Error {
	code := codeNotRunnable
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = codeNotFound
	}
	s.failure = err
	s.unpark()
	s.state.Instance = newInstance()
	s.exited(Exit{Instance: s.state.Instance, Code: code, Cause: Crashed}, nil)
	s.enter(Stopped)
	s.finish(code)
	return &Error{Reason: ReasonStartFailed, Message: err.Error(), cause: err}
}

func (s *Supervisor) park(because Parking, message string) {
	s.state.ParkedBecause, s.state.Message = because, message
	s.enter(Parked)
}

func (s *Supervisor) unpark() {
	s.state.ParkedBecause, s.state.Message = "", ""
}

// attend waits for a seid's end and acts on it.
func (s *Supervisor) attend(ctx context.Context, c *child) {
	code, signal := c.process.Wait()
	s.reaper.release()
	c.process.Drain(s.cfg.Clock.After(s.cfg.Timing.Flush))
	proof := c.evidence(s.home)

	s.mu.Lock()
	defer s.mu.Unlock()
	exit := Exit{Instance: c.instance, Code: code, Signal: signal, How: c.how}
	proof.code, proof.asked = code, c.asked
	exit.Cause = causeOf(proof)
	if proof.fatal != nil && exit.Cause == fatals[proof.fatal.Reason] {
		exit.Message, exit.UpgradeName = proof.fatal.Text, proof.fatal.Upgrade
	}
	if c.how == Clean && signal != "" {
		exit.How = Unsafe // It was thought to be safe, and seid did not handle it.
	}
	if exit.Cause == UpgradeNeeded {
		exit.UpgradeName = proof.upgrade.Name
	} else {
		proof.upgrade = nil
	}
	s.child = nil
	s.exited(exit, proof.upgrade)
	s.settle(ctx, c, exit)
	close(c.ended)
}

// exited records an end, in the state and for the next supervisor. The lock is
// held.
func (s *Supervisor) exited(exit Exit, upgrade *Upgrade) {
	exit.Time = s.cfg.Clock.Now()
	s.state.PID, s.state.SafeToStop, s.state.UnsafeBecause = 0, true, ""
	s.state.SnapshotSearch, s.state.RestoreAbandoned = nil, false
	s.state.LastExit, s.state.Upgrade = &exit, upgrade
	restarts := maps.Clone(s.state.Restarts)
	if restarts == nil {
		restarts = map[Cause]int{}
	}
	restarts[exit.Cause]++
	s.state.Restarts = restarts
	s.look()
	s.cfg.Log.Info("seid ended", "instance", exit.Instance, "code", exit.Code, "signal", exit.Signal, "cause", exit.Cause, "how", exit.How)
	left := record{LastExit: &exit, Upgrade: upgrade, Restarts: restarts}
	if err := left.keep(s.cfg.Socket); err != nil {
		s.cfg.Log.Warn("the next supervisor will not know how seid ended", "error", err)
	}
}

// settle decides what follows an end. The lock is held.
func (s *Supervisor) settle(ctx context.Context, c *child, exit Exit) {
	switch {
	case s.state.Terminating:
		s.enter(Stopped)
		s.finish(exit.Code)
	case parkings[exit.Cause] != "":
		message := parkedMessage(parkings[exit.Cause], exit.UpgradeName)
		s.park(parkings[exit.Cause], message)
		c.nextErr = refuse(ReasonParked, "seid ended while it was being stopped, and needs another binary: %s", message)
	case exit.Cause == Requested:
		s.enter(Stopped)
		if c.next != nil {
			c.nextErr = s.begin(ctx, *c.next)
		}
	default:
		s.enter(Stopped)
		s.finish(exit.Code)
	}
}

// beginStop signals a seid, unless that was done. next is the latest wish: under which
// approval to start again, if at all. The lock is held.
func (s *Supervisor) beginStop(c *child, asked Cause, how How, next *Approval) {
	if s.state.Terminating {
		next = nil
	}
	c.next = next
	if c.signalled {
		return
	}
	c.asked, c.how, c.signalled = asked, how, true
	s.enter(Stopping)
	c.process.Signal(unix.SIGTERM)
	if c.seed {
		s.work.Go(func() { s.insist(c) })
	}
}

// insist sends a seed the second signal that one version needs. It has no stores that
// it could tear.
func (s *Supervisor) insist(c *child) {
	select {
	case <-c.ended:
		return
	case <-s.cfg.Clock.After(s.cfg.Timing.Insist):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != c {
		return
	}
	if c.how == Clean {
		c.how = SecondSignal
	}
	c.process.Signal(unix.SIGTERM)
}

// noticed keeps what a seid said on its way.
func (s *Supervisor) noticed(c *child, notice seid.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != c {
		return
	}
	switch notice {
	case seid.NoSnapshot:
		s.searchesInVain(c)
		if s.state.SnapshotSearch == nil && !c.answered {
			s.state.SnapshotSearch, s.state.RestoreAbandoned = new(s.cfg.Clock.Now()), c.restored
			s.publish()
		}
	case seid.Snapshot, seid.Restoring:
		c.restored = c.restored || notice == seid.Restoring
		s.mayRestore(c)
		if s.state.SnapshotSearch != nil {
			s.state.SnapshotSearch, s.state.RestoreAbandoned = nil, false
			s.publish()
		}
	case seid.GoesDown, seid.ComesUp:
		s.observeAgain(c, notice == seid.GoesDown)
	}
}

// terminate ends the supervisor, and before it seid. It is what a signal from
// outside does; a second one changes nothing.
func (s *Supervisor) terminate(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Terminating {
		return
	}
	s.state.Terminating = true
	s.publish()
	c := s.child
	if c == nil {
		s.finish(0)
		return
	}
	c.next = nil
	s.work.Go(func() { s.endFromOutside(ctx, c) })
}

// endFromOutside holds a termination back until it is safe, or no longer: whoever
// asked has a deadline of its own. Then the end of seid is the end of the supervisor.
func (s *Supervisor) endFromOutside(ctx context.Context, c *child) {
	s.mu.Lock()
	defer s.mu.Unlock()
	safe, _ := s.awaitSafe(ctx, c, s.cfg.Timing.HoldBack)
	how := Clean
	if !safe {
		how = Unsafe
	}
	if s.child == c {
		s.beginStop(c, Terminated, how, nil)
	}
}
