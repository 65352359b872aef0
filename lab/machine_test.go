//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/lab/kube"
	"github.com/sei-operator/sei-operator/lab/node"
)

// requireVariable makes it an error when a real cluster cannot run here, so that
// where it ought to be tested it is.
const requireVariable = "SEI_LAB_NODE"

func needRealNode(t *testing.T) {
	t.Helper()
	err := checkLab(t.Context())
	switch {
	case err == nil:
	case os.Getenv(requireVariable) == "required":
		t.Fatalf("NOT TESTED, and %s=required: %v", requireVariable, err)
	default:
		t.Skip(err) // Not heard among other packages: "make test" says it.
	}
}

// machine is what a lab could change on the machine.
type machine struct {
	links, mounts, cgroups, namespaces, rules, settings []string
}

// look takes down what is there now.
func look(t *testing.T) machine {
	t.Helper()
	var m machine
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		addresses, err := link.Addrs()
		if err != nil {
			t.Fatal(err)
		}
		m.links = append(m.links, fmt.Sprint(link.Name, addresses))
	}
	for line := range strings.Lines(read(t, "/proc/self/mountinfo")) {
		m.mounts = append(m.mounts, strings.Fields(line)[4])
	}
	for _, pattern := range []string{"/sys/fs/cgroup/sei-operator-lab-*", "/sys/fs/cgroup/*/sei-operator-lab-*"} {
		m.cgroups = append(m.cgroups, glob(t, pattern)...)
	}
	for _, pattern := range []string{"/run/netns/*", "/var/lib/kubelet", "/var/lib/containerd", "/run/containerd", "/var/lib/cni", "/var/log/pods", "/var/log/containers"} {
		m.namespaces = append(m.namespaces, glob(t, pattern)...)
	}
	rules, err := exec.CommandContext(t.Context(), "nft", "list", "tables").Output()
	if err != nil {
		t.Fatal(err)
	}
	m.rules = strings.Split(string(rules), "\n")
	for _, setting := range []string{"vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward"} {
		m.settings = append(m.settings, setting+"="+read(t, filepath.Join("/proc/sys", setting)))
	}
	return m
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// added is what is in now and was not before.
func added(before, now machine) []string {
	var found []string
	for _, kind := range []struct {
		name        string
		before, now []string
	}{
		{"link", before.links, now.links},
		{"mount", before.mounts, now.mounts},
		{"cgroup", before.cgroups, now.cgroups},
		{"file", before.namespaces, now.namespaces},
		{"table", before.rules, now.rules},
		{"setting", before.settings, now.settings},
	} {
		for _, item := range kind.now {
			if !slices.Contains(kind.before, item) {
				found = append(found, kind.name+" "+item)
			}
		}
	}
	return found
}

// changes are what is on the machine because of the lab of a directory: the cgroups of
// others, which run side by side with it, are not.
func changes(t *testing.T, before machine, dir string) []string {
	t.Helper()
	return slices.DeleteFunc(added(before, look(t)), func(change string) bool {
		return strings.HasPrefix(change, "cgroup ") && filepath.Base(change) != node.CgroupOf(dir)
	})
}

// inhabitants tell the processes of a lab: they are in its process namespace or its
// network, or have its directory in their arguments, as most daemons do. None of
// them may outlive it.
type inhabitants struct{ pids, network, dir string }

func inhabitantsOf(t *testing.T, info kube.Info) inhabitants {
	t.Helper()
	first := fmt.Sprintf("/proc/%d/ns/", info.Components["lab"])
	pids, err := os.Readlink(first + "pid")
	if err != nil {
		t.Fatal(err)
	}
	network, err := os.Readlink(first + "net")
	if err != nil {
		t.Fatal(err)
	}
	return inhabitants{pids, network, info.Dir}
}

func (i inhabitants) alive() []string {
	var found []string
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range processes {
		pids, _ := os.Readlink(dir + "/ns/pid")
		network, _ := os.Readlink(dir + "/ns/net")
		command, _ := os.ReadFile(dir + "/cmdline")
		// Not every process lets itself be looked at, and not every lab got so far.
		in := pids != "" && pids == i.pids || network != "" && network == i.network
		if in || bytes.Contains(command, []byte(i.dir)) {
			found = append(found, filepath.Base(dir)+" "+string(bytes.ReplaceAll(command, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// nothingLeft wants the machine to be as it was, the lab's processes to be gone, and
// its directory to have only logs.
func nothingLeft(t *testing.T, before machine, who inhabitants) {
	t.Helper()
	if left := who.alive(); len(left) > 0 {
		t.Errorf("processes left: %q", left)
	}
	if left := changes(t, before, who.dir); len(left) > 0 {
		t.Errorf("left on the machine: %q", left)
	}
	entries, err := os.ReadDir(who.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != "logs" {
		t.Errorf("left in the lab's directory: %v", entries)
	}
}

// patience is for a machine that does ten other things.
const patience = 2 * time.Minute

func eventually(t *testing.T, what string, good func() bool) {
	t.Helper()
	deadline := time.After(patience)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !good() {
		select {
		case <-deadline:
			t.Fatal("never happened: " + what)
		case <-ticker.C:
		}
	}
}
