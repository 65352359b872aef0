package scale_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ticks is how many of the kernel's units of CPU time make a second.
const ticks = 100

// load is the CPU time that was used so far.
type load struct {
	at time.Time
	// ours is that of this process and of everything that it started, by program.
	ours map[string]float64
	// busy is that of the whole machine.
	busy float64
}

// process is what the kernel tells of one.
type process struct {
	pid, parent int
	name        string
	cpu         float64
}

// readLoad reads it from the kernel.
func readLoad(b *testing.B) load {
	b.Helper()
	l := load{at: time.Now(), ours: map[string]float64{}, busy: machineBusy(b)}
	for _, p := range family(b) {
		l.ours[p.name] += p.cpu
	}
	return l
}

// family is this process and everything that came of it.
func family(b *testing.B) []process {
	b.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	all := map[int]process{}
	for _, file := range files {
		if content, err := os.ReadFile(file); err == nil { // it may be gone already
			if p, ok := parseProcess(content); ok {
				all[p.pid] = p
			}
		}
	}
	var ours []process
	for _, p := range all {
		for up, known := p, true; known; up, known = all[up.parent] {
			if up.pid == os.Getpid() {
				ours = append(ours, p)
				break
			}
		}
	}
	return ours
}

// parseProcess reads the kernel's line about a process. Its name is in brackets, and
// whatever is in it, the last bracket ends it.
func parseProcess(line []byte) (process, bool) {
	begin, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if begin < 1 || end < begin {
		return process{}, false
	}
	fields := strings.Fields(string(line[end+1:]))
	if len(fields) < 13 {
		return process{}, false
	}
	number := func(text string) int {
		n, _ := strconv.Atoi(text)
		return n
	}
	name := string(line[begin+1 : end])
	if name == "server" {
		name = "etcd" // that is what its program is called
	}
	return process{
		pid: number(strings.TrimSpace(string(line[:begin]))), parent: number(fields[1]), name: name,
		cpu: float64(number(fields[11])+number(fields[12])) / ticks,
	}, true
}

func machineBusy(b *testing.B) float64 {
	b.Helper()
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		b.Fatal(err)
	}
	line, _, _ := strings.Cut(string(content), "\n")
	busy := 0.0
	for i, field := range strings.Fields(line)[1:] {
		// Idle, waiting for the disk; and time of guests is counted twice.
		if i == 3 || i == 4 || i > 7 {
			continue
		}
		n, _ := strconv.ParseFloat(field, 64)
		busy += n / ticks
	}
	return busy
}

// explain tells where the CPU time went since, and how much of it went to strangers:
// a figure from a machine that others use is worth less.
func (l load) explain(b *testing.B, what string) {
	b.Helper()
	now := readLoad(b)
	type share struct {
		name string
		cpu  float64
	}
	var shares []share
	ours := 0.0
	for name, cpu := range now.ours {
		if used := cpu - l.ours[name]; used >= 0.05 {
			shares = append(shares, share{name, used})
			ours += used
		}
	}
	slices.SortFunc(shares, func(x, y share) int { return int(1000 * (y.cpu - x.cpu)) })
	var parts []string
	for _, s := range shares {
		parts = append(parts, fmt.Sprintf("%s %.1f", s.name, s.cpu))
	}
	took := now.at.Sub(l.at).Seconds()
	have := took * float64(runtime.NumCPU())
	say(b, "CPU seconds of %s, %.1f s on %d cores: %s; strangers %.1f, idle %.1f", what, took, runtime.NumCPU(),
		strings.Join(parts, ", "), max(0, now.busy-l.busy-ours), max(0, have-(now.busy-l.busy)))
}

// sayConditions tells of the settings of the control plane that matter here, as its
// processes were started.
func sayConditions(b *testing.B) {
	b.Helper()
	for _, p := range family(b) {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if err != nil {
			continue
		}
		var found []string
		for argument := range strings.SplitSeq(string(content), "\x00") {
			if slices.ContainsFunc([]string{"--kube-api-", "--concurrent-", "--unsafe-no-fsync", "--max-requests"}, func(prefix string) bool {
				return strings.HasPrefix(argument, prefix)
			}) {
				found = append(found, argument)
			}
		}
		if len(found) > 0 {
			say(b, "%s runs with %s", p.name, strings.Join(found, " "))
		}
	}
	say(b, "%d cores for everything: the control plane with its audit log, KWOK in place of kubelets, the operator, and the sidecars, which are played in the process of the benchmark", runtime.NumCPU())
}
