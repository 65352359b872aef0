// Package configure makes seid's configuration files what the operator's document
// says, and remembers what it did.
//
// It works on the files as they are: comments, keys it knows nothing of and what
// other tasks wrote stay. A key that a later document no longer mentions gets back
// the value it had before it was first set, so that the files follow from the
// document and not from the documents before it.
package configure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sei-operator/sei-operator/internal/durable"
	"github.com/sei-operator/sei-operator/internal/seid"
)

// recordFile is what is remembered, in the directory of the sidecar.
const recordFile = "configuration.json"

// ErrOlder is the answer to a document older than the one that is applied: the
// kubelet refreshes a mounted document minutes late, and must not undo a newer one.
var ErrOlder = errors.New("a newer configuration is applied already")

// Record is what was applied last.
type Record struct {
	// Serial and Hash are those of the document that is applied in full.
	Serial int64  `json:"serial"`
	Hash   string `json:"hash"`
	// Wishes identifies what was made of it; a newer sidecar may make something else.
	Wishes string `json:"wishes,omitempty"`
	// Document is the document itself; nil before the first one.
	Document *seid.Intent `json:"document,omitempty"`
	// NotKnown are the fields of the document that the sidecar which applied it did not
	// know. A later one may, and has to apply it again.
	NotKnown []string `json:"notKnown,omitempty"`
	// Originals are the values that keys had before they were first set.
	Originals seid.Originals `json:"originals"`
}

// Outcome is what applying a document did.
type Outcome struct {
	Serial  int64         `json:"serial"`
	Hash    string        `json:"hash"`
	Changes []seid.Change `json:"changes"`
	// NotKnown are the fields of the document that were left out.
	NotKnown []string `json:"notKnown,omitempty"`
}

// Configurator applies documents to the files of one home. It is safe for
// concurrent use.
type Configurator struct {
	home    seid.Home
	record  string
	mounted string

	mu sync.Mutex
	// known is what the record is known to be, for those who must not wait for a disk.
	known atomic.Pointer[Record]
}

// New makes a configurator for a home. dir is the directory of the sidecar on the
// data volume, mounted the file into which the operator's document is mounted.
func New(home seid.Home, dir, mounted string) *Configurator {
	return &Configurator{home: home, record: filepath.Join(dir, recordFile), mounted: mounted}
}

