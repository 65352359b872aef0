package seinodedeployment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/budget"
	"github.com/sei-operator/sei-operator/internal/fleet"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/internal/render"
)

const namespace, fleetName = "test", "fleet"

// world is a fleet, its nodes, and everything that happens to them. The nodes are played:
// what their controller would do is done in small steps, at any time.
type world struct {
	t      testing.TB
	random *rand.Rand
	memory *memory
	clock  *clocktesting.FakeClock
	log    []string
	writes int
	// dies is after how many more writes the operator dies; 0: it does not.
	dies int
	// version is that of the platform; a node that has another one wants to be rolled by
	// the operator itself.
	version string

	// down are the nodes that we took down, and that are not back.
	down map[string]bool
	// pausedBy are the nodes that a person paused, held those with a hold, crashed those
	// that crashed by themselves.
	pausedBy, held, crashed map[string]bool
	reconciler              *Reconciler
}

// death ends an operator in the middle of its work.
type death struct{}

func newWorld(tb testing.TB, seed uint64) *world {
	tb.Helper()
	memory, err := newMemory()
	if err != nil {
		tb.Fatal(err)
	}
	w := &world{
		t: tb, random: rand.New(rand.NewPCG(seed, 8)), memory: memory, clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), version: "v1",
		down: map[string]bool{}, pausedBy: map[string]bool{}, held: map[string]bool{}, crashed: map[string]bool{},
	}
	memory.wrote = w.check
	w.restart()
	return w
}

// restart makes a new operator. It knows nothing of the last one.
func (w *world) restart() {
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		w.t.Fatal(err)
	}
	around := func(ctx context.Context, write kube.Write, do func(context.Context) error) error {
		w.writes++
		if w.dies--; w.dies == 0 && w.random.IntN(2) == 0 {
			panic(death{})
		}
		w.logf("operator: %s", write)
		err := do(ctx)
		if w.dies == 0 {
			panic(death{})
		}
		return err
	}
	api := kube.New(kube.Options{Cached: w.memory, Metadata: w.memory, Live: w.memory, Around: around})
	w.reconciler = &Reconciler{
		Kube: api, Metrics: metrics, Recorder: silence{},
		Budget: &budget.Budget{Kube: api, Platform: platform.Settings{MaxConcurrentUpdates: 4}, Clock: w.clock},
	}
}

type silence struct{}

func (silence) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

func (w *world) logf(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) fails(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nwhat happened:\n%s", fmt.Sprintf(format, args...), strings.Join(w.log[max(0, len(w.log)-80):], "\n"))
}

func (w *world) fleet() *v1alpha1.SeiNodeDeployment {
	found, _ := w.memory.objects[keyOf("SeiNodeDeployment", namespace, fleetName)].(*v1alpha1.SeiNodeDeployment)
	return found
}

func (w *world) nodes() []*v1alpha1.SeiNode {
	var found []*v1alpha1.SeiNode
	for i := range 200 {
		if node := w.node(fmt.Sprintf("%s-%d", fleetName, i)); node != nil {
			found = append(found, node)
		}
	}
	return found
}

func (w *world) node(name string) *v1alpha1.SeiNode {
	found, _ := w.memory.objects[keyOf("SeiNode", namespace, name)].(*v1alpha1.SeiNode)
	return found
}

func (w *world) pod(node string) *corev1.Pod {
	found, _ := w.memory.objects[keyOf("Pod", namespace, node+"-0")].(*corev1.Pod)
	return found
}

// edit changes the fleet as a person.
func (w *world) edit(change func(*v1alpha1.SeiNodeDeploymentSpec)) {
	w.memory.change("kubectl", w.fleet(), func(object client.Object) { change(&object.(*v1alpha1.SeiNodeDeployment).Spec) })
}

// reconcile has the operator look at the fleet, and tells whether it died of it.
func (w *world) reconcile() (result reconcile.Result, died bool) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case death:
			w.logf("the operator died")
			w.dies, died = 0, true
			w.restart()
		default:
			panic(reason)
		}
	}()
	result, err := w.reconciler.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fleetName}})
	if err != nil {
		w.fails("the reconcile failed: %v", err)
	}
	return result, false
}

// available tells whether everybody would say that a node serves.
func (w *world) available(node *v1alpha1.SeiNode) bool {
	return w.serves(node) && node.Status.Plan == nil && node.Status.Slot == nil
}

