package faults

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/test/nodes"
)

// job is a node, or a fleet, that one of the controllers is to look at.
type job struct {
	controller string
	node       types.NamespacedName
}

// The controllers.
const (
	ofNodes  = "seinode"
	ofTasks  = "seinodetask"
	ofFleets = "seinodedeployment"
)

// result is what is left of a run.
type result struct {
	writes     []write
	violations []string
	died       bool
	// complete: it came to its end, and end is how that looked.
	complete bool
	end      string
}

// run is one run of a workload, in a namespace of its own.
type run struct {
	t         testing.TB
	world     *world
	workload  Workload
	wrap      wrap
	point     *point // where the operator dies; nil: nowhere
	namespace string
	sidecars  *nodes.Fleet
	clock     *clocktesting.FakePassiveClock
	platform  platform.Settings
	life      *life // nil while there is no operator

	// Used by the goroutine of the run alone.
	due map[job]time.Time
	// idle counts the standing looks since the last write, which was the writesAtLook-th.
	idle         map[job]int
	writesAtLook int
	failures     map[job]int
	reconciles   int
	rests        int
	deaf         map[string]int // by node: how many wishes there are that its sidecar cannot be reached

	mu         sync.Mutex
	something  chan struct{} // has an element when something happened
	queue      []job
	history    history
	armed      bool
	died       bool
	writes     []*write
	count      map[string]int
	violations []string
}

// execute runs a workload once.
func execute(t *testing.T, w *world, workload Workload, around wrap, where *point) result {
	t.Helper()
	r := &run{
		t: t, world: w, workload: workload, wrap: around, point: where,
		namespace: w.cluster.Namespace(t),
		// It starts at the real time, which pods and their containers live by.
		clock: clocktesting.NewFakePassiveClock(time.Now()), platform: platform.Default(),
		deaf: map[string]int{},
		due:  map[job]time.Time{}, idle: map[job]int{}, failures: map[job]int{},
		something: make(chan struct{}, 1), history: newHistory(), count: map[string]int{},
	}
	r.sidecars = nodes.Start(t, w.cluster, nodes.Options{Namespace: r.namespace})
	defer r.clear()
	defer w.enter(r)()
	defer r.stop()
	var got result
	got.end, got.complete = r.through()
	r.mu.Lock()
	defer r.mu.Unlock()
	got.violations, got.died = slices.Clone(r.violations), r.died
	for _, w := range r.writes {
		got.writes = append(got.writes, *w)
	}
	return got
}

// clear frees what the run took of the cluster: its machines have room for some
// hundred pods. Nobody waits for that.
func (r *run) clear() {
	for _, fleet := range r.read(r.world.person).fleets.Items {
		before := fleet.DeepCopy()
		fleet.Finalizers = nil
		if err := r.world.person.Patch(r.t.Context(), &fleet, client.MergeFrom(before)); err != nil {
			r.t.Errorf("letting %s go: %v", fleet.Name, err)
		}
	}
	for _, node := range r.read(r.world.person).nodes.Items {
		before := node.DeepCopy()
		node.Finalizers = nil
		if err := r.world.person.Patch(r.t.Context(), &node, client.MergeFrom(before)); err != nil {
			r.t.Errorf("letting %s go: %v", node.Name, err)
		}
	}
	for _, task := range r.read(r.world.person).tasks.Items {
		before := task.DeepCopy()
		task.Finalizers = nil
		if err := r.world.person.Patch(r.t.Context(), &task, client.MergeFrom(before)); err != nil {
			r.t.Errorf("letting %s go: %v", task.Name, err)
		}
	}
	r.clearReservations()
	for _, kind := range []client.Object{&v1alpha1.SeiNodeDeployment{}, &v1alpha1.SeiNodeTask{}, &v1alpha1.SeiNode{}, &appsv1.StatefulSet{}, &corev1.PersistentVolumeClaim{}} {
		if err := r.world.person.DeleteAllOf(r.t.Context(), kind, client.InNamespace(r.namespace), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			r.t.Errorf("clearing the namespace %s: %v", r.namespace, err)
		}
	}
}

// giveUp is the panic with which a run ends that cannot go on. Why it cannot is a
// violation.
type giveUp struct{}

// through does all of the run, and tells whether it came to its end.
func (r *run) through() (end string, ok bool) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case giveUp:
		default:
			panic(reason)
		}
	}()
	p := &Person{run: r, node: Node}
	r.start()
	if r.workload.Prepare != nil {
		r.workload.Prepare(p)
		r.settle()
	}
	r.arm()
	r.workload.Act(p)
	p.Until("the workload to be done", func() bool { return r.workload.Done(p) })
	r.settle()
	r.look()
	r.checkLedgers()
	r.checkReservations()
	return r.state(), true
}

func (r *run) arm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed = true
}

// start starts an operator. As every controller does, it looks at everything first.
func (r *run) start() {
	r.life = newLife(r)
	clear(r.due)
	clear(r.failures)
	for _, node := range r.known("SeiNode") {
		r.wake(node)
	}
	r.wakeFleets()
}

