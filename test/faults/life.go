package faults

import (
	"context"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sei-operator/sei-operator/internal/access"
	"github.com/sei-operator/sei-operator/internal/agents"
	"github.com/sei-operator/sei-operator/internal/budget"
	"github.com/sei-operator/sei-operator/internal/controller/seinode"
	"github.com/sei-operator/sei-operator/internal/controller/seinodedeployment"
	"github.com/sei-operator/sei-operator/internal/controller/seinodetask"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/peers"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// life is one process of the operator: all that is gone when it dies.
type life struct {
	run        *run
	agents     *agents.Fleet
	reconciler reconcile.Reconciler
	tasks      reconcile.Reconciler
	fleets     reconcile.Reconciler
	reconcile  func(job) (reconcile.Result, error)
	end        context.CancelFunc
	dead       atomic.Bool
}

func newLife(r *run) *life {
	ctx, end := context.WithCancel(r.t.Context())
	l := &life{run: r, end: end}
	l.agents = agents.New(ctx, agents.Options{Wake: r.wake, Log: logr.Discard(), Around: l.aroundCall})
	metrics, err := seinode.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		r.t.Fatal(err)
	}
	tools := scope.Tools{
		Kube: kube.New(kube.Options{
			Cached: r.world.cached, Metadata: r.world.metadata, Live: r.world.live, Namespace: operatorNamespace, Around: l.aroundWrite,
		}),
		Agents: l.agents, Peers: peers.New(),
		Report: &seinode.Reporter{Recorder: recorder{}, Metrics: metrics},
	}
	tools.Access = access.New(tools.Kube, r.platform.AccessControl, r.clock)
	both := &budget.Budget{Kube: tools.Kube, Platform: r.platform, Clock: r.clock}
	l.reconciler = &seinode.Reconciler{Tools: tools, Platform: r.platform, Clock: r.clock, Metrics: metrics, Budget: both}
	if r.wrap != nil {
		l.reconciler = r.wrap(l.reconciler, tools)
	}
	report, err := seinodetask.NewReporter(recorder{}, prometheus.NewRegistry())
	if err != nil {
		r.t.Fatal(err)
	}
	l.tasks = &seinodetask.Reconciler{
		Kube: tools.Kube, Agents: l.agents, Peers: tools.Peers, Platform: r.withWitnesses(), Clock: r.clock, Report: report,
		Wake: func(node types.NamespacedName) { r.enqueue(job{ofTasks, node}) },
	}
	fleetMetrics, err := seinodedeployment.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		r.t.Fatal(err)
	}
	l.fleets = &seinodedeployment.Reconciler{Kube: tools.Kube, Budget: both, Recorder: recorder{}, Metrics: fleetMetrics}
	l.reconcile = func(work job) (reconcile.Result, error) {
		chosen := l.reconciler
		switch work.controller {
		case ofTasks:
			chosen = l.tasks
		case ofFleets:
			chosen = l.fleets
		}
		return chosen.Reconcile(ctx, reconcile.Request{NamespacedName: work.node})
	}
	return l
}

// withWitnesses is a platform with RPC servers to verify snapshots against.
func (r *run) withWitnesses() platform.Settings {
	settings := r.platform
	settings.Witnesses = map[string][]string{r.chain(): {"rpc-0.example.com:26657", "rpc-1.example.com:26657"}}
	return settings
}

// work reconciles a node, and tells whether the operator died of it.
func (l *life) work(work job) (result reconcile.Result, died bool, err error) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case death:
			died = true
		default:
			panic(reason)
		}
	}()
	result, err = l.reconcile(work)
	return result, false, err
}

// bury waits until nothing of this life runs any more.
func (l *life) bury() {
	l.dead.Store(true)
	l.end()
	l.agents.Wait()
}

// recorder keeps events from the cluster. An event is told once at most, and whoever
// dies may not have told it, so there is nothing to compare.
type recorder struct{}

var _ events.EventRecorder = recorder{}

func (recorder) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
