// Package node runs a Tendermint node with the application of a devchain, and makes
// it look and behave like seid to whoever runs it.
package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	abciclient "github.com/tendermint/tendermint/abci/client"
	abci "github.com/tendermint/tendermint/abci/types"
	"github.com/tendermint/tendermint/config"
	"github.com/tendermint/tendermint/libs/service"
	tmnode "github.com/tendermint/tendermint/node"
	"github.com/tendermint/tendermint/rpc/client/local"
	"github.com/tendermint/tendermint/types"

	"github.com/sei-operator/sei-operator/lab/devchain/app"
)

// HandlesSignals is logged when the node catches signals. seid does not tell; tests
// would have to guess otherwise.
const HandlesSignals = "devchain: signals are caught from now on"

// node is a node on its way up.
type node struct {
	settings *settings
	log      *logger
	app      *app.Application
	engine   service.Service
	front    *front

	sync blockSync
	// syncSkipped says that the engine found no need of a state sync, failed why one
	// did not succeed.
	syncSkipped bool
	failed      chan error
	started     atomic.Bool
}

// Start is "seid start". It returns when the node was told to stop, and an error if
// it could not start; the rest ends the process.
func Start(ctx context.Context, version string, flags Flags) error {
	loaded, err := load(flags)
	if err != nil {
		return err
	}
	n := &node{settings: loaded, failed: make(chan error, 1)}
	n.log, err = newLogger(os.Stdout, loaded.engine.LogLevel, hooks{
		"consensus ticker":                           n.sync.before,
		"not caught up yet":                          n.sync.after,
		"committed state":                            n.sync.advanced,
		"state sync failed; shutting down this node": n.syncFailed,
		"Found local state with non-zero height, skipping state sync": func([]any) { n.syncSkipped = true },
		foundSignature: n.signedBefore,
	})
	if err != nil {
		return err
	}
	n.sync.log = n.log.Error
	loaded.checkChainID(flags)
	loaded.checkGasPrices(n.log.Error)
	// A seed, too, opens the state, and locks it.
	if err := n.open(version); err != nil {
		return err
	}
	if loaded.engine.Mode == config.ModeSeed {
		return n.runSeed(ctx)
	}
	return n.run(ctx)
}

func (n *node) run(ctx context.Context) error {
	if err := n.create(); err != nil {
		return err
	}
	if err := errors.Join(n.sync.attach(n.engine), fillPEX(n.engine), widenQueues(n.engine)); err != nil {
		return err
	}
	if err := n.startEngine(ctx); err != nil {
		return err
	}
	if err := askHeights(ctx, n.engine); err != nil {
		return err
	}
	if err := n.front.listen(n.settings.rpc); err != nil {
		return err
	}
	startEVM(n.settings, n.front.facts)
	if err := startServices(ctx, n.settings, n.front.facts); err != nil {
		return err
	}
	n.awaitSignal(ctx) // Not before this does seid catch one.
	return n.stop()
}

// awaitSignal waits for a signal as seid does: the first is the only one that is caught.
// The handler is gone before anything is closed, so that the next signal is the end of the
// process, in the middle of whatever it writes.
func (n *node) awaitSignal(ctx context.Context) {
	signalled, uncatch := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer uncatch()
	n.log.Info(HandlesSignals)
	<-signalled.Done()
}

// open opens the application. Its state is locked: a second process on the same home
// ends here.
func (n *node) open(version string) error {
	s := n.settings
	snapshotDir := s.app.StateSync.Directory
	if snapshotDir == "" {
		snapshotDir = filepath.Join(s.home.Data(), "snapshots")
	}
	var upgrades []string
	if list, set := os.LookupEnv("UPGRADE_VERSION_LIST"); set {
		upgrades = strings.Split(list, ",")
	}
	opened, err := app.New(app.Options{
		DataDir: s.home.Data(), Version: version, Upgrades: upgrades,
		SnapshotDir: snapshotDir, SnapshotInterval: s.app.StateSync.Interval, SnapshotKeepRecent: s.app.StateSync.KeepRecent,
		MinRetainBlocks: s.app.MinRetainBlocks, HoldFile: s.home.Hold(), CloseFile: s.home.Close(),
		PlansShown: time.Duration(s.app.Telemetry.Retention) * time.Second,
		HaltHeight: s.app.HaltHeight, HaltTime: s.app.HaltTime, Halt: signalSelf,
		Log: n.log,
	})
	if err != nil {
		panic(err) // As seid does; also when the disk is full.
	}
	n.app = opened
	return registerMetrics(version, s.app.Telemetry.Enabled && s.app.Telemetry.Retention > 0, opened.Shown)
}

// signalSelf is how seid halts at a height. It takes what was said above about
// signals for itself: before they are caught they kill it.
func signalSelf() {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		_ = syscall.Kill(os.Getpid(), sig)
	}
}

// booting is the application while the engine is put together.
type booting struct {
	*app.Application

	done bool
}

// ruined is the height at which a volume was ruined.
type ruined int64

