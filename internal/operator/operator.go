// Package operator puts the controllers together into one process.
package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/sei-operator/sei-operator/internal/access"
	"github.com/sei-operator/sei-operator/internal/agents"
	"github.com/sei-operator/sei-operator/internal/budget"
	"github.com/sei-operator/sei-operator/internal/controller/seinode"
	"github.com/sei-operator/sei-operator/internal/controller/seinodedeployment"
	"github.com/sei-operator/sei-operator/internal/controller/seinodetask"
	"github.com/sei-operator/sei-operator/internal/controller/wake"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/peers"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// Config is what an operator needs.
type Config struct {
	Kubernetes *rest.Config
	Platform   platform.Settings
	Log        logr.Logger
	// Metrics is where they are registered.
	Metrics prometheus.Registerer
	// MetricsAddress and HealthAddress are where they are served; "0": nowhere.
	MetricsAddress, HealthAddress string
	// LeaderElection makes this process wait until it is the only one at work.
	LeaderElection bool
	// Namespace is the operator's own. The Lease of the leader and those that reserve
	// keys are there, so all operators of a cluster have to have the same.
	Namespace string
	// WatchNamespace is the one namespace to look after; empty: all.
	WatchNamespace string
	// ServiceAccount is the operator's own, in its namespace: the tokens that are shown to
	// the access proxies of nodes are asked for in its name.
	ServiceAccount string

	// Clock tells the time that plans and their deadlines go by; nil: the real one.
	// Tests move it.
	Clock clock.PassiveClock
	// Resync is how often everything is looked at again although nothing happened;
	// nil is the default of ten hours. Tests shorten it.
	Resync *time.Duration
	// AroundWrite and AroundCall are called around everything that changes something;
	// nil in production.
	AroundWrite kube.Around
	AroundCall  func(ctx context.Context, call agents.Call, do func(context.Context) error) error
}

// Run runs the controllers until the context ends.
func Run(ctx context.Context, c Config) error {
	// The API server has fair queues of its own. A limit on our side would only make
	// a large fleet wait in line behind itself.
	config := rest.CopyConfig(c.Kubernetes)
	config.QPS = -1
	m, err := newManager(ctx, config, c)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	nodes, tasks := &wake.Waker{}, &wake.Waker{}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	api := kube.New(kube.Options{
		Cached: m.GetClient(), Metadata: m.GetCache(), Live: m.GetAPIReader(), Namespace: c.Namespace, Around: c.AroundWrite,
	})
	keeper := access.New(api, c.Platform.AccessControl, c.Clock)
	if _, err := keeper.Roots(); err != nil {
		return err
	}
	tokens := access.NewTokens(func(audience string, life time.Duration) (string, time.Duration, error) {
		ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
		defer cancel()
		return api.OwnToken(ctx, c.ServiceAccount, audience, life)
	}, c.Clock)
	fleet := agents.New(ctx, agents.Options{
		Access: &agents.Access{Roots: keeper.Roots, Token: tokens.For, Now: c.Clock.Now},
		Wake: func(node types.NamespacedName) {
			nodes.Wake(node)
			tasks.Wake(node)
		},
		Log: c.Log.WithName("agents"), Around: c.AroundCall,
	})
	defer fleet.Wait()
	defer stop()
	metrics, err := seinode.NewMetrics(c.Metrics)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	recorder := m.GetEventRecorder("sei-operator")
	tools := scope.Tools{
		Kube: api, Agents: fleet, Peers: peers.New(), Access: keeper,
		Report: &seinode.Reporter{Recorder: recorder, Metrics: metrics},
	}
	shared := &budget.Budget{Kube: tools.Kube, Platform: c.Platform, Clock: c.Clock}
	reconciler := &seinode.Reconciler{Platform: c.Platform, Clock: c.Clock, Budget: shared, Metrics: metrics, Tools: tools}
	if err := seinode.Setup(m, reconciler, nodes); err != nil {
		return fmt.Errorf("setting up the controller of SeiNodes: %w", err)
	}
	report, err := seinodetask.NewReporter(recorder, c.Metrics)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	err = seinodetask.Setup(m, &seinodetask.Reconciler{
		Kube: tools.Kube, Agents: fleet, Peers: tools.Peers, Platform: c.Platform, Clock: c.Clock, Report: report, Wake: tasks.Wake,
	}, tasks)
	if err != nil {
		return fmt.Errorf("setting up the controller of SeiNodeTasks: %w", err)
	}
	if err := setupFleets(m, tools.Kube, shared, c.Metrics); err != nil {
		return fmt.Errorf("setting up the controller of SeiNodeDeployments: %w", err)
	}
	return m.Start(ctx)
}

func setupFleets(m manager.Manager, api *kube.Client, shared *budget.Budget, registry prometheus.Registerer) error {
	metrics, err := seinodedeployment.NewMetrics(registry)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return seinodedeployment.Setup(m, &seinodedeployment.Reconciler{
		Kube: api, Budget: shared, Recorder: m.GetEventRecorder("sei-operator"), Metrics: metrics,
	})
}

// tokenTimeout is how long the API server may take to give out a token.
const tokenTimeout = 10 * time.Second

// The leader renews its Lease every retryPeriod, and ends when it could not for
// renewDeadline. On a machine that is short of processors the usual 10 seconds are too
// few: an operator that only waited for its turn would restart, and with it every stream
// to a sidecar. Whoever ends in order gives the Lease back, and the next one starts at
// once; the one after an operator that was killed waits for leaseDuration. Nodes do not
// need the operator to stay up, so half a minute costs less than a restart in vain. The
// ten seconds between the two are for clocks that run differently, and for a leader that
// takes long to end.
const (
	leaseDuration = 30 * time.Second
	renewDeadline = 20 * time.Second
	retryPeriod   = 4 * time.Second
)

// drainTimeout is how long a reconcile may take to come to an end at a shutdown.
const drainTimeout = 10 * time.Second

// leaderElection are the options of the manager about that.
func leaderElection(c Config) manager.Options {
	return manager.Options{
		LeaderElection: c.LeaderElection, LeaderElectionID: "sei-operator", LeaderElectionNamespace: c.Namespace,
		// Whoever comes next need not wait for the lease to run out.
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(leaseDuration), RenewDeadline: new(renewDeadline), RetryPeriod: new(retryPeriod),
	}
}

func newManager(ctx context.Context, config *rest.Config, c Config) (manager.Manager, error) {
	scheme, err := kube.NewScheme()
	if err != nil {
		return nil, err
	}
	cached, err := kube.CacheOptions(c.Resync, c.Namespace)
	if err != nil {
		return nil, err
	}
	if c.WatchNamespace != "" {
		cached.DefaultNamespaces = map[string]cache.Config{c.WatchNamespace: {}}
		kube.AlsoSecretsOf(cached, c.WatchNamespace, c.Namespace)
	}
	options := leaderElection(c)
	options.Scheme, options.Cache, options.Client = scheme, cached, client.Options{Cache: kube.ClientCacheOptions()}
	options.Logger, options.Metrics, options.HealthProbeBindAddress = c.Log, server.Options{BindAddress: c.MetricsAddress}, c.HealthAddress
	options.GracefulShutdownTimeout = new(drainTimeout)
	m, err := manager.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	if err := kube.AddIndexes(ctx, m.GetFieldIndexer()); err != nil {
		return nil, err
	}
	if err := m.AddHealthzCheck("alive", healthz.Ping); err != nil {
		return nil, err
	}
	return m, m.AddReadyzCheck("alive", healthz.Ping)
}
