// Package app is a small key-value application on Tendermint, with snapshots and
// with upgrades as seid has them.
//
// A transaction is "key=value". The hash that the nodes of a chain agree on covers
// every pair, the height, and the upgrades.
package app

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	abci "github.com/tendermint/tendermint/abci/types"
	"github.com/tendermint/tendermint/libs/log"
	tmproto "github.com/tendermint/tendermint/proto/tendermint/types"
)

// Options are what an application is made from.
type Options struct {
	// DataDir is the data directory of the node.
	DataDir string
	// Version is that of the binary; Upgrades, if set, are the names of the upgrades
	// it can carry out, in place of those that follow from the version.
	Version  string
	Upgrades []string

	SnapshotDir        string
	SnapshotInterval   int64
	SnapshotKeepRecent int
	MinRetainBlocks    int64

	// HoldFile, while it exists, keeps blocks from being executed: the node lives and
	// answers, and its height stands still.
	HoldFile string
	// CloseFile, if it exists, says how long the state takes to be closed, such as "4m".
	CloseFile string
	// PlansShown is for how long the metrics show a plan that no block came across any more.
	PlansShown time.Duration

	// HaltHeight and HaltTime are when Halt is called, after the block was committed;
	// zero means never.
	HaltHeight int64
	HaltTime   int64
	Halt       func()

	Log log.Logger
}

// Application is the state machine of a devchain.
type Application struct {
	abci.BaseApplication

	options   Options
	log       log.Logger
	handlers  handlers
	snapshots *snapshots

	shown Shown

	mu    sync.Mutex
	store *store
	// upgraded says that this block carried out an upgrade.
	upgraded  bool
	blockTime time.Time
	restore   *restore
	writing   sync.WaitGroup
}

// New opens the application's state.
func New(options Options) (*Application, error) {
	opened, err := openStore(filepath.Join(options.DataDir, "state_commit", "devchain"))
	if err != nil {
		return nil, fmt.Errorf("failed to initialize database: %w", err)
	}
	if err := checkTorn(filepath.Join(options.DataDir, "state_commit")); err != nil {
		_ = opened.db.Close()
		return nil, fmt.Errorf("failed to initialize database: %w", err)
	}
	kept, err := openSnapshots(options.SnapshotDir)
	if err != nil {
		_ = opened.db.Close()
		return nil, fmt.Errorf("failed to open the snapshots: %w", err)
	}
	return &Application{
		options: options, log: options.Log, store: opened, snapshots: kept,
		handlers: handlers{version: options.Version, named: options.Upgrades},
		shown:    Shown{For: options.PlansShown},
	}, nil
}

// Close waits for a snapshot that is being written. The application cannot be used
// any more: the engine may still be in the middle of a block, and has to stay there
// until the process ends.
func (a *Application) Close() error {
	a.writing.Wait()
	a.mu.Lock()
	a.log.Info("Closing memiavl db...")
	a.log.Info("Closing rewrite channel...")
	if err := rewrite(filepath.Join(a.options.DataDir, "state_commit"), a.options.CloseFile); err != nil {
		return err
	}
	if err := a.snapshots.close(); err != nil {
		return err
	}
	if err := a.store.db.Close(); err != nil {
		return err
	}
	a.log.Info("Closed memiavl db.")
	a.log.Info("Pruning manager stopped")
	return nil
}

// Shown are the plans that the metrics show.
func (a *Application) Shown() []Plan { return a.shown.At(time.Now()) }

// Height is that of the last block that was committed.
func (a *Application) Height() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.store.head.Height
}

// RestoredAt is the height of the snapshot that this node began with, or zero.
func (a *Application) RestoredAt() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.store.head.RestoredAt
}

// Plan is the upgrade that is scheduled, or nil.
func (a *Application) Plan() *Plan {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.store.head.Plan
}

// Info is asked at every start.
func (a *Application) Info(abci.RequestInfo) abci.ResponseInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	info := abci.ResponseInfo{
		Data: "sei", Version: a.options.Version, AppVersion: a.store.head.AppVersion,
		LastBlockHeight: a.store.head.Height,
	}
	if info.LastBlockHeight > 0 {
		info.LastBlockAppHash = a.store.head.hash()
	}
	return info
}