// Record is what was applied last; empty when nothing was. Once it was read it is
// answered from memory.
func (c *Configurator) Record() (Record, error) {
	if known := c.known.Load(); known != nil {
		return *known, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

// Apply makes the files what the document says. A document that is applied already
// is applied again, because somebody may have edited the files.
func (c *Configurator) Apply(intent seid.Intent) (Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	record, err := c.read()
	if err != nil {
		return Outcome{}, err
	}
	if intent.Serial < record.Serial {
		return Outcome{}, fmt.Errorf("%w: serial %d, and this one is %d", ErrOlder, record.Serial, intent.Serial)
	}
	return c.apply(record, intent, false)
}

// ApplyMounted applies the mounted document if it is newer than what is applied,
// and tells whether it was. The one that is applied is applied again when this sidecar
// makes something else of it than the one before: seid is about to start, and shall not
// wait for the next document to get what is known to be better for it. A home that is configured is left as it is when the
// document is not there; one that is not must not start with what "seid init" wrote.
func (c *Configurator) ApplyMounted() (Outcome, bool, error) {
	if c.mounted == "" {
		return Outcome{}, false, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	record, err := c.read()
	if err != nil {
		return Outcome{}, false, err
	}
	document, err := os.ReadFile(c.mounted)
	if errors.Is(err, fs.ErrNotExist) && record.Serial > 0 {
		return c.applyAgain(record, record.Document)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Outcome{}, false, fmt.Errorf("the node was never configured, and its configuration is not mounted: %w", err)
	case err != nil:
		return Outcome{}, false, fmt.Errorf("cannot read the mounted configuration: %w", err)
	}
	intent, err := seid.ParseIntent(document)
	if err != nil {
		return Outcome{}, false, err
	}
	switch {
	case intent.Serial < record.Serial:
		return c.applyAgain(record, record.Document)
	case intent.Serial == record.Serial:
		return c.applyAgain(record, &intent)
	}
	outcome, err := c.apply(record, intent, false)
	return outcome, err == nil, err
}

// applyAgain applies the document that is applied already if this sidecar makes
// something else of it. One that it would refuse stays applied as it is: a new version
// of the sidecar is no reason to keep a node from restarting.
func (c *Configurator) applyAgain(record Record, intent *seid.Intent) (Outcome, bool, error) {
	if intent == nil {
		return Outcome{}, false, nil
	}
	wishes, err := seid.Wishes(*intent)
	if err != nil || wishes == record.Wishes && slices.Equal(intent.NotKnown(), record.NotKnown) {
		return Outcome{}, false, nil //nolint:nilerr // see above
	}
	outcome, err := c.apply(record, *intent, true)
	return outcome, err == nil, err
}

// Preview is the files as they would be with the document, or as they are without
// one. Nothing is written.
func (c *Configurator) Preview(intent *seid.Intent) (seid.Files, []seid.Change, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	files, err := seid.ReadFiles(c.home)
	if err != nil || intent == nil {
		return files, nil, err
	}
	record, err := c.read()
	if err != nil {
		return nil, nil, err
	}
	after, changes, _, err := c.derive(files, record.Originals, *intent, false)
	return after, changes, err
}

// derive is the files as the document wants them. Whose layout of data is not decided
// yet gets what the mode decides; once seid has opened its stores the files keep what
// they say. If the document is applied again, the peers stay: newer ones may have been
// written beside it.
func (c *Configurator) derive(files seid.Files, originals seid.Originals, intent seid.Intent, again bool) (seid.Files, []seid.Change, seid.Originals, error) {
	want, err := seid.Desired(intent)
	if err != nil {
		return nil, nil, nil, err
	}
	if again {
		if want[seid.PersistentPeers], err = files.Text(seid.PersistentPeers); err != nil {
			return nil, nil, nil, err
		}
	}
	decided, err := c.home.HasStores()
	if err != nil {
		return nil, nil, nil, err
	}
	var began []seid.Change
	if !decided {
		if files, began, originals, err = files.Begin(seid.OnEmptyVolume(intent.Mode), originals); err != nil {
			return nil, nil, nil, err
		}
	}
	after, changes, originals, err := files.Converge(want, originals)
	return after, seid.Following(began, changes), originals, err
}

// Edit changes single values beside the document, and tells what changed. The
// document wins where both set a key.
func (c *Configurator) Edit(changes seid.Changes) ([]seid.Change, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return seid.Apply(c.home, changes)
}

// apply writes the originals first, then the files, then what was applied: a crash
// in between leaves a record from which the same document leads to the same files.
func (c *Configurator) apply(record Record, intent seid.Intent, again bool) (Outcome, error) {
	wishes, err := seid.Wishes(intent)
	if err != nil {
		return Outcome{}, err
	}
	before, err := seid.ReadFiles(c.home)
	if err != nil {
		return Outcome{}, err
	}
	after, changes, originals, err := c.derive(before, record.Originals, intent, again)
	if err != nil {
		return Outcome{}, fmt.Errorf("the configuration was not changed: %w", err)
	}
	during := record
	during.Originals = record.Originals.With(originals)
	if err := c.write(record, during); err != nil {
		return Outcome{}, err
	}
	if err := seid.WriteFiles(c.home, after); err != nil {
		return Outcome{}, err
	}
	done := Record{Serial: intent.Serial, Hash: seid.Hash(intent), Wishes: wishes, Document: &intent, NotKnown: intent.NotKnown(), Originals: originals}
	if err := c.write(during, done); err != nil {
		return Outcome{}, err
	}
	return Outcome{Serial: done.Serial, Hash: done.Hash, Changes: changes, NotKnown: done.NotKnown}, nil
}

func (c *Configurator) read() (Record, error) {
	content, err := os.ReadFile(c.record)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{Originals: seid.Originals{}}, nil
	}
	if err != nil {
		return Record{}, fmt.Errorf("cannot read what configuration is applied: %w", err)
	}
	record := Record{Originals: seid.Originals{}}
	if err := json.Unmarshal(content, &record); err != nil {
		c.known.Store(nil)
		return Record{}, fmt.Errorf("%s is damaged: %w; remove it, and the next configuration is applied as the first", c.record, err)
	}
	c.known.Store(&record)
	return record, nil
}

func (c *Configurator) write(before, after Record) error {
	was, err := json.Marshal(before)
	if err != nil {
		return err
	}
	content, err := json.Marshal(after)
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.record); err == nil && bytes.Equal(was, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(c.record), 0o700); err != nil {
		return fmt.Errorf("cannot remember what configuration is applied: %w", err)
	}
	if err := durable.Replace(c.record, content, 0o600); err != nil {
		return err
	}
	c.known.Store(&after)
	return nil
}