// serves tells whether a node does what it is for, whatever is being done to it.
func (w *world) serves(node *v1alpha1.SeiNode) bool {
	return plan.PodReady(w.pod(node.Name)) && meta.IsStatusConditionTrue(node.Status.Conditions, string(v1alpha1.ConditionReady)) &&
		node.Status.ObservedGeneration == node.Generation && node.DeletionTimestamp == nil
}

// unavailable are the other nodes that the fleet should have and that do not serve, but
// for those that stand still because somebody wants it.
func (w *world) unavailable(but string) []string {
	var names []string
	for i := range fleet.Replicas(w.fleet()) {
		name := fmt.Sprintf("%s-%d", fleetName, i)
		node := w.node(name)
		if name == but || node != nil && (stands(node) || w.available(node)) {
			continue
		}
		names = append(names, name)
	}
	return names
}

// stands tells whether a node stands still because somebody wants it, as far as anybody
// can know.
func stands(node *v1alpha1.SeiNode) bool {
	return node.Spec.Paused || meta.IsStatusConditionTrue(node.Status.Conditions, string(v1alpha1.ConditionHeld))
}

// check looks at each write, at the moment at which it is done.
func (w *world) check(manager string, before, after client.Object) {
	w.recover()
	was, ok1 := before.(*v1alpha1.SeiNode)
	is, ok2 := after.(*v1alpha1.SeiNode)
	if ok1 && after == nil {
		delete(w.pausedBy, was.Name)
		delete(w.held, was.Name)
		delete(w.crashed, was.Name)
	}
	if manager != render.FleetManager || !ok1 || !ok2 {
		return
	}
	changed := was.Spec.DeepCopy()
	changed.Paused = is.Spec.Paused
	if equality.Semantic.DeepEqual(*changed, is.Spec) {
		return // it has the template it had
	}
	spec := &w.fleet().Spec
	_, ordinal, _ := render.FleetOf(is.Name)
	if spec.RolloutPaused || spec.UpdateStrategy.Type == v1alpha1.UpdateStrategyOnDelete || ordinal < int(spec.UpdateStrategy.RollingUpdate.Partition) {
		w.fails("%s gets another template although the rollout is held", is.Name)
	}
	if was.Spec.Paused && w.pod(was.Name) != nil {
		w.fails("%s gets another template while it is paused and not stopped", is.Name)
	}
	w.takes(was, "gets another template")
}

// takes fails when a node that serves is taken down although the budget does not allow it.
func (w *world) takes(node *v1alpha1.SeiNode, what string) {
	limit := fleet.MaxUnavailable(w.fleet())
	if !w.serves(node) || stands(node) {
		return
	}
	if others := w.unavailable(node.Name); len(others) >= limit {
		w.fails("%s serves and %s while %v do not; maxUnavailable is %d", node.Name, what, others, limit)
	}
	w.down[node.Name] = true
	if len(w.down) > limit {
		w.fails("%s serves and %s: we took %v down; maxUnavailable is %d", node.Name, what, w.down, limit)
	}
}

// recover forgets who is back, gone, or no longer counted.
func (w *world) recover() {
	for name := range w.down {
		node := w.node(name)
		_, ordinal, _ := render.FleetOf(name)
		if node == nil || ordinal >= fleet.Replicas(w.fleet()) || stands(node) || w.available(node) {
			delete(w.down, name)
		}
	}
}

// newFleet makes the fleet as a person.
func (w *world) newFleet(replicas int32, budgetOf string, seconds int32) {
	w.memory.create("kubectl", &v1alpha1.SeiNodeDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fleetName},
		Spec: v1alpha1.SeiNodeDeploymentSpec{
			Replicas: &replicas, MinReadySeconds: seconds, DeletionPolicy: []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicyRetain, v1alpha1.DeletionPolicyDelete}[w.random.IntN(2)],
			Template:       v1alpha1.SeiNodeTemplate{Spec: v1alpha1.SeiNodeSpec{ChainID: "chain", Image: "good:1", FullNode: &v1alpha1.FullNodeSpec{}}},
			UpdateStrategy: &v1alpha1.UpdateStrategy{Type: v1alpha1.UpdateStrategyRollingUpdate, RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailable: new(intstr.Parse(budgetOf))}},
		},
	})
}

// names are the nodes that are there, in a random order.
func (w *world) names() []string {
	var names []string
	for _, node := range w.nodes() {
		names = append(names, node.Name)
	}
	w.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

func (w *world) any() string {
	names := w.names()
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names[:1])
}
