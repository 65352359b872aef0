// Package tasks is what the sidecar can be asked to do to its node: one file for
// each type of task.
//
// Every task may be cut short anywhere and run again, so each of them looks at what
// is there before it acts, and says in its result what it changed. After a crash
// that is what was left to change. Where looking is not enough, above all where
// seid is stopped or restarted, a checkpoint says what was meant.
//
// Whether a seid process exists is only ever told by the supervisor, which is its
// parent. That RPC does not answer proves nothing: during a state sync it is closed
// for hours.
//
// A hold wins over everything. It neither waits for its turn nor for anybody else,
// and whatever would make seid run gives up when it meets one.
//
// mark-not-ready holds and stop-seid proves, and they stay two types. A hold that waited
// for the proof would have to be asked for again to repeat the proof. The second hold
// would take the place of a hold that another caller placed meanwhile, so that its release
// would start a seid which that caller keeps stopped. And it would hold a node again that
// was released meanwhile.
package tasks

import (
	"context"
	"iter"
	"net/http"
	"time"

	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/configure"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/signer"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// The types of tasks, as they are called on the wire.
const (
	TypeMarkReady          = "mark-ready"
	TypeMarkNotReady       = "mark-not-ready"
	TypeReleaseHold        = "release-hold"
	TypeStopSeid           = "stop-seid"
	TypeRestartSeid        = "restart-seid"
	TypeResetData          = "reset-data"
	TypeConfigureGenesis   = "configure-genesis"
	TypeConfigApply        = "config-apply"
	TypeConfigureStateSync = "configure-state-sync"
	TypeAwaitCondition     = "await-condition"
)

// Supervisor is what tasks need of the parent of seid; *supervisor.Client is one.
type Supervisor interface {
	State(context.Context) (supervisor.State, error)
	Watch(context.Context) iter.Seq2[supervisor.State, error]
	Start(context.Context, supervisor.StartRequest) (supervisor.State, error)
	Stop(context.Context, supervisor.StopRequest) (supervisor.State, error)
	Restart(context.Context, supervisor.RestartRequest) (supervisor.State, error)
}

// Dependencies are what tasks act on. All but GenesisDir are required.
type Dependencies struct {
	Home       seid.Home
	Consent    *consent.Consent
	Supervisor Supervisor
	Config     *configure.Configurator
	// GenesisDir is where a ConfigMap with genesis files is mounted; empty if none is.
	GenesisDir string
	// Signer knows what the sign state is held against.
	Signer *signer.Signer
	// LocalRPC is seid's RPC on loopback.
	LocalRPC *seid.Client
	// Downloads is for files from addresses that a user chose.
	Downloads *http.Client
	// HTTP is for witnesses, which may run beside this node. It needs no timeout: tasks have deadlines.
	HTTP  *http.Client
	Clock clock.WithTicker
}

// tasks carries them out.
type tasks struct {
	Dependencies

	maxGenesis int64
	// interrupt is called before and after every effect that outlives the sidecar;
	// tests stop the sidecar there.
	interrupt func(point string) error
}

func newTasks(d Dependencies) *tasks {
	return &tasks{Dependencies: d, maxGenesis: maxGenesis, interrupt: func(string) error { return nil }}
}

// Definitions are all types of tasks.
func Definitions(d Dependencies) []engine.Definition { return newTasks(d).definitions() }

func (t *tasks) definitions() []engine.Definition {
	return []engine.Definition{
		{Type: TypeMarkReady, Deadline: 2 * time.Minute, Exclusive: true, Decode: engine.Strict[MarkReady], Run: engine.Typed(t.markReady)},
		{Type: TypeMarkNotReady, Deadline: 2 * time.Minute, First: true, Decode: engine.Strict[MarkNotReady], Run: engine.Typed(t.markNotReady)},
		{Type: TypeReleaseHold, Deadline: 2 * time.Minute, Exclusive: true, Decode: engine.Strict[ReleaseHold], Run: engine.Typed(t.releaseHold)},
		{Type: TypeStopSeid, Deadline: stopDeadline, Exclusive: true, Decode: engine.Strict[StopSeid], Run: engine.Typed(t.stopSeid)},
		// It ends by itself at its deadline, and says what it waited for; the engine
		// would only say that time was up.
		// What was restarted while the sidecar was away must not be told as a failure: it
		// would be asked for again, and seid would restart once more.
		{Type: TypeRestartSeid, Deadline: restartDeadline + time.Minute, Exclusive: true, Outlasts: true, Decode: engine.Strict[RestartSeid], Run: engine.Typed(t.restartSeid)},
		{Type: TypeResetData, Deadline: 30 * time.Minute, Exclusive: true, Decode: engine.Strict[ResetData], Run: engine.Typed(t.resetData)},
		{Type: TypeConfigureGenesis, Deadline: 30 * time.Minute, Exclusive: true, Decode: engine.Strict[ConfigureGenesis], Run: engine.Typed(t.configureGenesis)},
		// A dry run takes its turn too, so that it judges no file that another task is
		// changing. Reading a genesis file of gigabytes takes its time.
		{Type: TypeConfigApply, Deadline: 5 * time.Minute, Exclusive: true, Decode: engine.Strict[ConfigApply], Run: engine.Typed(t.configApply)},
		{Type: TypeConfigValidate, Deadline: 5 * time.Minute, Exclusive: true, Decode: retired[configValidate], Run: engine.Typed(t.configApply)},
		{Type: TypeDiscoverPeers, Deadline: 5 * time.Minute, Exclusive: true, Decode: retired[discoverPeers], Run: engine.Typed(t.configApply)},
		{Type: TypeConfigureStateSync, Deadline: 5 * time.Minute, Exclusive: true, Decode: engine.Strict[ConfigureStateSync], Run: engine.Typed(t.configureStateSync)},
		{Type: TypeAwaitCondition, Deadline: maxAwait + time.Hour, Decode: engine.Strict[AwaitCondition], Run: engine.Typed(t.awaitCondition)},
	}
}

// do carries out an effect that outlives the sidecar.
func (t *tasks) do(effect string, fn func() error) error {
	if err := t.interrupt("before " + effect); err != nil {
		return err
	}
	if err := fn(); err != nil {
		return err
	}
	return t.interrupt("after " + effect)
}

// now is wall time: what is kept of it has to mean the same to the next sidecar.
func (t *tasks) now() time.Time { return t.Clock.Now().UTC().Round(0) }
