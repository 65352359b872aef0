//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/kube"
)

// cacheVariable says where everything is that the lab keeps.
const cacheVariable = "SEI_LAB_CACHE"

// ownCache is a cache of the test's own, but for the binaries.
type ownCache string

func newCache(t *testing.T) ownCache {
	t.Helper()
	root, err := build.CacheRoot()
	if err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	if err := os.Symlink(filepath.Join(root, "bin"), filepath.Join(own, "bin")); err != nil {
		t.Fatal(err)
	}
	return ownCache(own)
}

// lab runs a command to its end and returns its output.
func (c ownCache) lab(t *testing.T, wantCode int, arguments ...string) string {
	t.Helper()
	output, code := c.try(t, arguments...)
	if code != wantCode {
		t.Fatalf("%q: exit code %d\n%s", arguments, code, output)
	}
	return output
}

// try is lab for a command that may fail.
func (c ownCache) try(t *testing.T, arguments ...string) (output string, code int) {
	t.Helper()
	command := lab(t, arguments...)
	command.Env = append(command.Env, cacheVariable+"="+string(c))
	return finish(t, command)
}

func finish(t *testing.T, command *exec.Cmd) (output string, code int) {
	t.Helper()
	content, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(content), command.ProcessState.ExitCode()
}

// info is what is known about a background cluster that runs.
func (c ownCache) info(t *testing.T, which string) kube.Info {
	t.Helper()
	var info kube.Info
	if err := json.Unmarshal([]byte(read(t, filepath.Join(string(c), which, "info.json"))), &info); err != nil {
		t.Fatal(err)
	}
	return info
}
