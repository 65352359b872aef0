// Package faults ends the operator at every one of its writes and looks whether
// anybody could tell.
//
// A Workload is something that people do and that the operator has to deal with. It
// is run once undisturbed. Every write of the operator, to the API server and to
// sidecars, is then known, and for each of them the workload is run twice more, in a
// namespace of its own: once the operator dies just before the write, once just after
// it, so that it never learns the answer. A fresh operator goes on. All of these runs
// have to end in the same state as the undisturbed one, with the same destructive
// acts and the same tasks run by the sidecars.
//
// The reconciler is called directly, by one goroutine, and on a clock that moves only
// when nothing else can happen. So what the operator writes, and in which order,
// hardly depends on how fast the machine is.
package faults

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sei-operator/sei-operator/internal/scope"
)

// Workload is something that the operator has to deal with, whenever it dies.
type Workload struct {
	Name string
	// Prepare makes the world that Act finds. The operator works, and is left alone.
	Prepare func(*Person)
	// Act is what people do. The operator dies at one of the writes that follow.
	Act func(*Person)
	// Done tells whether the operator has dealt with it. It is asked when nothing moves.
	Done func(*Person) bool
	// DeletesVolume: the claim of the data volume is to be deleted.
	DeletesVolume bool
}

// Wrap puts something around the reconciler of each life of the operator. It is how
// this package proves that it notices an operator that does not behave.
type Wrap func(reconcile.Reconciler, scope.Tools) reconcile.Reconciler

// Report is what was found out about a workload.
type Report struct {
	// Writes are those of the undisturbed run.
	Writes []Write
	// Runs is how many times the operator died, and Missed where it should have died
	// and never came by.
	Runs   int
	Missed []Point
	// Violations are what a person would call a bug, with the run that it was seen in.
	Violations []string
}

// Run fails the test if the operator does not survive a workload.
func Run(t *testing.T, w Workload) {
	t.Helper()
	t.Parallel()
	report := Explore(t, w, nil)
	api, sidecar := 0, 0
	for _, write := range report.Writes {
		if write.ToSidecar {
			sidecar++
		} else {
			api++
		}
	}
	t.Logf("%s: %d writes (%d to the API server, %d to sidecars), died %d times, %d points missed, %d violations",
		w.Name, len(report.Writes), api, sidecar, report.Runs, len(report.Missed), len(report.Violations))
	for _, violation := range report.Violations {
		t.Error(violation)
	}
	for _, point := range report.Missed {
		// How often the status is written depends a little on what comes together. All
		// other writes have to come every time.
		if point.Kind != statusWrite {
			t.Errorf("%s: the operator never came to the point where it %s", w.Name, point)
		} else {
			t.Logf("%s: in no run the operator came to the point where it %s", w.Name, point)
		}
	}
}

// attempts is how often a run is begun anew that did not come to its point.
const attempts = 3

// Explore runs a workload undisturbed and with a death before and after each write.
func Explore(t *testing.T, w Workload, wrap Wrap) Report {
	t.Helper()
	world := newWorld(t)
	baseline := execute(t, world, w, wrap, nil)
	report := Report{Writes: baseline.writes, Violations: baseline.violations}
	if len(baseline.violations) > 0 {
		return report // nothing can be compared with it
	}
	for _, point := range pointsOf(baseline.writes) {
		reached := false
		for try := 0; try < attempts && !reached; try++ {
			t.Run(point.String(), func(t *testing.T) {
				got := execute(t, world, w, wrap, &point)
				if reached = got.died; !reached {
					return
				}
				report.Runs++
				report.Violations = append(report.Violations, judge(w, point, baseline, got)...)
			})
		}
		if !reached {
			report.Missed = append(report.Missed, point)
		}
	}
	return report
}

// judge compares a disturbed run with the undisturbed one.
func judge(w Workload, point Point, baseline, got result) []string {
	violations := got.violations
	if diff := cmp.Diff(baseline.end, got.end); diff != "" && len(got.violations) == 0 {
		violations = append(violations, "it ended otherwise than the undisturbed run (-undisturbed +disturbed):\n"+diff)
	}
	for i, violation := range violations {
		violations[i] = fmt.Sprintf("%s: the operator %s: %s\nits writes:\n%s", w.Name, point, violation, listed(got.writes))
	}
	return violations
}

func listed(writes []Write) string {
	var text strings.Builder
	for i, write := range writes {
		fmt.Fprintf(&text, "  %2d. %s\n", i+1, write)
	}
	return text.String()
}
