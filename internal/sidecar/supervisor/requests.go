package supervisor

import (
	"context"
	"time"
)

// start makes seid run.
func (s *Supervisor) start(ctx context.Context, request StartRequest) (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.wishes.arrive(&request.Approval)
	defer s.wishes.answered(w)
	for s.child != nil && s.child.signalled && !s.state.Terminating {
		// It is on its way down. What is asked for is that it runs, so this waits
		// for its end.
		if err := s.ended(ctx, s.child); err != nil {
			return State{}, err
		}
	}
	switch {
	case ctx.Err() != nil:
		// Whoever left may tell others by now that seid does not run.
		return State{}, ctx.Err()
	case s.state.Terminating:
		return State{}, refuse(ReasonTerminating, "the supervisor is about to end, nothing is started any more")
	case s.wishes.overtaken(w):
		return State{}, superseded(w)
	case s.child != nil:
	case s.stoppedSince(request.AsOf):
		return State{}, superseded(w)
	case s.state.ParkedBecause.NeedsBinary() && !request.Parked:
		return State{}, refuse(ReasonParked, "seid needs another binary (%s): run that one, or restart seid explicitly", s.state.ParkedBecause)
	default:
		if err := s.begin(ctx, *s.wishes.latest(w).next); err != nil {
			return State{}, err
		}
	}
	w.granted = true
	return s.state.clone(), nil
}

// stoppedSince tells whether a stop was granted that the caller did not know of. The
// lock is held.
func (s *Supervisor) stoppedSince(asOf *int) bool {
	return asOf != nil && *asOf != s.state.Stops
}

// stop makes seid not run.
func (s *Supervisor) stop(ctx context.Context, request StopRequest) (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.wishes.arrive(nil)
	defer s.wishes.answered(w)
	c, err := s.signalled(ctx, request, w)
	switch {
	case err != nil:
		return State{}, err
	case c != nil:
		if err := s.ended(ctx, c); err != nil {
			return State{}, err
		}
	case !s.means(request.Instance):
		// It happened before.
	case s.child != nil:
		return State{}, superseded(w)
	default:
		// One that does not run stays so, also when an earlier request is about to
		// start it.
		s.grant(w)
	}
	s.look()
	return s.state.clone(), nil
}

// grant notes that a wish is acted on. A start that was decided before a stop does not
// undo it, however late it arrives. The lock is held.
func (s *Supervisor) grant(w *wish) {
	w.granted = true
	if w.next == nil {
		s.state.Stops++
		s.publish()
	}
}

// restart makes another seid run.
func (s *Supervisor) restart(ctx context.Context, request RestartRequest) (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.wishes.arrive(&request.Approval)
	defer s.wishes.answered(w)
	if state, done, err := s.restartIdle(ctx, request, w); done {
		return state, err
	}
	c, err := s.signalled(ctx, request.StopRequest, w)
	if err != nil {
		return State{}, err
	}
	if c == nil {
		// It ended meanwhile. Where another one lives by now, that is the restart.
		if state, done, err := s.restartIdle(ctx, request, w); done {
			return state, err
		}
		return s.state.clone(), nil
	}
	if err := s.ended(ctx, c); err != nil {
		return State{}, err
	}
	switch {
	case c.nextErr != nil:
		return State{}, c.nextErr
	case s.state.Instance == c.instance && s.state.Terminating:
		return State{}, refuse(ReasonTerminating, "seid was stopped, and the supervisor is about to end")
	case s.state.Instance == c.instance:
		return State{}, superseded(w)
	default:
		return s.state.clone(), nil
	}
}

