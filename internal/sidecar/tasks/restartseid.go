package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/seid/toml"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

const (
	restartDeadline = 10 * time.Minute
	// rpcPatience is how long one answer of the local RPC may take.
	rpcPatience = 2 * time.Second
)

// RestartSeid replaces the seid that runs by a new one, in place.
type RestartSeid struct {
	// Force goes ahead at once also where stopping is not safe.
	Force bool `json:"force,omitempty"`
}

// RestartSeidResult tells of the two.
type RestartSeidResult struct {
	Changed     bool           `json:"changed"`
	OldInstance string         `json:"oldInstance,omitempty"`
	NewInstance string         `json:"newInstance"`
	PID         int            `json:"pid"`
	How         supervisor.How `json:"how,omitempty"`
	// GapSeconds is from the end of the old one, where it is known, until the new one
	// answered.
	GapSeconds float64 `json:"gapSeconds"`
}

// restartPoint is the seid that was meant. It is durable before anything is asked
// of the supervisor: when another one is there, the restart has happened.
type restartPoint struct {
	Instance    string    `json:"instance"`
	SignalledAt time.Time `json:"signalledAt"`
}

// restartSeid lives through the end of a supervisor: a seid that crashes takes its
// container with it, and the next one starts anew.
func (t *tasks) restartSeid(ctx context.Context, x engine.Execution, p RestartSeid) (any, error) {
	r := restarter{tasks: t, x: x, force: p.Force, trouble: errNotAsked}
	var err error
	if r.meant, err = x.Resume(&r.point); err != nil {
		return nil, err
	}
	if _, err := t.approved(); err != nil {
		return nil, err
	}
	limited, cancel := within(ctx, t.Clock, restartDeadline)
	defer cancel()
	var result RestartSeidResult
	err = t.await(limited, func(state supervisor.State, err error) (bool, error) {
		if err != nil {
			r.lacks(ReasonProcessNotStarted, err)
			return false, nil
		}
		approval, err := t.approved()
		if err != nil {
			return false, err
		}
		switch {
		case r.replaced(state):
		case x.Late():
			return false, r.missed(state)
		default:
			return false, r.request(limited, state, approval)
		}
		done, err := r.answers(limited, state)
		if done {
			result = r.result(state)
		}
		return done, err
	})
	switch {
	case errors.Is(err, errPassed) && ctx.Err() == nil:
		return nil, engine.Retryable(r.lacking, "seid did not come back within %s: %w", restartDeadline, r.trouble)
	case err != nil:
		return nil, err
	}
	return result, nil
}

// approved is the approval under which seid may run now.
func (t *tasks) approved() (supervisor.Approval, error) {
	state := t.Consent.State()
	switch {
	case state.Held:
		return supervisor.Approval{}, held()
	case !state.Approved:
		return supervisor.Approval{}, engine.Terminal(ReasonNotApproved, "the node is not approved to run; approve it first")
	}
	return t.Signer.Approval(state), nil
}

// isSeed tells whether seid will have no RPC.
func (t *tasks) isSeed() (bool, error) {
	mode, err := t.configuredMode()
	if err != nil {
		return false, configFailure(err)
	}
	return mode == "seed", nil
}

// configuredMode is the mode that config.toml says, which is not the mode of the
// SeiNode: it is full for an archive too.
func (t *tasks) configuredMode() (string, error) {
	files, _, err := t.Config.Preview(nil)
	if err != nil {
		return "", err
	}
	mode, _, err := toml.Get(files[seid.ConfigTOML], toml.Path{"mode"})
	if err != nil {
		return "", err
	}
	text, _ := mode.(string)
	return text, nil
}

type restarter struct {
	*tasks
	x     engine.Execution
	force bool
	point restartPoint
	meant bool
	// lacking and trouble are what is waited for.
	lacking string
	trouble error
}

func (r *restarter) lacks(reason string, trouble error) {
	r.lacking, r.trouble = reason, trouble
}

func (r *restarter) replaced(state supervisor.State) bool {
	return r.meant && state.Instance != "" && state.Instance != r.point.Instance
}

