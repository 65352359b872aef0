// Package search looks for a way in which a held node runs after all. Driver, supervisor,
// consent and tasks are the real ones; processes, connections and the clock are in memory,
// so a second takes no time, and one seed decides what happens.
package search

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "search with this seed only")
	stepsFlag = flag.Int("steps", 0, "how many steps a search has; default 35,000")
)

// oracle knows one law: after stop-seid was answered on a held node, and until somebody
// asks for a release, no seid lives.
type oracle struct {
	mu sync.Mutex
	// asked are the releases that were asked for, and holds how many of them had been
	// when a hold was.
	asked int
	holds map[uuid.UUID]int
	// held: a hold was answered, and no release was asked for since it was. promised:
	// it was answered, too, that no seid lives.
	held, promised bool
	living         []*node
	violation      string

	holdsAnswered, stopsAnswered, restartsAnswered, releasesAnswered int
}

// starts is told of every seid.
func (o *oracle) starts(n *node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.promised && o.violation == "" {
		o.violation = fmt.Sprintf("seid %d was started on a held node, after it was answered that none lives", n.pid)
	}
	o.living = append(slices.DeleteFunc(o.living, func(n *node) bool { return !n.lives() }), n)
}

// releases is told before a release is asked for.
func (o *oracle) releases() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	o.held, o.promised = false, false
}

// hears is told what is asked for and what is answered.
func (o *oracle) hears(task store.Task) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.holds == nil {
		o.holds = map[uuid.UUID]int{}
	}
	before, known := o.holds[task.ID]
	if task.Type == tasks.TypeMarkNotReady && !known {
		before, o.holds[task.ID] = o.asked, o.asked
	}
	if task.Status != store.Completed {
		return
	}
	switch task.Type {
	case tasks.TypeMarkNotReady:
		o.holdsAnswered++
		o.held = o.held || before == o.asked
	case tasks.TypeReleaseHold:
		o.releasesAnswered++
	case tasks.TypeRestartSeid:
		o.restartsAnswered++
	case tasks.TypeStopSeid:
		o.stopsAnswered++
		o.promised = o.promised || o.held
		for _, n := range o.living {
			if o.held && n.lives() && o.violation == "" {
				o.violation = fmt.Sprintf("it was answered that no seid lives, and seid %d does", n.pid)
			}
		}
	}
}

func (o *oracle) found() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.violation
}

func (o *oracle) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprintf("%d holds, %d stops, %d releases and %d restarts answered", o.holdsAnswered, o.stopsAnswered, o.releasesAnswered, o.restartsAnswered)
}

// told is every durable change of a task.
func (w *world) told(change engine.Change) {
	w.story.add("%s %s: %s %s", change.Task.Type, change.Task.ID.String()[:4], change.Task.Status, change.Task.Reason)
	w.oracle.hears(change.Task)
}

// act is something that somebody does to the node.
type act struct {
	name   string
	weight int
	do     func(*world)
	// queues: it asks for something that waits for its turn.
	queues bool
}

// patience is how many tasks may wait for their turn. Who finds more of them comes again
// later: behind a long queue every release would be older than the next hold, and the
// node would always be held.
const patience = 3

var acts = []act{
	{"hold", 2, (*world).hold, false},
	{"stop", 5, (*world).stop, true},
	// As the operator does it.
	{"hold and stop", 8, func(w *world) {
		w.hold()
		pass(time.Duration(w.random.Int64N(int64(20 * time.Millisecond))))
		w.stop()
	}, false},
	{"release", 22, func(w *world) {
		w.oracle.releases()
		w.submit(tasks.TypeReleaseHold, map[string]any{})
	}, true},
	{"approve", 3, func(w *world) { w.submit(tasks.TypeMarkReady, map[string]any{}) }, true},
	{"restart", 16, func(w *world) { w.submit(tasks.TypeRestartSeid, map[string]any{"force": w.random.IntN(2) == 0}) }, true},
	{"kill seid", 3, func(w *world) {
		if c, _ := w.inside(); c != nil {
			c.kill(false)
		}
	}, false},
	{"kill sidecar", 4, (*world).killSidecar, false},
	{"kill sidecar at a write", 2, func(w *world) {
		w.tasks.dieAt(1+w.random.IntN(4), w.random.IntN(2) == 0, w.killSidecar)
	}, false},
	{"kill supervisor", 1, (*world).killSupervisor, false},
	{"pause", 1, (*world).signal, false},
	{"clock forward", 2, func(w *world) { w.clock.step(w.jump()) }, false},
	{"clock back", 2, func(w *world) { w.clock.step(-w.jump()) }, false},
	{"a caller goes away", 6, (*world).hangUpOne, false},
	{"time passes", 20, func(*world) {}, false},
}

