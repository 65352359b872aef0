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
	// The name sorts by time.
	return os.MkdirTemp(runs, time.Now().UTC().Format("20060102-150405.000-"))
}

// pruneRuns leaves alone what a living cluster uses.
func pruneRuns(runs string) {
	old, err := filepath.Glob(filepath.Join(runs, "*"))
	if err != nil || len(old) < keepRuns {
		return
	}
	slices.Sort(old)
	for _, dir := range old[:len(old)-keepRuns+1] {
		lock, err := build.TryLock(paths{dir}.lock())
		if err != nil {
			continue
		}
		_ = os.RemoveAll(dir)
		lock.Unlock()
	}
}
