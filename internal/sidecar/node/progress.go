package node

import (
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// idleAfter is how long a seid that answers may execute no block until it is said that
// none comes to it.
const idleAfter = time.Minute

// progress is what one seid has done since it began. A new binary may answer for a
// while and fail at the first block that it executes: only then is it known to work.
type progress struct {
	instance string
	// since is when it answered first, and first the height that it told then.
	since    time.Time
	first    int64
	executed bool
}

// after is the progress after a sample of the instance that lives now; nil: it did not
// answer. What it did before it ceased to answer counts.
func (p progress) after(instance string, status *seid.Status, now time.Time) progress {
	if instance != p.instance {
		p = progress{instance: instance}
	}
	switch {
	case status == nil:
	case p.since.IsZero():
		p.since, p.first = now, status.LatestBlockHeight
	default:
		// The height is that of its store, and a block is stored before it is executed:
		// only the next one proves that it was.
		p.executed = p.executed || status.LatestBlockHeight >= p.first+2
	}
	return p
}

// told is what is told of it. It changes twice at most in the life of a process, and
// not with every block.
func (p progress) told(now time.Time) api.SeidProgress {
	switch {
	case p.executed:
		return api.ProgressExecuted
	case !p.since.IsZero() && now.Sub(p.since) >= idleAfter:
		return api.ProgressIdle
	}
	return api.ProgressNone
}

// progressed takes the last sample into account and tells whether there is news; the
// caller holds the lock.
func (n *Node) progressed() bool {
	now, status := n.opts.Clock.Now(), n.sample.status
	if n.sample.instance != n.state.Instance {
		status = nil // another one answered
	}
	n.progress = n.progress.after(n.state.Instance, status, now)
	before := n.did
	n.did = n.progress.told(now)
	return n.did != before
}