// jump is by how much the clock is wrong: mostly by seconds, at times by hours.
func (w *world) jump() time.Duration {
	if w.random.IntN(4) == 0 {
		return time.Duration(w.random.Int64N(int64(2 * time.Hour)))
	}
	return time.Duration(w.random.Int64N(int64(time.Minute)))
}

func (w *world) hold() { w.submit(tasks.TypeMarkNotReady, map[string]any{"reason": "search"}) }

func (w *world) stop() {
	w.submit(tasks.TypeStopSeid, map[string]any{"force": w.random.IntN(2) == 0})
}

// hangUpOne ends one call of the sidecar, which goes on: one that asks for something, if
// there is one.
func (w *world) hangUpOne() {
	s := w.current()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.calls {
		if open, asks := call.is(); open && asks {
			_ = call.Close()
			return
		}
	}
	if len(s.calls) > 0 {
		_ = s.calls[w.random.IntN(len(s.calls))].Close()
	}
}

func (w *world) choose() act {
	total := 0
	for _, one := range acts {
		total += one.weight
	}
	lot := w.random.IntN(total)
	for _, one := range acts {
		if lot -= one.weight; lot >= 0 {
			continue
		}
		if one.queues && w.tasks.waiting() >= patience {
			return acts[len(acts)-1]
		}
		return one
	}
	panic("the weights do not add up")
}

// between is how long after one act the next comes.
func (w *world) between() time.Duration {
	switch lot := w.random.IntN(400); {
	case lot == 0:
		return time.Duration(w.random.Int64N(int64(10 * time.Minute)))
	case lot < 40:
		return time.Duration(w.random.Int64N(int64(10 * time.Second)))
	case lot < 200:
		return time.Duration(w.random.Int64N(int64(time.Second)))
	default:
		return time.Duration(w.random.Int64N(int64(10 * time.Millisecond)))
	}
}

// outcome is what a search did and found.
type outcome struct {
	steps     int
	did       map[string]int
	violation string
	took      string
	story     string
}

// run searches until the steps are done or the law is broken.
func (w *world) run(steps int) outcome {
	var end context.CancelFunc
	w.over, end = context.WithCancel(w.t.Context())
	w.running.Go(w.supervise)
	w.running.Go(w.attend)
	result := outcome{did: map[string]int{}}
	for result.steps < steps && w.oracle.found() == "" {
		one := w.choose()
		w.story.add("%s", one.name)
		one.do(w)
		result.steps++
		result.did[one.name]++
		pass(w.between())
	}
	result.story = w.story.String()
	end()
	w.killSidecar()
	w.killSupervisor()
	w.running.Wait()
	pass(time.Hour) // what is still under way arrives
	result.violation = w.oracle.found()
	result.took = w.String()
	return result
}

// volume is a directory in memory where there is one: nothing here is about the disk.
func volume(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "search") //nolint:usetesting // the usual one is on a disk, and a hundred thousand steps sync files
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func search(t *testing.T, seed uint64, steps int, fault sabotage) (result outcome) {
	t.Helper()
	home := volume(t)
	synctest.Test(t, func(t *testing.T) { result = newWorld(t, home, seed, fault).run(steps) })
	return result
}

// seeds are those of every search.
func seeds() []uint64 {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	return []uint64{1, 2, 3}
}

func budget() int {
	if *stepsFlag > 0 {
		return *stepsFlag
	}
	return 35_000
}

// TestAHeldNodeStaysStopped: whatever dies, comes late or goes back in time, no seid lives
// between the answer that a held node is stopped and its release.
func TestAHeldNodeStaysStopped(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds() {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			result := search(t, seed, budget(), none)
			t.Logf("%d steps in %s: %s; %v", result.steps, time.Since(began).Round(time.Millisecond), result.took, result.did)
			if result.violation != "" {
				t.Errorf("after %d steps with seed %d: %s\n%s", result.steps, seed, result.violation, result.story)
			}
		})
	}
}

// TestTheSearchFinds: the same search, with the same budget, finds a fault that is there.
func TestTheSearchFinds(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]sabotage{
		"requests that do not know of stops": forgetStops,
		"a restart that starts":              restartStarts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := 0
			for _, seed := range seeds() {
				result := search(t, seed, budget(), fault)
				steps += result.steps
				if result.violation != "" {
					t.Logf("found after %d steps: %s", steps, result.violation)
					return
				}
			}
			t.Errorf("nothing was found in %d steps", steps)
		})
	}
}