// Info notices a volume on which seid was killed between the end of a state sync and
// the next block. The engine asks for it here only if its own state is complete; one
// that was killed during the state sync simply begins it again.
func (b *booting) Info(request abci.RequestInfo) abci.ResponseInfo {
	if restored := b.RestoredAt(); !b.done && restored > 0 && restored == b.Height() {
		panic(ruined(restored))
	}
	return b.Application.Info(request)
}

// create puts the engine together, which replays what the application has missed.
func (n *node) create() (err error) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case ruined:
			err = fmt.Errorf("error starting node: error on replay: could not find FinalizeBlock responses for height #%d", int64(reason))
		default:
			panic(reason)
		}
	}()
	application := &booting{Application: n.app}
	n.engine, err = tmnode.New(n.settings.engine, n.log, abciclient.NewLocalCreator(application), nil)
	application.done = true
	if err != nil {
		if _, replay, found := strings.Cut(err.Error(), "error during handshake: "); found {
			return fmt.Errorf("error starting node: %s", replay)
		}
		return fmt.Errorf("error creating node: %w", err)
	}
	live, err := livePeers(n.engine)
	if err != nil {
		return err
	}
	n.front = newFront(n.settings.engine.RPC.ListenAddress, &facts{
		app: n.app, live: live, rpc: n.settings.rpc, gasPrices: n.settings.app.GasPrices,
		lagThreshold: n.settings.lagThreshold, validator: n.settings.engine.Mode == config.ModeValidator,
	})
	return nil
}

// startEngine returns when the node has a state: after a state sync, if it needs one.
func (n *node) startEngine(ctx context.Context) error {
	var synced <-chan struct{}
	if n.expectsStateSync(ctx) {
		var err error
		if synced, err = n.stateSynced(ctx); err != nil {
			return fmt.Errorf("error starting node: %w", err)
		}
		n.log.Info("This node needs state sync, going to perform a state sync")
	}
	if err := start(n.engine); err != nil {
		return n.orSignedBefore(err)
	}
	n.started.Store(true)
	if synced == nil {
		return nil
	}
	select {
	case <-synced:
		return nil
	case err := <-n.failed:
		return fmt.Errorf("error starting node: problem starting service '*statesync.Reactor': %w", err)
	}
}

// start tells a P2P port that is taken as seid does.
func start(engine service.Service) error {
	err := engine.Start()
	if errors.Is(err, syscall.EADDRINUSE) {
		panic(fmt.Sprintf("critical task failed: name=Run, service=router: acceptPeers: %v", err))
	}
	if err != nil {
		return fmt.Errorf("error starting node: %w", err)
	}
	return nil
}

// expectsStateSync tells whether the engine will do one: not where it has a state,
// nor where this node is the only validator.
func (n *node) expectsStateSync(ctx context.Context) bool {
	if !n.settings.engine.StateSync.Enable || n.syncSkipped {
		return false
	}
	if n.settings.engine.Mode != config.ModeValidator {
		return true
	}
	genesis, err := types.GenesisDocFromFile(n.settings.engine.GenesisFile())
	if err != nil || len(genesis.Validators) != 1 {
		return true
	}
	own, ok := n.engine.(interface{ PrivValidator() types.PrivValidator })
	if !ok {
		return true
	}
	key, err := own.PrivValidator().GetPubKey(ctx)
	return err != nil || !key.Equals(genesis.Validators[0].PubKey)
}

// stateSynced is closed when a state sync has succeeded.
func (n *node) stateSynced(ctx context.Context) (<-chan struct{}, error) {
	events, ok := n.engine.(local.NodeService)
	if !ok {
		return nil, fmt.Errorf("%T has no events", n.engine)
	}
	subscription, err := events.EventBus().Subscribe(ctx, "devchain", types.EventQueryStateSyncStatus)
	if err != nil {
		return nil, err
	}
	synced := make(chan struct{})
	go func() {
		for message := range subscription.Out() {
			if status, ok := message.Data().(types.EventDataStateSyncStatus); ok && status.Complete {
				close(synced)
				return
			}
		}
	}()
	return synced, nil
}

func (n *node) syncFailed(keyvals []any) {
	err, ok := value(keyvals, "err").(error)
	if !ok {
		err = errors.New("state sync failed")
	}
	n.failed <- err
}

// stop ends everything in seid's order.
func (n *node) stop() error {
	_ = n.front.server.Close()
	if err := n.engine.Stop(); err != nil {
		n.log.Error("failed to stop the node", "err", err)
	}
	n.log.Info("close any other open resource...")
	if err := n.app.Close(); err != nil {
		n.log.Error("error closing database", "err", err) // It ends with 0 all the same.
	}
	return nil
}

// runSeed runs a node that only tells others about peers. It hangs when it is told
// to stop, as that of seid v6.6.2 does; a second signal ends it.
func (n *node) runSeed(ctx context.Context) error {
	engine, err := tmnode.New(n.settings.engine, n.log, nil, nil)
	if err != nil {
		return fmt.Errorf("error creating node: %w", err)
	}
	if err := start(engine); err != nil {
		return err
	}
	n.awaitSignal(ctx)
	n.log.Info("Stopping Node")
	select {}
}
