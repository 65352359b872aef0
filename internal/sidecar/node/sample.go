package node

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/readiness"
)

// samplePeriod is how often seid is asked how it is. It is asked over loopback,
// and only while there is a process.
const samplePeriod = 5 * time.Second

// sampleTimeout bounds one round of questions.
const sampleTimeout = 3 * time.Second

// sample is what seid said of itself at one moment. What it did not say is nil.
type sample struct {
	// instance is the seid that was asked.
	instance string

	time    time.Time
	status  *seid.Status
	lag     *seid.LagStatus
	net     *seid.NetInfo
	metrics *seid.Metrics
	// seed: it has no RPC to ask.
	seed bool
	// sole: it is the only validator. It is asked where that matters.
	sole bool
	// witness is the highest block that others claim to have, asked when the last one here
	// is old; 0: nobody says.
	witness int64
	// plan is the upgrade that the chain has scheduled, and planned whether it was told:
	// then nil means that there is none.
	plan    *seid.Upgrade
	planned bool
}

// keepSampling asks seid at once when its process changes, and then regularly.
func (n *Node) keepSampling(ctx context.Context) {
	ticker := n.opts.Clock.NewTicker(samplePeriod)
	defer ticker.Stop()
	last := ""
	for {
		seen := n.look()
		alive := seen.connected && seen.state.PID != 0
		now := fmt.Sprint(alive, seen.state.Instance, seen.state.State)
		if now != last {
			last = now
			n.take(ctx, alive)
			n.renewSearch(ctx)
			continue
		}
		select {
		case <-seen.changed:
		case <-ticker.C():
			n.take(ctx, alive)
			n.renewSearch(ctx)
		case <-ctx.Done():
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// take makes one sample.
func (n *Node) take(ctx context.Context, alive bool) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	var next sample
	asked := n.look().state.Instance
	if alive {
		next = n.ask(ctx, asked)
	}
	next.instance = asked
	// What could not be read once may be readable now.
	n.opts.Consent.Reread()
	free, total, err := space(n.opts.Home)
	if err != nil {
		n.opts.Log.Warn("The data volume does not answer", "error", err)
	}
	current, stateErr := n.opts.Supervisor.State(ctx)
	n.mu.Lock()
	n.free, n.total = free, total
	if stateErr == nil && n.connected && current.Instance == n.state.Instance {
		// A watch tells of changes of the process; these change without one.
		n.state.Identity, n.state.SignHeight = current.Identity, current.SignHeight
	}
	n.mu.Unlock()
	if stateErr == nil {
		n.opts.Signer.Note(current)
	}
	n.believe(next)
}

// believe keeps a sample. It wakes nobody unless RPC began or ceased to answer, the node
// became ready or unready, seid has executed its first block, or an upgrade came into
// sight, stands in the way, or is over:
// what changes with every block is no event.
func (n *Node) believe(next sample) {
	wanted := n.opts.Consent != nil && n.opts.Consent.State().Wanted()
	now := n.opts.Clock.Now()
	n.mu.Lock()
	if next.status != nil {
		n.watch = n.watch.next(next.status.LatestBlockHeight, now)
	}
	tell := n.told
	if n.connected {
		verdict, certain := judge(n.state, wanted, next, n.watch, now)
		if verdict.Reason == readiness.NotAnswering && n.state.SnapshotSearch != nil && !n.search.first.IsZero() && now.Sub(n.search.first) >= searchTold {
			verdict, certain = n.search.verdict(now), true
		}
		tell = n.told.next(verdict, certain, now)
	}
	before, answered := n.upgrade, n.sample.status != nil
	n.sample = next
	n.upgrade = n.upgradeNow()
	n.rememberUpgrade()
	news := answered != (next.status != nil) || n.upgrade != before || n.told.Verdict != tell.Verdict
	n.told = tell
	news = n.progressed() || news
	n.mu.Unlock()
	if news {
		n.update(func() {})
	}
}

func (n *Node) ask(ctx context.Context, instance string) sample {
	s := sample{instance: instance, time: n.opts.Clock.Now()}
	if status, err := n.opts.RPC.Status(ctx); err == nil {
		s.status = &status
		if lag, err := n.opts.RPC.LagStatus(ctx); err == nil {
			s.lag = &lag
		}
		if info, err := n.opts.RPC.NetInfo(ctx); err == nil {
			s.net = &info
		}
		if s.lag != nil && s.net != nil {
			s.sole = readiness.Of(status, *s.lag, *s.net, s.time).MayBeSole() && readiness.Sole(ctx, n.opts.RPC, status)
			n.compare(ctx, &s)
		}
	} else {
		s.seed = readiness.IsSeed(n.opts.Home)
	}
	// Also without RPC: during a state sync the metrics are all there is.
	if metrics, err := n.scrape(ctx); err == nil {
		s.metrics = &metrics
	}
	n.askForPlan(ctx, &s)
	return s
}

func (n *Node) scrape(ctx context.Context) (seid.Metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.opts.Metrics, nil)
	if err != nil {
		return seid.Metrics{}, err
	}
	response, err := n.opts.HTTP.Do(request)
	if err != nil {
		return seid.Metrics{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return seid.Metrics{}, fmt.Errorf("seid's metrics: HTTP %d", response.StatusCode)
	}
	return seid.ParseMetrics(response.Body)
}
