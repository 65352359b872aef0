package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCgroupsOfDifferentLabsDiffer(t *testing.T) {
	a, b := CgroupOf("/a"), CgroupOf("/b")
	if a == b || a != CgroupOf("/a") {
		t.Errorf("%s and %s", a, b)
	}
	if !strings.HasPrefix(a, cgroupPrefix) || len(a) != len(cgroupPrefix)+8 {
		t.Errorf("%q", a)
	}
}

func TestRemoveTree(t *testing.T) {
	root := filepath.Join(t.TempDir(), "group")
	if err := removeTree(root); err != nil {
		t.Errorf("nothing there: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(root, "pods/one/container"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(root); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); err == nil {
		t.Error("still there")
	}
}

func TestInnermost(t *testing.T) {
	for status, want := range map[string]int{
		"Name:\tx\nNSpid:\t4242\t17\t3\nThreads:\t1\n": 3,
		"Name:\tx\nNSpid:\t4242\n":                     4242,
		"Name:\tx\n":                                   0,
		"NSpid:\n":                                     0,
	} {
		if got, ok := innermost(status); got != want || ok != (want != 0) {
			t.Errorf("%q: %d, %t", status, got, ok)
		}
	}
}

func TestVolumesAreDirectoriesOfTheNode(t *testing.T) {
	d := directories{filepath.Join(t.TempDir(), "volumes")}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}
	for range 2 { // Making it again keeps what is in it.
		if err := d.Make(volume); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(volume.Spec.Local.Path, "data"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	terms := volume.Spec.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 || terms[0].MatchExpressions[0].Values[0] != nodeName {
		t.Errorf("affinity: %+v", terms)
	}
	for range 2 {
		if err := d.Destroy(volume); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(volume.Spec.Local.Path); err == nil {
		t.Error("the data is still there")
	}
}

func TestBringIn(t *testing.T) {
	dir, source := t.TempDir(), t.TempDir()
	file := filepath.Join(source, "file.yaml")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	copies, err := bringIn(dir, "install", []string{file, source})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{copies[0], filepath.Join(copies[1], "file.yaml")} {
		if content, err := os.ReadFile(path); err != nil || string(content) != "x" || !strings.HasPrefix(path, workspace(dir)) {
			t.Errorf("%s: %q, %v", path, content, err)
		}
	}
	if _, err := bringIn(dir, "install", []string{filepath.Join(source, "missing")}); err == nil {
		t.Error("a missing file was brought in")
	}
}
