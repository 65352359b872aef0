package tasks

import (
	"context"
	"fmt"
	"time"

	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

const (
	stopDeadline = 10 * time.Minute
	// graceRoom is what is left of a deadline for seid to end in, once it is safe to
	// tell it to.
	graceRoom = 2 * time.Minute
)

// StopSeid stops the seid of a held node and proves that it has stopped.
type StopSeid struct {
	// Force goes ahead at once also where stopping is not safe. It is for somebody who
	// has waited long enough, or knows better.
	Force bool `json:"force,omitempty"`
}

// StopSeidResult tells what was stopped and how it ended.
type StopSeidResult struct {
	Changed  bool   `json:"changed"`
	Instance string `json:"instance,omitempty"`
	Exit     *Exit  `json:"exit,omitempty"`
}

// Exit is how a seid ended.
type Exit struct {
	Code   int            `json:"code"`
	Signal string         `json:"signal,omitempty"`
	How    supervisor.How `json:"how,omitempty"`
}

// stopPoint is the seid that was found.
type stopPoint struct {
	Instance string    `json:"instance"`
	At       time.Time `json:"at"`
}

// stopSeid waits until the supervisor says that there is no process. It is not
// alone: whoever drives seid stops it too when the node is held, so it does not
// matter whose request it was.
func (t *tasks) stopSeid(ctx context.Context, x engine.Execution, p StopSeid) (any, error) {
	if !t.Consent.State().Held {
		return nil, engine.Terminal(ReasonNotHeld, "seid was not stopped: the node is not held, so it would be started again at once; hold it first")
	}
	t.Consent.Settled()
	s := stopper{tasks: t, x: x, force: p.Force}
	var err error
	if s.found, err = x.Resume(&s.point); err != nil {
		return nil, err
	}
	lack := obstacle{errNotAsked}
	var result StopSeidResult
	err = t.await(ctx, func(state supervisor.State, err error) (bool, error) {
		if err != nil {
			lack.is(err)
			return false, nil
		}
		if state.PID == 0 {
			// A start may be under way that was decided before the hold. After this request
			// the supervisor does not carry it out any more.
			state, err = t.Supervisor.Stop(ctx, supervisor.StopRequest{SafeWait: s.safeWait(p.Force, t.now(), stopDeadline), Force: p.Force})
			if err != nil {
				lack.is(err)
				return false, stopFailure(err)
			}
			result = s.stopped(state)
			return true, nil
		}
		lack.is(fmt.Errorf("seid (instance %s) is %s", state.Instance, state.State))
		return false, s.request(ctx, state)
	})
	if ctx.Err() != nil && err != nil {
		return nil, fmt.Errorf("it is not proven that seid has stopped: %w (%w)", lack.err, err)
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

type stopper struct {
	*tasks
	x     engine.Execution
	force bool
	point stopPoint
	found bool
}

func (s *stopper) request(ctx context.Context, state supervisor.State) error {
	if !s.found {
		s.point, s.found = stopPoint{Instance: state.Instance, At: s.now()}, true
		if err := s.x.Checkpoint(s.point); err != nil {
			return err
		}
	}
	_, err := s.Supervisor.Stop(ctx, supervisor.StopRequest{
		Instance: state.Instance, SafeWait: s.safeWait(s.force, s.point.At, stopDeadline), Force: s.force,
	})
	return stopFailure(err)
}

// safeWait is how long a stop may wait until it is safe.
func (t *tasks) safeWait(force bool, since time.Time, deadline time.Duration) supervisor.Duration {
	if force {
		return 0
	}
	longest := deadline - graceRoom
	return supervisor.Duration(min(max(0, longest-t.now().Sub(since)), longest))
}

// stopFailure is what of the supervisor's refusals ends the task. All others are
// about a supervisor that ends, and the next one is asked again.
func stopFailure(err error) error {
	switch refusal(err) {
	case supervisor.ReasonNotSafe:
		return engine.Retryable(ReasonNotSafeToStop, "%w", err)
	case supervisor.ReasonStillRunning:
		return engine.Retryable(ReasonStillRunning, "%w", err)
	case supervisor.ReasonInvalid:
		return err
	default:
		return nil
	}
}

func (s *stopper) stopped(state supervisor.State) StopSeidResult {
	result := StopSeidResult{Changed: s.found, Instance: state.Instance}
	if s.found {
		result.Instance = s.point.Instance
	}
	if last := state.LastExit; last != nil && last.Instance == result.Instance && result.Instance != "" {
		result.Exit = &Exit{Code: last.Code, Signal: last.Signal, How: last.How}
	}
	return result
}
