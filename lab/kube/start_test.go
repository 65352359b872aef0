package kube

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/process"
)

// TestDaemonThatCannotStartIsNamed: the API server waits for etcd in vain, but it
// is etcd that has to be named.
func TestDaemonThatCannotStartIsNamed(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"server":         "echo bad flag; exit 3",
		"kube-apiserver": "sleep 1000",
	} {
		must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	result := &build.Result{Dir: bin, Version: "v1"}
	dir := t.TempDir()
	_, err := Start(t.Context(), dir, &build.ControlPlane{Kubernetes: result, Etcd: result, Kwok: result}, Options{})
	var exit *process.ExitError
	if !errors.As(err, &exit) || exit.Name != "etcd" {
		t.Fatalf("error: %v", err)
	}
	for _, part := range []string{"exit status 3", "bad flag", filepath.Join(dir, "logs", "etcd.log")} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("missing %q in %v", part, err)
		}
	}
	if exists(filepath.Join(dir, "state")) {
		t.Error("the state is left behind")
	}
}

// TestDeathAtTheLastMomentIsNotMissed: nobody would hear of it again.
func TestDeathAtTheLastMomentIsNotMissed(t *testing.T) {
	c := &Cluster{group: process.NewGroup()}
	defer c.group.Stop()
	_, err := c.group.Start(process.Spec{Name: "daemon", Path: "/bin/false", Log: filepath.Join(t.TempDir(), "log")})
	must(t, err)
	err = c.whileAllRun(t.Context(), func(ctx context.Context) error {
		<-ctx.Done() // It is dead, and we were done nevertheless.
		return nil
	})
	var exit *process.ExitError
	if !errors.As(err, &exit) || exit.Name != "daemon" {
		t.Errorf("error: %v", err)
	}
}