// CheckTx lets in what makes sense by itself.
func (a *Application) CheckTx(request abci.RequestCheckTx) abci.ResponseCheckTx {
	if _, err := parseTx(request.Tx); err != nil {
		return abci.ResponseCheckTx{Code: 1, Codespace: "devchain", Log: err.Error()}
	}
	return abci.ResponseCheckTx{GasWanted: 1}
}

// BeginBlock carries out upgrades, or ends the process because of one.
func (a *Application) BeginBlock(request abci.RequestBeginBlock) abci.ResponseBeginBlock {
	a.hold()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store.begin(request.Header.Height)
	a.blockTime = request.Header.Time
	a.upgraded = false
	a.upgrade()
	return abci.ResponseBeginBlock{}
}

// holdInterval is how often the file is looked for.
const holdInterval = 20 * time.Millisecond

// hold waits while the file of that name exists.
func (a *Application) hold() {
	if a.options.HoldFile == "" {
		return
	}
	ticker := time.NewTicker(holdInterval)
	defer ticker.Stop()
	for {
		if _, err := os.Stat(a.options.HoldFile); err != nil {
			return
		}
		<-ticker.C
	}
}

// DeliverTx executes a transaction.
func (a *Application) DeliverTx(request abci.RequestDeliverTx) abci.ResponseDeliverTx {
	a.mu.Lock()
	defer a.mu.Unlock()
	refused := func(err error) abci.ResponseDeliverTx {
		return abci.ResponseDeliverTx{Code: 1, Codespace: "devchain", Log: err.Error()}
	}
	parsed, err := parseTx(request.Tx)
	switch {
	case err != nil:
		return refused(err)
	case parsed.cancel:
		a.store.next.Plan = nil
	case parsed.plan != nil && parsed.plan.Height <= a.store.next.Height:
		return refused(fmt.Errorf("upgrade cannot be scheduled in the past, at height %d", a.store.next.Height))
	case parsed.plan != nil:
		a.store.next.Plan = parsed.plan
		a.shown.note(*parsed.plan, time.Now())
	default:
		if err := a.store.set(parsed.key, parsed.value); err != nil {
			a.die(fmt.Sprintf("cannot read the state: %v", err))
		}
	}
	return abci.ResponseDeliverTx{GasWanted: 1, GasUsed: 1}
}

// EndBlock tells the engine the new version of the application, so that a node that
// begins with a snapshot of a later height agrees with the blocks about it.
func (a *Application) EndBlock(abci.RequestEndBlock) abci.ResponseEndBlock {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.upgraded {
		return abci.ResponseEndBlock{}
	}
	return abci.ResponseEndBlock{ConsensusParamUpdates: &tmproto.ConsensusParams{
		Version: &tmproto.VersionParams{AppVersion: a.store.next.AppVersion},
	}}
}

// Commit makes the block durable, takes a snapshot and halts, if it is time.
func (a *Application) Commit() abci.ResponseCommit {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.store.commit(); err != nil {
		a.die(fmt.Sprintf("cannot write the state: %v", err))
	}
	at := a.store.head
	if interval := a.options.SnapshotInterval; interval > 0 && at.Height%interval == 0 {
		a.takeSnapshot()
	}
	if a.haltNow(at.Height) {
		a.log.Info("halting node per configuration", "height", at.Height, "time", a.options.HaltTime)
		a.options.Halt()
	}
	response := abci.ResponseCommit{Data: at.hash()}
	if keep := a.options.MinRetainBlocks; keep > 0 && at.Height > keep {
		response.RetainHeight = at.Height - keep
	}
	return response
}

func (a *Application) haltNow(height int64) bool {
	byHeight := a.options.HaltHeight > 0 && height >= a.options.HaltHeight
	byTime := a.options.HaltTime > 0 && a.blockTime.Unix() >= a.options.HaltTime
	return byHeight || byTime
}
