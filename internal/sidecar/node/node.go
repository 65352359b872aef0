// Package node is what the sidecar knows of its node, and its will: it follows the
// supervisor, makes seid run exactly when it is approved and not held, and keeps
// the figures that people watch.
//
// Everything is level-triggered. Whatever is lost, repeated or comes in another
// order, the next look at consent and supervisor leads to the same act.
package node

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/configure"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/signer"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// Options make a node.
type Options struct {
	Home       seid.Home
	Consent    *consent.Consent
	Config     *configure.Configurator
	Supervisor *supervisor.Client
	Signer     *signer.Signer
	// RPC and Metrics are seid's own, on loopback, and HTTP is for the metrics.
	RPC     *seid.Client
	HTTP    *http.Client
	Metrics string
	// Witnesses is for other nodes of the chain.
	Witnesses *http.Client
	Clock     clock.WithTicker // default: the real one
	Log       *slog.Logger     // default: none
}

// Node is one node. It is safe for concurrent use.
type Node struct {
	opts Options

	mu sync.Mutex
	// state is what the supervisor said last, and connected whether it still says
	// anything.
	state     supervisor.State
	connected bool
	// silentSince is since when it does not.
	silentSince time.Time
	// connections counts the supervisors that were met, so that a new one is told
	// from an old one that changed.
	connections int
	// sample is what seid itself said last.
	sample sample
	// progress is what it has done since it began, and did what was told of that.
	progress progress
	did      api.SeidProgress
	// upgrade is the one that was known at that sample, and seen the one that a sample
	// told of last.
	upgrade api.Upgrade
	seen    toldUpgrade
	// exact belongs to who takes samples.
	exact exactPlan
	// watch is what was seen of the height, witness what others last claimed, and told
	// what is said of the node's readiness.
	watch   watch
	witness claim
	told    told
	search  search
	// space is how full the data volume is; zero while it is not known.
	free, total int64
	// doing is what is being done about seid, and since when; trouble why the last
	// act failed, unconfigured why the newest document is not applied.
	doing        string
	since        time.Time
	trouble      error
	unconfigured error
	changed      chan struct{}
}

// New makes a node; Run brings it to life.
func New(o Options) *Node {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Node{opts: o, silentSince: o.Clock.Now(), did: api.ProgressNone, changed: make(chan struct{})}
}

// Run follows the supervisor and drives it until the context ends. seid is left as
// it is: a sidecar that goes away stops nothing.
func (n *Node) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { n.follow(ctx) })
	running.Go(func() { n.drive(ctx) })
	running.Go(func() { n.keepSampling(ctx) })
	running.Wait()
}

// follow keeps what the supervisor says.
func (n *Node) follow(ctx context.Context) {
	for state, err := range n.opts.Supervisor.Watch(ctx) {
		n.heard(state, err)
	}
	n.update(func() { n.connected = false })
}

// heard keeps what the supervisor said, or that it does not answer.
func (n *Node) heard(state supervisor.State, err error) {
	n.update(func() {
		switch {
		case err == nil && !n.connected:
			n.connections++
		case err != nil && n.connected:
			n.silentSince = n.opts.Clock.Now()
		}
		n.connected = err == nil
		if err == nil {
			n.state = state
		}
	})
}

// update changes what is known and tells those who wait.
func (n *Node) update(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	close(n.changed)
	n.changed = make(chan struct{})
}

// Changed returns a channel that is closed at the next change.
func (n *Node) Changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// known is what is known of the supervisor at one moment.
type known struct {
	state      supervisor.State
	connected  bool
	connection int
	changed    <-chan struct{}
}

func (n *Node) look() known {
	n.mu.Lock()
	defer n.mu.Unlock()
	return known{state: n.state, connected: n.connected, connection: n.connections, changed: n.changed}
}

// act is what is to be done about seid.
type act int

const (
	leave act = iota
	start
	stop
)

// decide tells what to do about seid. In doubt it is left as it is. Where seid is parked for an upgrade it stays
// parked, because starting it again would only halt it again; where it is parked
// for its keys it is tried again when the approval is another one than was tried.
//
// A seid that was told to end is left alone also where it may run again: nothing takes
// a signal back, and another one is started when it has ended.
func decide(allowed consent.State, state supervisor.State, tried supervisor.Identity) act {
	switch {
	case state.Terminating:
		return leave
	case allowed.Forbidden() && state.PID != 0:
		// Also while it is stopping: a restart may be what stops it, and would start
		// another one.
		return stop
	case !allowed.Wanted():
		return leave
	case state.PID != 0:
		return leave
	case state.State == supervisor.Parked && state.ParkedBecause.NeedsBinary():
		return leave
	case state.State == supervisor.Parked && tried == identityOf(allowed):
		return leave
	default:
		return start
	}
}

// identityOf is the identity under which seid may run.
func identityOf(allowed consent.State) supervisor.Identity {
	if allowed.Approval == nil {
		return supervisor.Identity{}
	}
	return supervisor.Identity{PublicKey: allowed.Approval.PublicKey, NodeID: allowed.Approval.NodeID}
}

