package node

import (
	"context"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

const (
	// stalledAfter is how long no block must have come to a node one below an upgrade
	// until it is said to be halted there. Such a node is alive and looks healthy.
	stalledAfter = time.Minute
	// rememberFor is how long an upgrade is remembered that no sample tells of. A busy
	// seid lets one question or another go unanswered, and is halted all the same.
	rememberFor = time.Minute
	// exactUpTo is the height from which on seid's metrics may be rounded: they are
	// numbers of 32 bits with 24 for the digits.
	exactUpTo = 1 << 24
)

// toldUpgrade is what a sample told, of which process, and when.
type toldUpgrade struct {
	upgrade  api.Upgrade
	instance string
	time     time.Time
}

// upgradeNow is the upgrade that is known of; the caller holds the lock.
func (n *Node) upgradeNow() api.Upgrade {
	now := n.opts.Clock.Now()
	halted := n.connected && n.state.Upgrade != nil
	if halted || n.sample.tellsOfUpgrades() {
		return upgradeOf(n.state, n.connected, n.sample, now)
	}
	lives := !n.connected || n.state.PID != 0 && n.state.Instance == n.seen.instance
	if lives && now.Sub(n.seen.time) < rememberFor {
		return n.seen.upgrade
	}
	return api.Upgrade{}
}

// rememberUpgrade keeps what a sample told; the caller holds the lock.
func (n *Node) rememberUpgrade() {
	if n.sample.tellsOfUpgrades() {
		n.seen = toldUpgrade{upgrade: n.upgrade, instance: n.state.Instance, time: n.opts.Clock.Now()}
	}
}

// tellsOfUpgrades is whether the sample says which upgrade is planned, or that none is.
func (s sample) tellsOfUpgrades() bool {
	return s.status != nil && (s.planned || s.metrics != nil)
}

// exactPlan is what a seid last said exactly of the upgrade that is scheduled, and what
// its metrics showed then.
type exactPlan struct {
	instance    string
	plan, shown *seid.Upgrade
}

// still tells whether the metrics of the same seid show what they showed.
func (e exactPlan) still(instance string, shown *seid.Upgrade) bool {
	return e.instance != "" && e.instance == instance &&
		(e.shown == shown || e.shown != nil && shown != nil && *e.shown == *shown)
}

// askForPlan asks the chain which upgrade is scheduled, where that matters: where the
// metrics show one, because they round its height, and where no block comes, because
// they show one only after the first block of a process. A busy seid lets the question go
// unanswered now and then: what it said before holds as long as its metrics are the same.
func (n *Node) askForPlan(ctx context.Context, s *sample) {
	if s.status == nil {
		return
	}
	var shown *seid.Upgrade
	if s.metrics != nil {
		shown = roundedPlan(s.metrics.Upgrades, s.status.LatestBlockHeight)
	}
	stalls := n.opts.Clock.Now().Sub(s.status.LatestBlockTime) > stalledAfter/2
	if !stalls && s.metrics != nil && shown == nil {
		return
	}
	switch plan, err := n.opts.RPC.CurrentPlan(ctx); {
	case err == nil:
		s.plan, s.planned = plan, true
		n.exact = exactPlan{}
		if s.metrics != nil {
			n.exact = exactPlan{instance: s.instance, plan: plan, shown: shown}
		}
	case s.metrics != nil && n.exact.still(s.instance, shown):
		s.plan, s.planned = n.exact.plan, true
	}
}

// upgradeOf is the upgrade that seid halted for, or else the next one that is
// planned.
func upgradeOf(state supervisor.State, connected bool, sample sample, now time.Time) api.Upgrade {
	if connected && state.Upgrade != nil {
		return api.Upgrade{Name: state.Upgrade.Name, Height: state.Upgrade.Height, Info: state.Upgrade.Info, Halted: true}
	}
	if !sample.tellsOfUpgrades() {
		return api.Upgrade{}
	}
	latest := sample.status.LatestBlockHeight
	plan := sample.plan
	var next, rounded bool
	if sample.planned {
		if plan == nil || plan.Height <= latest {
			return api.Upgrade{}
		}
		next = plan.Height == latest+1
	} else {
		if plan = roundedPlan(sample.metrics.Upgrades, latest); plan == nil {
			return api.Upgrade{}
		}
		next, rounded = float32(latest+1) == float32(plan.Height), plan.Height >= exactUpTo
	}
	// The last block may be old because seid did not run: one that was just started,
	// with the binary of the upgrade perhaps, gets its time to go on.
	waits := min(now.Sub(sample.status.LatestBlockTime), now.Sub(state.Since))
	return api.Upgrade{Name: plan.Name, Height: plan.Height, Info: plan.Info, Rounded: rounded, Halted: next && waits > stalledAfter}
}

// roundedPlan is the next upgrade of which the metrics tell. The next block, rounded as
// they are, may be the one of the upgrade also where its own height is above.
func roundedPlan(upgrades []seid.Upgrade, latest int64) *seid.Upgrade {
	for _, plan := range upgrades {
		if float32(plan.Height) >= float32(latest+1) {
			return &plan
		}
	}
	return nil
}
