// Package serve puts the sidecar together: what it knows, what it may do, and the
// API by which it is asked.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/configure"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/egress"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/loopback"
	"github.com/sei-operator/sei-operator/internal/sidecar/node"
	"github.com/sei-operator/sei-operator/internal/sidecar/server"
	"github.com/sei-operator/sei-operator/internal/sidecar/signer"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
	"github.com/sei-operator/sei-operator/internal/signing"
)

// stateDir is where the sidecar keeps what it must not forget, on the data volume.
const stateDir = ".sei-sidecar"

// drain is how long running tasks have to come to a point from which the next
// sidecar can go on.
const drain = 10 * time.Second

// Config is what a sidecar is started with.
type Config struct {
	// Home is seid's home directory, on the data volume.
	Home seid.Home
	// NodeUID is the uid of the SeiNode that this pod belongs to.
	NodeUID string
	// Listen is where the API listens, host:port.
	Listen string
	// LoopbackDir is what the sidecar shares with the access proxy, if there is one:
	// then it answers nobody else.
	LoopbackDir string
	// Socket is that of the supervisor.
	Socket string
	// Document is the file into which the operator's configuration is mounted.
	Document string
	// GenesisDir is where a genesis ConfigMap is mounted.
	GenesisDir string
	// RPC and Metrics are where seid listens, as host:port.
	RPC, Metrics string
	// WrapStore comes between the engine and its store; nil for nothing. Tests end the
	// process there.
	WrapStore func(engine.Store) engine.Store
	Log       *slog.Logger
}

// Run is the sidecar until the context ends. seid is not touched by its end.
func Run(ctx context.Context, cfg Config, listening func(net.Addr)) (err error) {
	// Whatever ends first ends the rest.
	ctx, end := context.WithCancel(ctx)
	defer end()
	dir := filepath.Join(string(cfg.Home), stateDir)
	// The store's lock keeps a second sidecar out of this home, so it comes first.
	tasksStore, err := store.Open(dir, store.Options{Log: cfg.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tasksStore.Close()) }()
	// Approval and hold before anything that could act on them.
	allowed, err := consent.Open(dir, cfg.NodeUID, nil)
	if err != nil {
		return err
	}
	// Before the first task is taken; follow does it from then on.
	tasksStore.After(allowed.Sequence())
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second}}
	defer client.CloseIdleConnections()
	witnesses := egress.NewWitnessClient()
	rpc, err := seid.NewClient(client, "http://"+cfg.RPC)
	if err != nil {
		return err
	}
	config := configure.New(cfg.Home, dir, cfg.Document)
	seidSupervisor := supervisor.NewClient(cfg.Socket)
	key := signer.New(signer.Options{
		Home: cfg.Home, Consent: allowed, Mounted: beside(cfg.Document, signing.File), HTTP: egress.NewSurveyClient(), Log: cfg.Log,
		ChainID: func() string { return chainOf(config) },
	})
	observed := node.New(node.Options{
		Home: cfg.Home, Consent: allowed, Config: config, Supervisor: seidSupervisor, Signer: key,
		RPC: rpc, HTTP: client, Witnesses: witnesses, Metrics: "http://" + cfg.Metrics + "/metrics", Log: cfg.Log,
	})
	var kept engine.Store = tasksStore
	if cfg.WrapStore != nil {
		kept = cfg.WrapStore(kept)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(observed)
	bus := server.NewBus(0)
	runner, err := engine.New(engine.Options{
		Store: kept, Log: cfg.Log, Notify: bus.Task, Registerer: registry,
		Definitions: tasks.Definitions(tasks.Dependencies{
			Home: cfg.Home, Consent: allowed, Supervisor: seidSupervisor, Signer: key, Config: config,
			GenesisDir: cfg.GenesisDir, LocalRPC: rpc, HTTP: witnesses,
			Downloads: egress.NewClient(http.ProxyFromEnvironment, egress.Check), Clock: clock.RealClock{},
		}),
	})
	if err != nil {
		return err
	}
	answers, err := server.New(server.Options{
		NodeUID: cfg.NodeUID, Engine: runner, Consent: allowed, Node: observed, Bus: bus, Gatherer: registry,
		AccessControl: cfg.LoopbackDir != "",
		Problems:      func() []api.Problem { return problems(tasksStore) }, Log: cfg.Log,
	})
	if err != nil {
		return err
	}
	listener, err := listen(ctx, cfg)
	if err != nil {
		return err
	}
	listening(listener.Addr())
	var driving sync.WaitGroup
	driving.Go(func() { follow(ctx, allowed, tasksStore.After) })
	driving.Go(func() {
		// A hold that was accepted and is unfinished comes before the driver may
		// start anything.
		runner.Resume(ctx)
		observed.Run(ctx)
	})
	err = answers.Run(ctx, listener)
	end()
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err = errors.Join(err, runner.Close(draining))
	driving.Wait()
	return err
}

// follow tells after the place of the hold, whenever it may have changed: a release has to
// come after the hold that it ends, also in a store that is new. A hold that could not be
// read at the start may be read later.
func follow(ctx context.Context, allowed *consent.Consent, after func(uint64)) {
	for {
		changed := allowed.Changed()
		after(allowed.Sequence())
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// beside is another file of the directory that a file is in; empty without one.
func beside(file, other string) string {
	if file == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(file), other)
}

// chainOf is the chain that the node was configured for; empty before that.
func chainOf(config *configure.Configurator) string {
	record, err := config.Record()
	if err != nil || record.Document == nil {
		return ""
	}
	return record.Document.ChainID
}

// listen opens the API, with access control only to who has the certificate.
func listen(ctx context.Context, cfg Config) (net.Listener, error) {
	var secure *tls.Config
	if cfg.LoopbackDir != "" {
		err := loopback.Ensure(cfg.LoopbackDir)
		if err == nil {
			secure, err = loopback.ServerConfig(cfg.LoopbackDir)
		}
		if err != nil {
			return nil, err
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("the API cannot listen at %s: %w", cfg.Listen, err)
	}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	return listener, nil
}

func problems(s *store.Store) []api.Problem {
	var found []api.Problem
	for _, problem := range s.Problems() {
		found = append(found, api.Problem{Reason: problem.Reason, Message: problem.Message})
	}
	return found
}
