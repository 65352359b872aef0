package probe_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sei-operator/sei-operator/internal/sidecar/probe"
)

func TestStoppable(t *testing.T) {
	status := filepath.Join(t.TempDir(), "status")
	// All at once, as in /proc: nobody reads a half of it.
	write := func(content string) {
		t.Helper()
		if err := cmp.Or(os.WriteFile(status+".new", []byte(content), 0o600), os.Rename(status+".new", status)); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		// SIGINT and SIGHUP, but not SIGTERM.
		write("Name:\tseid\nSigCgt:\t0000000000000003\nThreads:\t1\n")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := probe.Stoppable(ctx, status, ""); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("a process that catches something else: %v after %s", err, time.Since(began))
		}
		// What the program before it caught says nothing about this one.
		write("Name:\tsei-sidecar\nSigCgt:\tfffffffd7fc1feff\n")
		time.AfterFunc(time.Second, func() { write("Name:\tsei-rbac-proxy\nSigCgt:\tfffffffd7fc1feff\n") })
		if err := probe.Stoppable(t.Context(), status, "sei-rbac-proxy"); err != nil || time.Since(began) < 2*time.Second {
			t.Errorf("a process that catches it in the end: %v after %s", err, time.Since(began))
		}
	})
	for what, content := range map[string]string{"no signals": "Name:\tseid\n", "rubbish": "SigCgt:\tall\n"} {
		write(content)
		if err := probe.Stoppable(t.Context(), status, ""); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if err := probe.Stoppable(t.Context(), filepath.Join(t.TempDir(), "none"), ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no process: %v", err)
	}
	// This process is one that catches it: every program in Go does, from early on.
	if err := probe.Stoppable(t.Context(), "/proc/self/status", ""); err != nil {
		t.Error(err)
	}
}
