package build

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWhatGoCannotBringIsNamed(t *testing.T) {
	t.Setenv("CC", "")
	t.Setenv("PATH", t.TempDir())
	err := Runc.CheckLibraries(t.Context())
	if err == nil {
		t.Fatal("nothing is missing")
	}
	contains(t, err.Error(), "runc", "gcc", "pkg-config")

	bin := t.TempDir()
	t.Setenv("PATH", bin)
	for name, script := range map[string]string{"gcc": "exit 0", "pkg-config": "exit 1"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err = Runc.CheckLibraries(t.Context()); err == nil {
		t.Fatal("nothing is missing")
	}
	contains(t, err.Error(), "libseccomp-dev")
	if err := Containerd.CheckLibraries(t.Context()); err != nil {
		t.Errorf("containerd has no C in it: %v", err)
	}
}
