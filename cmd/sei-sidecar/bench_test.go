package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// The benchmarks print the figures of the sidecar; "make bench-sidecar" runs them
// and says what they ought to be. They run the program as it is shipped.

// shipped builds the program as it is shipped.
func shipped(b *testing.B) string {
	b.Helper()
	program := filepath.Join(b.TempDir(), "sei-sidecar")
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, output)
	}
	return program
}

// median of durations, in milliseconds.
func median(took []time.Duration) float64 {
	slices.Sort(took)
	return float64(took[len(took)/2].Microseconds()) / 1000
}

// BenchmarkRestart is the time from the submission of a restart to its end, over
// HTTP, with a seid that starts and stops at once and may be stopped.
func BenchmarkRestart(b *testing.B) {
	p := newPod(b)
	p.program = shipped(b)
	p.bringUp()
	var took, gaps []time.Duration
	for b.Loop() {
		// Otherwise it is the wait for the moment at which a stop is safe.
		p.untilStatus("stopping is safe", func(s api.Status) bool { return s.Seid.SafeToStop })
		began := time.Now()
		result := p.must("restart-seid", map[string]any{})
		took = append(took, time.Since(began))
		p.control.Next(b)
		var outcome struct {
			GapSeconds float64 `json:"gapSeconds"`
		}
		if err := json.Unmarshal(result.Result, &outcome); err != nil {
			b.Fatal(err)
		}
		gaps = append(gaps, time.Duration(outcome.GapSeconds*float64(time.Second)))
	}
	b.ReportMetric(median(took), "p50-ms")
	b.ReportMetric(median(gaps), "p50-gap-ms")
}

// BenchmarkNewSupervisor is the time from the start of a new seid container until
// the sidecar that runs has had seid started in it.
func BenchmarkNewSupervisor(b *testing.B) {
	p := newPod(b)
	p.program = shipped(b)
	_, supervisor, _ := p.bringUp()
	var took []time.Duration
	for b.Loop() {
		p.untilStatus("stopping is safe", func(s api.Status) bool { return s.Seid.SafeToStop })
		supervisor.signal(syscall.SIGTERM)
		supervisor.wait()
		began := time.Now()
		supervisor = p.supervise()
		p.control.Next(b)
		took = append(took, time.Since(began))
	}
	b.ReportMetric(median(took), "p50-ms")
}

// BenchmarkTask is the time from the submission of a task to its end, over HTTP,
// with everything durable.
func BenchmarkTask(b *testing.B) {
	p := newPod(b)
	p.program = shipped(b)
	p.bringUp()
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		p.must("release-hold", map[string]any{})
		took = append(took, time.Since(began))
	}
	b.ReportMetric(median(took), "p50-ms")
}

// BenchmarkFootprint is what the program costs on disk and in memory.
func BenchmarkFootprint(b *testing.B) {
	p := newPod(b)
	p.program = shipped(b)
	sidecar, supervisor, _ := p.bringUp()
	info, err := os.Stat(p.program)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.ReportMetric(float64(info.Size())/1e6, "MB-binary")
		b.ReportMetric(resident(b, sidecar), "MB-serve")
		b.ReportMetric(resident(b, supervisor), "MB-run")
	}
}

// resident is the memory of a process, in megabytes.
func resident(b *testing.B, q *process) float64 {
	b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", q.command.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				b.Fatal(err)
			}
			return float64(kilobytes) / 1000
		}
	}
	b.Fatal("the process has no resident memory")
	return 0
}
