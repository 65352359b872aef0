package tasks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/sei-operator/sei-operator/internal/durable"
	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// ResetData removes the chain's data from the volume of a held node that does not
// sign. Configuration, keys and the sidecar's own files stay.
type ResetData struct{}

// ResetDataResult tells what is gone and what is not.
type ResetDataResult struct {
	Changed bool `json:"changed"`
	// RemovedBytes is the size of the files, not what they took on the disk.
	RemovedBytes int64 `json:"removedBytes"`
	// Removed are the entries of data and wasm that were removed, a thousand at most.
	Removed []string `json:"removed"`
	// Kept is what else is in the home.
	Kept []string `json:"kept"`
}

// resetData keeps the signing state in place until the end: it is proven to be
// fresh, and so a crash at any moment leaves one that is.
func (t *tasks) resetData(ctx context.Context, _ engine.Execution, _ ResetData) (any, error) {
	if !t.Consent.State().Held {
		return nil, engine.Terminal(ReasonNotHeld, "nothing was removed: the node is not held, so seid might start meanwhile; hold it first")
	}
	if err := t.provenStopped(ctx); err != nil {
		return nil, err
	}
	if because := t.mayHaveSigned(); because != "" {
		return nil, engine.Terminal(ReasonSigningKeyPresent, "nothing was removed: %s; a signing key whose state is lost can sign twice", because)
	}
	home, err := os.OpenRoot(string(t.Home))
	if err != nil {
		return nil, volumeError(err)
	}
	defer func() { _ = home.Close() }()
	w := wiper{tasks: t, home: home, result: ResetDataResult{Removed: []string{}}}
	if w.result.Kept, err = keptIn(home); err != nil {
		return w.result, volumeError(err)
	}
	for _, dir := range []string{filepath.Base(t.Home.Data()), filepath.Base(t.Home.Wasm())} {
		if err := w.empty(ctx, dir); err != nil {
			return w.result, err
		}
	}
	if err := w.freshSignState(); err != nil {
		return w.result, volumeError(err)
	}
	// Whoever started seid behind everybody's back has a seid without its data.
	if err := t.provenStopped(ctx); err != nil {
		return w.result, fmt.Errorf("the data was removed, but do it again: %w", err)
	}
	return w.result, nil
}

// provenStopped is nil when seid's parent says that there is no seid.
func (t *tasks) provenStopped(ctx context.Context) error {
	t.Consent.Settled()
	state, err := t.Supervisor.State(ctx)
	if err != nil {
		return engine.Retryable(ReasonSupervisorUnreachable, "nobody can tell whether seid runs: %w", err)
	}
	if state.PID != 0 {
		return engine.Retryable(ReasonSeidRunning, "seid is %s (instance %s, pid %d); stop it first", state.State, state.Instance, state.PID)
	}
	return nil
}

// mayHaveSigned says why a signing key matters on this volume, or nothing. What
// cannot be read counts as the worst it could say.
func (t *tasks) mayHaveSigned() string {
	state := t.Consent.State()
	if state.Approval != nil && state.Approval.PublicKey != "" {
		return "the node is approved to sign with the key " + state.Approval.PublicKey
	}
	for _, problem := range state.Problems {
		if problem.Reason == consent.ReasonApprovalUnreadable {
			return "it cannot be told whether the node signs: " + problem.Message
		}
	}
	record, err := t.Config.Record()
	if err != nil {
		return "it cannot be told whether the node is a validator: " + err.Error()
	}
	mode, err := t.configuredMode()
	if err != nil {
		return "it cannot be told whether the node is a validator: " + err.Error()
	}
	if record.Document != nil && record.Document.Mode == seid.ModeValidator || mode == "validator" {
		return "the node is configured as a validator"
	}
	signed, err := seid.ReadSignState(t.Home.SignState())
	switch {
	case errors.Is(err, seid.ErrSignStateMissing):
		return ""
	case err != nil:
		return "it cannot be told what was signed: " + err.Error()
	case !signed.Fresh():
		return fmt.Sprintf("blocks were signed up to height %d", signed.Height)
	}
	return ""
}

// keptIn is what of a home is not touched.
func keptIn(home *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(home.FS(), ".")
	if err != nil {
		return nil, err
	}
	kept := []string{}
	for _, entry := range entries {
		if entry.Name() != "data" && entry.Name() != "wasm" {
			kept = append(kept, entry.Name())
		}
	}
	for _, key := range []string{"config/node_key.json", "config/priv_validator_key.json"} {
		if _, err := home.Lstat(key); err == nil {
			kept = append(kept, key)
		}
	}
	slices.Sort(kept)
	return kept, nil
}

type wiper struct {
	*tasks
	home   *os.Root
	result ResetDataResult
}

// empty removes what is in a directory of the home, but not the signing state. A
// link is removed and not followed; one in place of the directory itself leads to
// a place nobody said anything about.
func (w *wiper) empty(ctx context.Context, name string) error {
	info, err := w.home.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return volumeError(err)
	}
	if !info.IsDir() {
		return engine.Terminal(ReasonUnexpectedLayout, "nothing in %s was removed: it is not a directory but %s", filepath.Join(string(w.Home), name), info.Mode().Type())
	}
	dir, err := w.home.OpenRoot(name)
	if err != nil {
		return volumeError(err)
	}
	defer func() { _ = dir.Close() }()
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return volumeError(err)
	}
	for _, entry := range entries {
		path := filepath.Join(name, entry.Name())
		if filepath.Join(string(w.Home), path) == w.Home.SignState() {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		size := sizeOf(dir, entry.Name())
		if err := w.do("removal of "+path, func() error { return dir.RemoveAll(entry.Name()) }); err != nil {
			return volumeError(err)
		}
		w.result.Changed = true
		w.result.RemovedBytes += size
		if len(w.result.Removed) < maxEntries {
			w.result.Removed = append(w.result.Removed, path)
		}
	}
	if err := syncDir(dir); err != nil {
		return volumeError(err)
	}
	return nil
}

// sizeOf is for people; what cannot be read counts nothing.
func sizeOf(dir *os.Root, name string) int64 {
	var total int64
	_ = fs.WalkDir(dir.FS(), name, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // an entry without a size does not keep others from having one
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	return total
}

func syncDir(dir *os.Root) error {
	file, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// freshSignState leaves a data directory as "seid init" does: seid does not start
// with a key and no signing state, though it never signs with it.
func (w *wiper) freshSignState() error {
	switch err := w.home.Mkdir("data", 0o750); {
	case err == nil:
		w.result.Changed = true
		if err := errors.Join(w.home.Chmod("data", 0o750), syncDir(w.home)); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	content, err := os.ReadFile(w.Home.SignState())
	if err == nil && bytes.Equal(content, seid.FreshSignState()) {
		return nil
	}
	w.result.Changed = true
	return w.do("signing state", func() error {
		return durable.Replace(w.Home.SignState(), seid.FreshSignState(), 0o600)
	})
}
