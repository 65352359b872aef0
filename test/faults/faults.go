// Package faults ends the operator at every one of its writes and looks whether
// anybody could tell.
//
// A Workload is something that people do and that the operator has to deal with. It
// is run once undisturbed. Every write of the operator, to the API server and to
// sidecars, is then known, and for each of them the workload is run twice more, in a
// namespace of its own: once the operator dies just before the write, once just after
// it, so that it never learns the answer. (Once only, where nothing happened since the
// write before: whoever dies leaves nothing behind but the world.) A fresh operator
// goes on. All of these runs
// have to end in the same state as the undisturbed one, with the same destructive
// acts and the same tasks run by the sidecars.
//
// The reconciler is called directly, by one goroutine, and on a clock that moves only
// when nothing else can happen. So what the operator writes, and in which order,
// hardly depends on how fast the machine is.
package faults

import (
	"fmt"
	"slices"
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
	// Fleet: what is done is a matter of the operator alone, so that at most as many nodes
	// as the budget allows may be updated at once.
	Fleet bool
	// DeletesVolume: the claim of the data volume is to be deleted.
	DeletesVolume bool
	// TasksFirst: where both controllers are to look at a node, that of tasks does so
	// first.
	TasksFirst bool
	// AnyOrder: it does not matter in which order sidecars ran their tasks.
	AnyOrder bool
	// ReplacesKey: the reservation of a key is let go while its node lives.
	ReplacesKey bool
}

// Run fails the test if the operator does not survive a workload.
func Run(t *testing.T, w Workload) {
	t.Helper()
	t.Parallel()
	found := explore(t, w, nil, everywhere)
	sidecar := 0
	for _, write := range found.writes {
		if write.toSidecar {
			sidecar++
		}
	}
	t.Logf("%s: %d writes, %d of them to sidecars; the operator died %d times, %d deaths would have left the same world as another, %d points were missed, %d violations",
		w.Name, len(found.writes), sidecar, found.deaths, found.same, len(found.missed), len(found.violations))
	for _, violation := range found.violations {
		t.Errorf("%s: %s", w.Name, violation)
	}
	for _, point := range found.missed {
		// How often the status is written depends a little on what comes together. All
		// other writes have to come every time.
		if !slices.Contains([]string{statusWrite, taskStatusWrite, fleetStatusWrite}, point.kind) {
			t.Errorf("%s: in no run the operator came to where it %s", w.Name, point)
		} else {
			t.Logf("%s: in no run the operator came to where it %s", w.Name, point)
		}
	}
}

// wrap puts something around the reconciler of each life of the operator. It is how
// the tests of this package show that an operator is noticed that does not behave.
type wrap func(reconcile.Reconciler, scope.Tools) reconcile.Reconciler

// report is what was found out about a workload.
type report struct {
	// writes are those of the undisturbed run.
	writes []write
	// deaths is how many times the operator died; missed is where it should have died
	// and never came by.
	deaths int
	missed []point
	// same is how many deaths were left out, because they leave behind the same world as
	// another.
	same int
	// violations are what a person would call a bug, and where the operator died.
	violations []string
}

// attempts is how often a run is begun anew that did not come to its point.
const attempts = 3

func everywhere(point) bool { return true }

// explore runs a workload undisturbed, and with a death at each point that is chosen.
func explore(t *testing.T, w Workload, around wrap, chosen func(point) bool) report {
	t.Helper()
	shared := newWorld(t)
	undisturbed := execute(t, shared, w, around, nil)
	found := report{writes: undisturbed.writes}
	for _, violation := range undisturbed.violations {
		found.violations = append(found.violations, "the undisturbed run: "+violation+"\nits writes:\n"+listed(undisturbed.writes))
	}
	if len(found.violations) > 0 {
		return found // there is nothing to compare with
	}
	points, same := pointsOf(undisturbed.writes)
	found.same = same
	for _, where := range points {
		if !chosen(where) {
			continue
		}
		reached := false
		for try := 0; try < attempts && !reached; try++ {
			t.Run(where.String(), func(t *testing.T) {
				got := execute(t, shared, w, around, &where)
				if reached = got.died; reached {
					found.deaths++
					found.violations = append(found.violations, judge(where, undisturbed, got)...)
				}
			})
		}
		if !reached {
			found.missed = append(found.missed, where)
		}
	}
	return found
}

// judge compares a disturbed run with the undisturbed one.
func judge(where point, undisturbed, got result) []string {
	violations := got.violations
	if diff := cmp.Diff(undisturbed.end, got.end); diff != "" && got.complete {
		violations = append(violations, "it ended otherwise than the undisturbed run (-undisturbed +disturbed):\n"+diff)
	}
	for i, violation := range violations {
		violations[i] = fmt.Sprintf("the operator %s: %s\nits writes:\n%s", where, violation, listed(got.writes))
	}
	return violations
}

func listed(writes []write) string {
	var text strings.Builder
	for i, w := range writes {
		fmt.Fprintf(&text, "  %2d. %s\n", i+1, w)
	}
	return text.String()
}