const (
	// retryAfter is the pause after an act that failed, unless consent changes or
	// another supervisor appears before.
	retryAfter = time.Second
	// insistAfter is the pause after a stop that seid outlived. It may be writing
	// down a large database. The supervisor signals it once, however often it is asked.
	insistAfter = 10 * time.Minute
	// startPatience bounds a start, which may have to wait for a stop.
	startPatience = 3 * time.Minute
	// stopPatience bounds a stop that waits until it is safe; it is then tried again.
	stopPatience = time.Hour
)

// drive makes seid run exactly when it is wanted.
func (n *Node) drive(ctx context.Context) {
	// tried is the approval of the last start.
	var tried supervisor.Identity
	for ctx.Err() == nil {
		// The channels first, so that no change between looking and waiting is lost.
		consented := n.opts.Consent.Changed()
		seen := n.look()
		allowed := n.opts.Consent.State()
		var err error
		if seen.connected {
			what := decide(allowed, seen.state, tried)
			if what == start {
				tried = identityOf(allowed)
			}
			err = n.carryOut(ctx, what, seen.state, consented)
		}
		n.note(err)
		n.await(ctx, seen, consented, pauseAfter(err))
	}
}

// pauseAfter is how long to wait after an act; 0 when it did not fail.
func pauseAfter(err error) time.Duration {
	if err == nil {
		return 0
	}
	if refused, ok := errors.AsType[*supervisor.Error](err); ok && refused.Reason == supervisor.ReasonStillRunning {
		return insistAfter
	}
	return retryAfter
}

// await waits for a reason to look again. After a failure a mere change of the
// supervisor's state is none, unless seid has ended: the failure itself may have
// caused it.
func (n *Node) await(ctx context.Context, seen known, consented <-chan struct{}, pause time.Duration) {
	var retry <-chan time.Time
	if pause > 0 {
		retry = n.opts.Clock.After(pause)
	}
	for changed := seen.changed; ; {
		select {
		case <-consented:
			return
		case <-retry:
			return
		case <-ctx.Done():
			return
		case <-changed:
			now := n.look()
			if ended := seen.state.PID != 0 && now.state.PID == 0; pause == 0 || ended || now.connection != seen.connection {
				return
			}
			changed = now.changed
		}
	}
}

// carryOut does it. It gives up what it waits for when consent changes.
func (n *Node) carryOut(ctx context.Context, what act, state supervisor.State, consented <-chan struct{}) error {
	if what == leave {
		return nil
	}
	ctx, cancel := cancelledBy(ctx, consented)
	defer cancel()
	var err error
	if what == start {
		err = n.start(ctx, state)
	} else {
		err = n.stop(ctx, state)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (n *Node) start(ctx context.Context, state supervisor.State) error {
	n.begin("starting seid")
	if err := n.configure(); err != nil {
		return err
	}
	n.opts.Signer.Prepare(ctx, n.opts.Consent.State())
	// All this takes a while on a slow volume, and a hold may have come; from here on
	// nobody takes seid for stopped.
	return n.opts.Consent.Starting(func(allowed consent.State) error {
		n.opts.Log.Info("Starting seid")
		ctx, cancel := context.WithTimeout(ctx, startPatience)
		defer cancel()
		_, err := n.opts.Supervisor.Start(ctx, supervisor.StartRequest{Approval: n.opts.Signer.Approval(allowed), AsOf: &state.Stops})
		return err
	})
}

// stop takes as long as it takes until stopping is safe, or until the node may run
// again.
func (n *Node) stop(ctx context.Context, state supervisor.State) error {
	n.begin("stopping seid")
	n.opts.Log.Info("Stopping seid", "instance", state.Instance)
	_, err := n.opts.Supervisor.Stop(ctx, supervisor.StopRequest{
		Instance: state.Instance, SafeWait: supervisor.Duration(stopPatience),
	})
	return err
}

// configure applies the mounted document if it is newer. A node that was configured
// before starts also when that fails, with the configuration it has: a bad document
// must not stop a validator whose pod happened to move.
func (n *Node) configure() error {
	outcome, applied, err := n.opts.Config.ApplyMounted()
	n.mu.Lock()
	n.unconfigured = err
	n.mu.Unlock()
	if err == nil {
		if applied {
			n.opts.Log.Info("Applied the mounted configuration", "serial", outcome.Serial, "changes", len(outcome.Changes))
		}
		return nil
	}
	if record, readErr := n.opts.Config.Record(); readErr == nil && record.Serial == 0 {
		return err
	}
	n.opts.Log.Error("The mounted configuration cannot be applied; seid starts with the one it has", "error", err)
	return nil
}

// begin keeps what is being done.
func (n *Node) begin(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.doing, n.since = what, n.opts.Clock.Now()
}

// note keeps how the last act ended.
func (n *Node) note(err error) {
	if err != nil {
		n.opts.Log.Error("seid cannot be made what it should be", "error", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trouble, n.doing = err, ""
}

// cancelledBy is a context that also ends when the channel is closed.
func cancelledBy(ctx context.Context, done <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-done:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