// restartIdle answers a restart where no seid is to be stopped: it already happened, or
// none lives. It never starts one. When the caller looked, one lived; if it has ended
// meanwhile, somebody may have been told that none runs. The lock is held.
func (s *Supervisor) restartIdle(ctx context.Context, request RestartRequest, w *wish) (State, bool, error) {
	switch {
	case ctx.Err() != nil:
		return State{}, true, ctx.Err()
	case s.state.Terminating:
		return State{}, true, refuse(ReasonTerminating, "the supervisor is about to end, nothing is started any more")
	case !s.means(request.Instance):
		return s.state.clone(), true, nil
	case s.wishes.overtaken(w) && s.child == nil, s.stoppedSince(request.AsOf):
		return State{}, true, superseded(w)
	case s.child == nil:
		return State{}, true, refuse(ReasonEnded, "no seid runs, so none was restarted")
	default:
		return State{}, false, nil
	}
}

// superseded refuses a request because of the opposite that came after it.
func superseded(w *wish) *Error {
	if w.next == nil {
		return refuse(ReasonSuperseded, "a later request asked that seid runs")
	}
	return refuse(ReasonSuperseded, "a later request asked that seid stays stopped")
}

// means tells whether a request for an instance is about the current one. A
// supervisor that has had none yet knows of no later one. The lock is held.
func (s *Supervisor) means(instance string) bool {
	return instance == "" || s.state.Instance == "" || instance == s.state.Instance
}

// signalled waits until it is safe to stop the seid that is meant and signals it.
// No child means that there is nothing to stop. The lock is held, though not while
// it waits.
func (s *Supervisor) signalled(ctx context.Context, request StopRequest, w *wish) (*child, error) {
	c := s.child
	if c == nil || !s.means(request.Instance) {
		return nil, nil
	}
	how := Clean
	if !c.signalled {
		safe, err := s.awaitSafe(ctx, c, time.Duration(request.SafeWait))
		switch {
		case err != nil:
			return nil, err
		case s.child != c:
			return nil, nil
		case s.wishes.overtaken(w):
			return nil, superseded(w)
		case !safe && !request.Force:
			return nil, refuse(ReasonNotSafe, "seid (instance %s) was not stopped: %s", c.instance, explain(s.state.UnsafeBecause))
		case !safe:
			how = Unsafe
		}
	}
	s.grant(w)
	s.beginStop(c, Requested, how, s.wishes.latest(w).next)
	return c, nil
}

func explain(danger Danger) string {
	switch danger {
	case StateSyncing:
		return "it is restoring a snapshot (" + string(danger) + ")"
	case AwaitingBlock:
		return "no block came after its state sync yet, and ending it now would ruin the volume (" + string(danger) + ")"
	case Booting:
		return "it does not handle signals yet (" + string(danger) + ")"
	default:
		return "it is not safe"
	}
}

// awaitSafe waits until it is safe to stop a seid, which it also is when it has
// ended. What was safe may have become unsafe when the waiter wakes, and then it
// waits on. The lock is held, though not while it waits.
func (s *Supervisor) awaitSafe(ctx context.Context, c *child, patience time.Duration) (bool, error) {
	safe := func() bool { return s.child != c || s.state.SafeToStop }
	if safe() || patience <= 0 {
		return safe(), nil
	}
	for over := s.cfg.Clock.After(patience); !safe(); {
		late, err := s.awaitTurn(ctx, c, over)
		if late || err != nil {
			return safe(), err
		}
	}
	return true, nil
}

// awaitTurn waits until a seid was safe to stop or has ended, or until it is late.
// The lock is held, though not while it waits.
func (s *Supervisor) awaitTurn(ctx context.Context, c *child, over <-chan time.Time) (late bool, err error) {
	safe := c.safe
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-safe:
		return false, nil
	case <-c.ended:
		return false, nil
	case <-over:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// ended waits for the end of a seid that was signalled. The lock is held, though
// not while it waits.
func (s *Supervisor) ended(ctx context.Context, c *child) error {
	late := s.cfg.Clock.After(s.cfg.Timing.Grace)
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-c.ended:
		return nil
	case <-late:
		return refuse(ReasonStillRunning, "seid (instance %s) was told to end and has not ended within %s; it may still be closing its databases", c.instance, s.cfg.Timing.Grace)
	case <-ctx.Done():
		return ctx.Err()
	}
}
