package nodes

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// Outcomes that are no failures; the outcome of a failed run is its reason.
const (
	Running = "Running" // or cut short with its pod; the next one goes on with the same run
	Done    = "Done"
	Deleted = "Deleted"
)

// Entry is one run of a task.
type Entry struct {
	ID     uuid.UUID
	Type   string
	Run    int
	Params json.RawMessage
	// Outcome is Running, Done, Deleted, or the reason of the failure.
	Outcome string
}

// volume is what outlives a pod.
type volume struct {
	claim types.UID
	dir   string // of approval and hold
	tasks *memory
	// turn is held by the sidecar that uses the volume, as the lock of a real store is.
	turn chan struct{}

	mu     sync.Mutex
	ledger []*Entry
	config api.Config
	// document is nil before the first one.
	document *seid.Intent
	peers    []string
	// genesis is the checksum of the file that was put in place; empty for that of
	// "seid init".
	genesis string
	// hasData: seid has run on it.
	hasData bool
}

func newVolume(dir string, claim types.UID) *volume {
	return &volume{claim: claim, dir: filepath.Join(dir, string(claim)), tasks: newMemory(), turn: make(chan struct{}, 1)}
}

// nodeID and publicKey are of the keys that "seid init" made.
func (v *volume) nodeID() string {
	sum := sha256.Sum256([]byte("node key of " + v.claim))
	return hex.EncodeToString(sum[:20])
}

func (v *volume) publicKey() string {
	sum := sha256.Sum256([]byte("signing key of " + v.claim))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// began notes a run, and tells whether it is a new one: a run that a restart cut in
// two is one.
func (v *volume) began(t store.Task) (Entry, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.entry(t); e != nil {
		return *e, false
	}
	e := &Entry{ID: t.ID, Type: t.Type, Run: t.Run, Params: t.Params, Outcome: Running}
	v.ledger = append(v.ledger, e)
	return *e, true
}

// noted is told of every durable change of a task.
func (v *volume) noted(c engine.Change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.entry(c.Task)
	switch {
	case e == nil:
	case c.Deleted && e.Outcome == Running:
		e.Outcome = Deleted
	case c.Task.Status == store.Completed:
		e.Outcome = Done
	case c.Task.Status == store.Failed:
		e.Outcome = c.Task.Reason
	}
}

// entry finds the latest with this id and run; after a deletion there may be another.
func (v *volume) entry(t store.Task) *Entry {
	for _, e := range slices.Backward(v.ledger) {
		if e.ID == t.ID && e.Run == t.Run && e.Outcome != Deleted {
			return e
		}
	}
	return nil
}

func (v *volume) entries() []Entry {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]Entry, len(v.ledger))
	for i, e := range v.ledger {
		out[i] = *e
	}
	return out
}

// errOlder is the answer to a document that is older than the one applied.
var errOlder = errors.New("a newer configuration is applied already")

// apply makes a document the configuration, and tells whether that changed it.
func (v *volume) apply(document seid.Intent) (changed bool, err error) {
	if _, err := filesOf(document); err != nil {
		return false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if document.Serial < v.config.Serial {
		return false, fmt.Errorf("%w: serial %d, and this one is %d", errOlder, v.config.Serial, document.Serial)
	}
	hash := seid.Hash(document)
	changed = hash != v.config.Hash || !slices.Equal(v.peers, document.Peers)
	v.config = api.Config{Hash: hash, Serial: document.Serial}
	v.document, v.peers = &document, document.Peers
	return changed, nil
}

// filesOf is what a document makes of empty files. Types and names of keys are checked
// as on the real ones, because seid's schema is known.
func filesOf(document seid.Intent) (seid.Files, error) {
	want, err := seid.Desired(document)
	if err != nil {
		return nil, err
	}
	files, _, err := seid.Files{}.Edit(want)
	return files, err
}

// mode is that of the applied document.
func (v *volume) mode() seid.Mode {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.document == nil {
		return ""
	}
	return v.document.Mode
}

func (v *volume) setPeers(peers []string) (changed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	changed = strings.Join(v.peers, ",") != strings.Join(peers, ",")
	v.peers = peers
	return changed
}

func (v *volume) applied() api.Config {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.config
}

func (v *volume) setData(present bool) (was bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was, v.hasData = v.hasData, present
	return was
}
