package engine

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// Definition is a type of task.
type Definition struct {
	Type string
	// Deadline is how long one run may take. Every type has one: a task that waits
	// for ever is a task that nobody notices. It counts while the sidecar is away too:
	// what nobody waits for any more must not happen out of the blue.
	Deadline time.Duration
	// Outlasts makes a run that has a checkpoint, and that the sidecar was away from, begin
	// its deadline anew, so that it can find out what became of its effect. When it is Late
	// it may only do that. A run that was accepted and has not begun must not begin after its deadline.
	// A type that comes First is carried out in any case.
	Outlasts bool
	// Exclusive tasks run one at a time, in the order of submission. They are those
	// that change the seid process or its files.
	Exclusive bool
	// First makes unfinished tasks of this type resume before all others, whenever
	// they were submitted. It is for a hold.
	First bool
	// Decode turns params, always a JSON object, into a payload or refuses them.
	Decode func(json.RawMessage) (any, error)
	// Run does the work. It is called again after a crash, so it has to be
	// idempotent, with the help of checkpoints where the work is not. When its
	// context ends it has to return soon. The result is kept also beside an error.
	Run func(context.Context, Execution) (result any, err error)
}

// Execution is one run of a task, as its handler sees it.
type Execution interface {
	ID() uuid.UUID
	// Run counts the runs of this id, from 1. A run that a crash cut in two is one.
	Run() int
	// Sequence is the place of this run in the order of submission. It is durable, so
	// that the next sidecar knows too what came first.
	Sequence() uint64
	// Resumed tells whether an earlier sidecar took this run.
	Resumed() bool
	// Late tells whether the deadline that the run had at its beginning has passed. A run
	// that goes on after it (Outlasts) may find out and tell what became of it, and must
	// begin nothing: its caller has given up.
	Late() bool
	// Payload is what Decode made of the params.
	Payload() any
	Log() *slog.Logger
	// Checkpoint makes durable how far this run has come. Call it before an effect
	// that must not happen twice, and do not go on if it fails.
	Checkpoint(v any) error
	// Resume reads the last checkpoint of this run into v, and tells whether there
	// is one.
	Resume(v any) (bool, error)
}

// Store is where tasks are kept; *store.Store is one. Every method but the reading
// ones is a transition that survives a crash, so a test that wraps a Store can fail
// or stop the engine before and after each of them.
type Store interface {
	Get(uuid.UUID) (store.Task, error)
	List(limit int) ([]store.Task, error)
	Unfinished() ([]store.Task, error)
	Put(store.Task) (store.Task, error)
	Delete(uuid.UUID) error
	SaveCheckpoint(store.Task, json.RawMessage) error
	LoadCheckpoint(id uuid.UUID, run int) (json.RawMessage, error)
}

// Change is a durable change of a task.
type Change struct {
	Task    store.Task
	Deleted bool
}
