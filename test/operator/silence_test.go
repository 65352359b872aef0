package operator_test

import (
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/operator"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// reconciles is how often the controller was told to look at a node, whoever did so.
func reconciles(tb testing.TB) float64 {
	tb.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			sum += metric.GetCounter().GetValue()
		}
	}
	return sum
}

// atMost is how long a test waits. It is far more than anything takes, and only ends a
// test that would wait for ever.
const atMost = 5 * time.Minute

// each calls look every few milliseconds until it says so.
func each(tb testing.TB, what string, look func() bool) {
	tb.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	patience := time.NewTimer(atMost)
	defer patience.Stop()
	for !look() {
		select {
		case <-ticker.C:
		case <-patience.C:
			tb.Fatalf("waited for %s", what)
		}
	}
}

// comes waits until a channel is closed.
func comes(tb testing.TB, what string, closed <-chan struct{}) {
	tb.Helper()
	patience := time.NewTimer(atMost)
	defer patience.Stop()
	select {
	case <-closed:
	case <-patience.C:
		tb.Fatalf("waited for %s", what)
	}
}

// series counts the series of metrics about a node.
func (r *rig) series(node string) (count int) {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "name" && label.GetValue() == node {
					count++
				}
			}
		}
	}
	return count
}

func (r *rig) seriesGone(node string) {
	r.t.Helper()
	each(r.t, "the metrics of "+node+" to be gone", func() bool { return r.series(node) == 0 })
}

// From being created to being settled a node costs few writes, and from then on none:
// ten resyncs with all streams open change nothing and ask nothing.
func TestSilenceAtRest(t *testing.T) {
	resync := 2 * time.Second
	begin := time.Now()
	r := newRig(t, func(c *operator.Config) { c.Resync = &resync })
	const count = 5
	for i := range count {
		r.create(r.fullNode(fmt.Sprintf("node-%d", i)))
	}
	for i := range count {
		r.ready(fmt.Sprintf("node-%d", i))
	}
	// Events are sent in the background.
	for i := range count {
		each(t, "the events", func() bool { return len(r.events(fmt.Sprintf("node-%d", i))) >= 3 })
	}
	for i := range count {
		r.cheap(fmt.Sprintf("node-%d", i), begin)
	}

	// A resync tells of each node at most once per kind that is watched.
	const resyncs, kinds = 10, 6
	rest, seen := time.Now(), reconciles(t)
	each(t, "ten resyncs", func() bool { return reconciles(t) >= seen+resyncs*kinds*count })
	for _, e := range r.cluster.Audit(t, cluster.OperatorUser, rest) {
		if e.Write() || e.Read() {
			t.Errorf("at rest the operator asked for: %s %s/%s %s/%s", e.Verb, e.Resource, e.Subresource, e.Namespace, e.Name)
		}
	}
}

// cheap fails when a node cost more writes than it may since it was created.
func (r *rig) cheap(node string, since time.Time) {
	r.t.Helper()
	writes, toStatus := 0, 0
	for _, e := range r.cluster.Audit(r.t, cluster.OperatorUser, since) {
		if e.Namespace != r.namespace || !e.Write() || e.Resource == "events" || nodeOf(e.Name) != node {
			continue
		}
		writes++
		if e.Subresource == "status" {
			toStatus++
		}
	}
	events := len(r.events(node))
	r.t.Logf("%s: %d writes, %d of them to status, %d events", node, writes, toStatus, events)
	if writes == 0 || writes > 10 || toStatus > 6 || events > 4 {
		r.t.Errorf("%s cost %d writes, %d of them to status, and %d events", node, writes, toStatus, events)
	}
}

// nodeOf is the node that an object belongs to, by its name.
func nodeOf(object string) string {
	for i := range 100 {
		if name := fmt.Sprintf("node-%d", i); object == name || object == name+"-config" || object == "data-"+name {
			return name
		}
	}
	return object
}

// One sidecar that accepts connections and never answers delays nobody else.
func TestOneWedgedSidecarDelaysNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	unwedge := r.sidecars.Node(r.namespace, "wedged").Wedge()
	r.create(r.fullNode("wedged"))
	const others = 49
	for i := range others {
		r.create(r.fullNode(fmt.Sprintf("node-%d", i)))
	}
	for i := range others {
		r.ready(fmt.Sprintf("node-%d", i))
	}
	wedged := &v1alpha1.SeiNode{}
	r.get("wedged", wedged)
	if wedged.Status.Phase != v1alpha1.PhaseInitializing {
		t.Errorf("the wedged node is %s", wedged.Status.Phase)
	}
	unwedge()
	r.ready("wedged")
}

// An operator that waits for its turn works as one that does not.
func TestTheOneAtWork(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *operator.Config) { c.LeaderElection = true })
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	r.stop()
	r.start()
	r.settled("alpha")
}
