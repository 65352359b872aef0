package node

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/sei-operator/sei-operator/internal/sidecar/readiness"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

const (
	// firstSearch is how long seid may look for a snapshot in vain before it is started
	// anew. It asks each peer once, when it connects: a snapshot that a peer makes later is
	// never seen. From then on the pauses grow, up to lastSearch.
	firstSearch, lastSearch = 2 * time.Minute, 30 * time.Minute
	// searchTold is how long a search may last before it is worth telling.
	searchTold = time.Minute
	// searchTimeout bounds a stop that is safe, and of a seid that catches no signal.
	searchTimeout = 10 * time.Second
)

// noSnapshotFound is the reason of a node that waits for a snapshot in vain.
const noSnapshotFound readiness.Reason = "NoSnapshotFound"

// search is what was seen of seid's searches for a snapshot, by the sidecar's own watch:
// the clock of the machine may be set meanwhile.
type search struct {
	// instance looks for a snapshot since then; none does while it is empty.
	instance string
	since    time.Time
	// first is when the first of these searches began, tries how many were given up.
	first time.Time
	tries int
	// abandoned: a part of a snapshot may be on the volume.
	abandoned bool
	// unsafe is why seid must not be stopped now; empty when it may be.
	unsafe string
}

// next takes in what the supervisor says, and tells whether seid is to be started anew.
// A seid that found a snapshot is left alone, however long it takes. So is one that gave up
// a restore: the next seid may not cope with the part that is on the volume.
func (s search) next(state supervisor.State, now time.Time) (next search, again bool) {
	switch {
	case state.State == supervisor.Running:
		return search{}, false // it has answered: all that is over
	case state.PID == 0 || state.SnapshotSearch == nil:
		return search{first: s.first, tries: s.tries}, false
	}
	if s.first.IsZero() {
		s.first = now
	}
	s.abandoned, s.unsafe = state.RestoreAbandoned, ""
	if !state.SafeToStop {
		s.unsafe = cmp.Or(string(state.UnsafeBecause), "for a reason that the supervisor does not tell")
	}
	switch {
	case state.Instance != s.instance:
		s.instance, s.since = state.Instance, now
		return s, false
	case s.unsafe != "" || s.abandoned:
		return s, false
	case now.Sub(s.since) < min(lastSearch, firstSearch<<min(s.tries, 10)):
		return s, false
	}
	s.instance, s.tries = "", s.tries+1
	return s, true
}

// verdict is what is told of a search that lasts.
func (s search) verdict(now time.Time) readiness.Verdict {
	if s.abandoned {
		return readiness.Verdict{Reason: noSnapshotFound, Message: fmt.Sprintf(
			"seid gave up the restore of a snapshot, and no peer offered another one for %s; a part of the first may be on the volume, so the sidecar does not restart seid: "+
				"a SeiNodeTask of kind ResyncNode removes the data of a full node, one of kind RestartSeid goes on with what is there",
			now.Sub(s.since).Round(time.Second))}
	}
	if s.unsafe != "" {
		return readiness.Verdict{Reason: noSnapshotFound, Message: fmt.Sprintf(
			"no peer offered a snapshot that could be restored for %s; seid asks each peer once, but it is not safe to stop it (%s), so the sidecar does not restart it: "+
				"a SeiNodeTask of kind RestartSeid restarts it when that is safe, one of kind ResyncNode removes the data of a full node",
			now.Sub(s.first).Round(time.Second), s.unsafe)}
	}
	return readiness.Verdict{Reason: noSnapshotFound, Message: fmt.Sprintf(
		"no peer offered a snapshot that could be restored for %s; seid asks each peer once, so the sidecar restarted it %d times, and goes on until it has one",
		now.Sub(s.first).Round(time.Second), s.tries)}
}

// renewSearch stops a seid that looks for a snapshot in vain. The driver starts the next
// one, as it does whenever none runs that should. The supervisor refuses when a restore
// has begun after all, which must not be interrupted.
func (n *Node) renewSearch(ctx context.Context) {
	now := n.opts.Clock.Now()
	n.mu.Lock()
	state, again := n.state, false
	if n.connected {
		n.search, again = n.search.next(state, now)
	}
	n.mu.Unlock()
	if !again || !n.opts.Consent.State().Wanted() {
		return
	}
	n.opts.Log.Info("No snapshot was found; starting seid anew, so that it asks its peers again", "instance", state.Instance)
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	if _, err := n.opts.Supervisor.Stop(ctx, supervisor.StopRequest{Instance: state.Instance}); err != nil {
		n.opts.Log.Warn("seid goes on looking for a snapshot", "error", err)
	}
}
