package kube

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sei-operator/sei-operator/lab/build"
)

func TestOldRunsArePruned(t *testing.T) {
	runs := t.TempDir()
	first, err := NewRunDir(runs)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := build.TryLock(paths{first}.lock())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	// One that leads to cgroups has to be cleaned up first.
	second, err := NewRunDir(runs)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(second, "node"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range keepRuns + 5 {
		if _, err := NewRunDir(runs); err != nil {
			t.Fatal(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(runs, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != keepRuns+2 {
		t.Errorf("%d left", len(left))
	}
	for what, dir := range map[string]string{"a living cluster": first, "a killed node": second} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("the directory of %s is gone: %v", what, err)
		}
	}
}

func TestForeignStateIsNotRemoved(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "state", "precious")
	if err := os.MkdirAll(precious, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{paths: paths{dir}}
	if err := c.prepare(t.Context()); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}