// missed is what becomes of a restart whose deadline passed before seid was replaced, as
// when the sidecar died while it waited until stopping was safe. Its caller
// has given up, so nothing is asked of the supervisor. The driver starts a seid that has
// ended, unless it is parked; that is waited for.
func (r *restarter) missed(state supervisor.State) error {
	if state.PID == 0 && state.ParkedBecause == "" {
		r.lacks(ReasonProcessNotStarted, fmt.Errorf("seid (instance %s) is %s", state.Instance, state.State))
		return nil
	}
	return engine.Retryable(ReasonDeadlineExceeded,
		"seid (instance %s) was not restarted within %s, and will not be; ask again if it is still wanted", r.point.Instance, restartDeadline)
}

// request has the seid that is meant replaced, or one started where none lives.
func (r *restarter) request(ctx context.Context, state supervisor.State, approval supervisor.Approval) error {
	err := r.do("mounted configuration", func() error {
		_, _, err := r.Config.ApplyMounted()
		return err
	})
	if err != nil {
		return fmt.Errorf("seid was not restarted: %w", configFailure(err))
	}
	if !r.meant {
		r.point, r.meant = restartPoint{Instance: state.Instance, SignalledAt: r.now()}, true
		if err := r.x.Checkpoint(r.point); err != nil {
			return err
		}
	}
	if state.PID != 0 {
		// A hold that comes meanwhile does not have to wait for this: it stops seid, and
		// then none is started.
		err = r.restart(ctx, state, approval)
	} else {
		// One that needs another binary is only started again by somebody who means it.
		err = r.Consent.Starting(func(consent.State) error {
			_, err := r.Supervisor.Start(ctx, supervisor.StartRequest{Approval: approval, Parked: true, AsOf: &state.Stops})
			return err
		})
	}
	if err == nil {
		return nil
	}
	if refusal(err) == supervisor.ReasonParked && state.PID != 0 {
		return engine.Terminal(ReasonUpgradeNeeded, "%w", err)
	}
	r.lacks(ReasonProcessNotStarted, err)
	if refusal(err) == supervisor.ReasonKeys {
		return engine.Terminal(ReasonKeyIdentityChanged, "%w", err)
	}
	return stopFailure(err)
}

func (r *restarter) restart(ctx context.Context, state supervisor.State, approval supervisor.Approval) error {
	_, err := r.Supervisor.Restart(ctx, supervisor.RestartRequest{
		StopRequest: supervisor.StopRequest{
			Instance: r.point.Instance, SafeWait: r.safeWait(r.force, r.point.SignalledAt, restartDeadline), Force: r.force,
		},
		Approval: approval, AsOf: &state.Stops,
	})
	return err
}

// answers tells whether the new seid is up: the supervisor has seen it answer, and
// it answers.
func (r *restarter) answers(ctx context.Context, state supervisor.State) (bool, error) {
	switch {
	case state.ParkedBecause.NeedsBinary():
		return false, engine.Terminal(ReasonUpgradeNeeded, "seid was restarted and needs another binary: %s", state.Message)
	case state.ParkedBecause == supervisor.ParkedKeys:
		return false, engine.Terminal(ReasonKeyIdentityChanged, "seid was not started: %s", state.Message)
	case state.PID == 0:
		r.lacks(ReasonProcessNotStarted, fmt.Errorf("the new seid (instance %s) is %s", state.Instance, state.State))
		return false, nil
	case state.State != supervisor.Running:
		r.lacks(ReasonRPCNotAnswering, fmt.Errorf("the new seid (instance %s, pid %d) is %s", state.Instance, state.PID, state.State))
		return false, nil
	}
	if seed, err := r.isSeed(); err != nil || seed {
		return seed, err
	}
	ctx, cancel := within(ctx, r.Clock, rpcPatience)
	defer cancel()
	if _, err := r.LocalRPC.Status(ctx); err != nil {
		r.lacks(ReasonRPCNotAnswering, err)
		return false, nil
	}
	return true, nil
}

func (r *restarter) result(state supervisor.State) RestartSeidResult {
	result := RestartSeidResult{
		Changed: true, OldInstance: r.point.Instance, NewInstance: state.Instance, PID: state.PID,
	}
	since := r.point.SignalledAt
	if last := state.LastExit; last != nil && last.Instance == r.point.Instance {
		result.How, since = last.How, last.Time
	}
	result.GapSeconds = max(0, r.now().Sub(since).Round(time.Millisecond).Seconds())
	return result
}
