package node

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/server"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// Reasons of problems.
const (
	ReasonSupervisorUnreachable = api.ProblemSupervisorUnreachable
	ReasonNotAsWanted           = api.ProblemNotAsWanted
	ReasonConfigUnreadable      = "ConfigurationUnreadable"
	ReasonConfigNotApplied      = "ConfigurationNotApplied"
	ReasonConfigNotKnown        = "ConfigurationNotKnown"
	ReasonAcceptanceNotKept     = "SignStateAcceptanceNotKept"
)

// longAfter is how long an act may take until it is worth telling.
const longAfter = 5 * time.Second

// Node tells all that is known, for the API.
func (n *Node) Node() server.Node {
	n.mu.Lock()
	state, connected, sample := n.state, n.connected, n.sample
	process := n.seid()
	problems, told := n.problems(), n.told
	free, total := n.free, n.total
	upgrade := n.upgradeNow()
	n.mu.Unlock()

	view := server.Node{
		Problems: problems, FreeBytes: free, TotalBytes: total,
		Seid:             process,
		Upgrade:          upgrade,
		SigningPublicKey: state.Identity.PublicKey,
	}
	signed := state.SignHeight
	if !connected && n.opts.Signer != nil {
		// A seid that ends takes its parent with it, and that is when it matters what it
		// signed last.
		signed = max(signed, n.opts.Signer.Height())
	}
	if connected || signed > 0 {
		view.SignHeight = &signed
	}
	if connected {
		view.Seid.Readiness = readinessOf(told)
	}
	if sample.status != nil {
		view.Height = sample.status.LatestBlockHeight
	}
	reason, why := n.opts.Signer.Guard(n.opts.Consent.State(), signed)
	view.SignGuard = api.SignGuard{Decided: true, Reason: string(reason), Message: why}
	if err := n.opts.Signer.Problem(); err != nil {
		view.Problems = append(view.Problems, api.Problem{Reason: ReasonAcceptanceNotKept, Message: err.Error()})
	}
	view.NodeID, view.NodeIDProblem = n.nodeID(state)
	if record, err := n.opts.Config.Record(); err != nil {
		view.Problems = append(view.Problems, api.Problem{Reason: ReasonConfigUnreadable, Message: err.Error()})
	} else {
		view.Config = api.Config{Hash: record.Hash, Serial: record.Serial}
		if message := seid.NotKnownMessage(record.NotKnown); message != "" {
			view.Problems = append(view.Problems, api.Problem{Reason: ReasonConfigNotKnown, Message: message})
		}
	}
	return view
}

// problems are what a person should know of; the caller holds the lock.
func (n *Node) problems() []api.Problem {
	var found []api.Problem
	add := func(reason, format string, args ...any) {
		found = append(found, api.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	if !n.connected {
		add(ReasonSupervisorUnreachable, "the supervisor of seid does not answer; its container may be starting or gone")
	}
	if n.trouble != nil {
		add(ReasonNotAsWanted, "%v", n.trouble)
	}
	if took := n.opts.Clock.Now().Sub(n.since); n.doing != "" && took > longAfter {
		because := ""
		if n.state.UnsafeBecause != "" {
			because = fmt.Sprintf("; stopping is not safe now: %s", n.state.UnsafeBecause)
		}
		// Not for how long: the operator writes it down, and would do so again and again.
		add(ReasonNotAsWanted, "%s since %s%s", n.doing, n.since.UTC().Format(time.RFC3339), because)
	}
	if n.unconfigured != nil {
		add(ReasonConfigNotApplied, "the newest configuration is not applied: %v", n.unconfigured)
	}
	return found
}

// nodeID is what the supervisor sees, or what the file says while there is none.
func (n *Node) nodeID(state supervisor.State) (id, problem string) {
	if state.Identity.NodeID != "" {
		return state.Identity.NodeID, ""
	}
	id, err := seid.ReadNodeID(n.opts.Home.NodeKey())
	if err != nil {
		return "", err.Error()
	}
	return id, ""
}

// seid is what is known of the process. Of one whose parent does not answer that is
// only how the last one ended; whether it may be stopped is not known either. The caller
// holds the lock.
func (n *Node) seid() api.Seid {
	state := n.state
	if !n.connected {
		return api.Seid{State: api.SeidUnknown, Since: n.silentSince, LastExit: exitOf(state.LastExit), Progress: api.ProgressNone}
	}
	seen := api.Seid{
		State: api.SeidState(state.State), Instance: state.Instance, Pid: state.PID, Since: state.Since,
		SafeToStop: state.SafeToStop, UnsafeBecause: string(state.UnsafeBecause),
		ParkedBecause: string(state.ParkedBecause), Message: messageOf(state),
		LastExit: exitOf(state.LastExit), RPC: n.sample.status != nil, Progress: api.ProgressNone,
	}
	if state.Instance == n.progress.instance {
		seen.Progress = n.did
	}
	return seen
}

// messageOf says what the state alone does not.
func messageOf(state supervisor.State) string {
	if state.Terminating {
		return "the container is about to end, and starts nothing any more"
	}
	return state.Message
}

func exitOf(exit *supervisor.Exit) api.Exit {
	if exit == nil {
		return api.Exit{}
	}
	return api.Exit{Code: exit.Code, Signal: exit.Signal, Time: exit.Time, Cause: string(exit.Cause), Message: exit.Message}
}

// space is what is free and what there is on the data volume.
func space(home seid.Home) (free, total int64, err error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(string(home), &stat); err != nil {
		return 0, 0, fmt.Errorf("cannot tell how full the data volume is: %w", err)
	}
	if stat.Bsize <= 0 {
		return 0, 0, errors.New("the data volume does not say how full it is")
	}
	return int64(stat.Bavail) * stat.Bsize, int64(stat.Blocks) * stat.Bsize, nil
}
