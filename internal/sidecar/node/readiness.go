package node

import (
	"context"
	"errors"
	"time"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/readiness"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

const (
	// readyPatience is how long a node may look unready before it is called so, as long as
	// the kubelet takes: a restart in place is over by then.
	readyPatience = 30 * time.Second
	// reasonPatience is how long another reason has to last. On its way up a node lacks
	// one thing after the other for a moment each.
	reasonPatience = 10 * time.Second
	// witnessPeriod is how often others are asked while the last block is old.
	witnessPeriod = 30 * time.Second
	// The numbers in a message are renewed after this time, and then ever more rarely.
	firstRenewal, lastRenewal = time.Minute, time.Hour
)

// notRunning is the reason of a node whose seid does not run.
const notRunning readiness.Reason = "NotRunning"

var errNoAnswer = errors.New("seid's RPC does not answer")

// watch is what was seen of the height over time. It needs no clock that is set right.
type watch struct {
	height int64
	// since is when the height was seen first, moved when it was last seen to grow.
	since, moved time.Time
}

func (w watch) next(height int64, now time.Time) watch {
	switch {
	case height == w.height && !w.since.IsZero():
		return w
	case height > w.height && w.height > 0:
		return watch{height: height, since: now, moved: now}
	}
	return watch{height: height, since: now}
}

// facts are those of a sample, with what was seen over time.
func (s sample) facts(w watch, now time.Time) readiness.Facts {
	facts := readiness.Of(*s.status, *s.lag, *s.net, now)
	facts.Sole, facts.Witness = s.sole, s.witness
	facts.Unmoved = now.Sub(w.since)
	facts.Moves = !w.moved.IsZero() && now.Sub(w.moved) <= readiness.MaxBlockAge
	return facts
}

// judge decides whether the node is ready, and whether that is certain: what is not may
// be over in a moment.
func judge(state supervisor.State, wanted bool, s sample, w watch, now time.Time) (verdict readiness.Verdict, certain bool) {
	switch {
	case state.PID == 0 && (!wanted || state.State == supervisor.Parked):
		return readiness.Verdict{Reason: notRunning, Message: "seid does not run"}, true
	case s.seed && state.State == supervisor.Running:
		return readiness.Verdict{Ready: true, Reason: readiness.Following}, true
	case s.status == nil || s.lag == nil || s.net == nil:
		return readiness.Silent(errNoAnswer), false
	}
	verdict = readiness.Judge(s.facts(w, now))
	return verdict, verdict.Reason == readiness.NoBlocks
}

// told is the verdict that others are told. It changes rarely: each change costs a write
// to the API server.
type told struct {
	readiness.Verdict

	// since is when the reason became this one, renewed when the message was made.
	since, renewed time.Time
	// doubt is another reason that was seen, and doubtSince when that began.
	doubt      readiness.Reason
	doubtSince time.Time
}

// next takes in another verdict. A ready node gets time to come back, whatever it lacks
// meanwhile.
func (t told) next(v readiness.Verdict, certain bool, now time.Time) told {
	if v.Reason == readiness.Following {
		v.Message = "" // its numbers change with every block
	}
	if v.Reason == t.Reason {
		t.doubt, t.doubtSince = "", time.Time{}
		if pause := min(lastRenewal, max(firstRenewal, t.renewed.Sub(t.since))); v.Message != t.Message && now.Sub(t.renewed) >= pause {
			t.Message, t.renewed = v.Message, now
		}
		return t
	}
	patience := reasonPatience
	if t.Ready {
		patience = readyPatience
	}
	if t.doubt == "" || t.doubt != v.Reason && !t.Ready {
		t.doubtSince = now
	}
	t.doubt = v.Reason
	if !v.Ready && !certain && now.Sub(t.doubtSince) < patience {
		return t
	}
	return told{Verdict: v, since: now, renewed: now}
}

// readinessOf is what is told; nothing while it is not known.
func readinessOf(t told) api.Readiness {
	return api.Readiness{Ready: t.Ready, Reason: string(t.Reason), Message: t.Message}
}

// compare asks others of the chain how far they are, when the node's last block is old.
func (n *Node) compare(ctx context.Context, s *sample) {
	now := n.opts.Clock.Now()
	n.mu.Lock()
	known, w := n.witness, n.watch.next(s.status.LatestBlockHeight, now)
	n.mu.Unlock()
	if !s.facts(w, now).Old() {
		return
	}
	if known.at.IsZero() || now.Sub(known.at) >= witnessPeriod {
		known = claim{height: readiness.Highest(ctx, n.opts.Witnesses, readiness.Witnesses(n.opts.Home), s.status.Network), at: now}
		n.mu.Lock()
		n.witness = known
		n.mu.Unlock()
		// What it got meanwhile it is not behind with.
		if status, err := n.opts.RPC.Status(ctx); err == nil {
			s.status = &status
		}
	}
	s.witness = known.height
}

// claim is what the best witness said, and when.
type claim struct {
	height int64
	at     time.Time
}
