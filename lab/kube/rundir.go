package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sei-operator/sei-operator/lab/build"
)

// keepRuns is how many directories of earlier runs are kept for their logs.
const keepRuns = 10

// NewRunDir makes a directory for one run, and removes those of long ago.
func NewRunDir(runs string) (string, error) {
	if err := os.MkdirAll(runs, 0o755); err != nil {
		return "", fmt.Errorf("cannot create a directory for the cluster: %w", err)
	}
	pruneRuns(runs)
	// The name sorts by time, also if several are made at once.
	return os.MkdirTemp(runs, time.Now().UTC().Format("20060102-150405.000000-"))
}

// pruneRuns leaves alone what a living cluster uses, and what is not a cluster's: that
// is a node's, which runs, or has not been cleaned up.
func pruneRuns(runs string) {
	old, err := filepath.Glob(filepath.Join(runs, "*"))
	if err != nil || len(old) < keepRuns {
		return
	}
	slices.Sort(old)
	for _, dir := range old[:len(old)-keepRuns+1] {
		if !onlyOurs(paths{dir}) {
			continue
		}
		lock, err := build.TryLock(paths{dir}.lock())
		if err != nil {
			continue
		}
		_ = os.RemoveAll(dir)
		lock.Unlock()
	}
}

func onlyOurs(p paths) bool {
	entries, err := os.ReadDir(p.dir)
	return err == nil && !slices.ContainsFunc(entries, func(entry os.DirEntry) bool {
		path := filepath.Join(p.dir, entry.Name())
		return entry.IsDir() && path != p.logs() && path != p.state()
	})
}
