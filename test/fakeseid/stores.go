package fakeseid

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// What of the stores a test can look at. A block store is there once seid was
// started, with no block in it. The mark is there while a seid has the stores open,
// and the rewrite while it writes on in closing: both stay when it dies.
const (
	blockStore = "data/tendermint/blockstore.db"
	openMark   = "data/stores-open"
	rewriting  = "data/state_commit-tmp"
)

// openStores leaves what an opened database without data leaves.
func openStores(home string) error {
	if _, err := os.Stat(filepath.Join(home, "data")); home == "" || err != nil {
		return nil //nolint:nilerr // a home without data is that of a test that needs none
	}
	dir := filepath.Join(home, blockStore)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"LOCK": "", "LOG": "=============== Jan 1, 2026 (UTC) ===============\n", "000001.log": "",
		"MANIFEST-000000": "\x56\xf9\xb8\xf8\x1c\x00\x01\x01\x1aleveldb.BytewiseComparator", "CURRENT": "MANIFEST-000000\n",
	} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(home, openMark), nil, 0o600)
}

// writing is held by whoever changes the stores.
var writing sync.Mutex

// keepWriting writes until the process ends.
func keepWriting(home string) {
	for {
		writing.Lock()
		file, err := os.OpenFile(filepath.Join(home, rewriting), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, _ = file.WriteString("half a snapshot\n")
			_ = file.Close()
		}
		writing.Unlock()
		<-time.After(5 * time.Millisecond)
	}
}

// closeStores is the last thing that a seid does to them.
func closeStores(home string) error {
	writing.Lock()
	for _, name := range []string{rewriting, openMark} {
		if err := os.Remove(filepath.Join(home, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// StoresClean tells whether the last seid of a home closed its stores.
func StoresClean(tb testing.TB, home string) bool {
	tb.Helper()
	for _, name := range []string{rewriting, openMark} {
		if _, err := os.Stat(filepath.Join(home, name)); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}