// stop ends the operator, if there is one.
func (r *run) stop() {
	if r.life != nil {
		r.life.bury()
		r.life = nil
	}
}

// atOnce is how long a reconcile may be asked for in advance to be run without
// waiting for everything else to come to rest.
const atOnce = time.Second

// maxReconciles is far more than any workload takes.
const maxReconciles = 2000

// reconcile has the operator look at a node. The clock moves a little, because two
// moments are never the same.
func (r *run) reconcile(work job) {
	if r.reconciles++; r.reconciles > maxReconciles {
		r.fails("it does not come to rest: %d reconciles", maxReconciles)
	}
	r.pass(time.Millisecond)
	delete(r.due, work)
	result, died, err := r.life.work(work)
	switch {
	case died:
		r.stop()
		// Kubernetes takes a moment to start another one.
		r.pass(time.Second)
		r.start()
	case err != nil:
		r.failures[work]++
		r.requeue(work, min(20*time.Millisecond<<r.failures[work], 30*time.Second))
	case result.RequeueAfter > 0:
		r.failures[work] = 0
		r.requeue(work, result.RequeueAfter)
	default:
		r.failures[work] = 0
	}
}

func (r *run) requeue(work job, after time.Duration) {
	if after < atOnce {
		r.pass(after)
		r.enqueue(work)
		return
	}
	r.due[work] = r.clock.Now().Add(after)
}

func (r *run) pass(d time.Duration) { r.clock.SetTime(r.clock.Now().Add(d)) }

// A standing look is one that the operator asks for again and again, this rarely: a
// validator's last signature is recorded at a slow pace for as long as it lives. One that
// found nothing to do this often in a row is nothing to wait for.
const (
	standing      = 10 * time.Minute
	standingLooks = 3
)

// advance moves the clock to the next moment at which the operator wants to look at
// a node, and tells whether there is one. Standing looks are left for later.
func (r *run) advance() bool {
	var next job
	r.mu.Lock()
	writes := len(r.writes)
	r.mu.Unlock()
	if writes != r.writesAtLook {
		r.writesAtLook = writes
		clear(r.idle)
	}
	for work, due := range r.due {
		if r.idle[work] < standingLooks && (next.controller == "" || due.Before(r.due[next])) {
			next = work
		}
	}
	if next.controller == "" {
		return false
	}
	if r.due[next].Sub(r.clock.Now()) >= standing-atOnce {
		r.idle[next]++
	}
	if due := r.due[next]; due.After(r.clock.Now()) {
		r.clock.SetTime(due)
	}
	delete(r.due, next)
	r.enqueue(next)
	return true
}

// maxSteps bounds how often the clock is moved to get somewhere.
const maxSteps = 300

// settle lets the operator work until it neither has anything to do nor asks for
// anything.
func (r *run) settle() {
	for range maxSteps {
		r.rest()
		if !r.advance() {
			return
		}
	}
	r.fails("it asks for another look again and again")
}

// look has the operator look at everything once more. It must find nothing to do: what
// there was to do, something woke it for.
func (r *run) look() {
	r.mu.Lock()
	before := len(r.writes)
	r.mu.Unlock()
	for _, node := range r.known("SeiNode") {
		r.reconcile(job{ofNodes, node})
		r.reconcile(job{ofTasks, node})
	}
	for _, fleet := range r.known("SeiNodeDeployment") {
		r.reconcile(job{ofFleets, fleet})
	}
	r.mu.Lock()
	unasked := slices.Clone(r.writes[before:])
	r.mu.Unlock()
	for _, w := range unasked {
		r.violated("nothing woke the operator, and yet there was something to do: %s", w.kind)
	}
	r.settle()
}

// next takes a job out of the queue.
func (r *run) next() (job, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return job{}, false
	}
	work := r.queue[0]
	r.queue = r.queue[1:]
	return work, true
}

// enqueue has a controller look at a node.
func (r *run) enqueue(work job) {
	r.mu.Lock()
	if !slices.Contains(r.queue, work) {
		r.queue = append(r.queue, work)
	}
	r.mu.Unlock()
	r.happened()
}

// wake has all controllers look at a node, as its sidecar does. Which of them comes
// first is the workload's choice.
func (r *run) wake(node types.NamespacedName) {
	order := []string{ofNodes, ofTasks}
	if r.workload.TasksFirst {
		order = []string{ofTasks, ofNodes}
	}
	for _, controller := range order {
		r.enqueue(job{controller, node})
	}
}

func (r *run) happened() {
	select {
	case r.something <- struct{}{}:
	default:
	}
}

// begins writes down that a write begins, and tells whether the operator dies of it.
func (r *run) begins(w *write) *point {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.armed {
		return nil
	}
	r.count[w.kind]++
	r.writes = append(r.writes, w)
	if r.point == nil || r.died || r.point.kind != w.kind || r.point.nth != r.count[w.kind] {
		return nil
	}
	r.died = true
	return r.point
}

func (r *run) violated(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.violations, text) {
		r.violations = append(r.violations, text)
	}
}

// fails ends the run.
func (r *run) fails(format string, args ...any) {
	r.violated(format, args...)
	panic(giveUp{})
}
