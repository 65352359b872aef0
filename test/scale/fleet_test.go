package scale_test

import (
	"slices"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// atOnce declares a fleet at once, and returns how long it took until all nodes were
// running, and until all were settled.
func (r *rig) atOnce(all []string) (running, settled time.Duration) {
	r.b.Helper()
	began := time.Now()
	r.createAll(all)
	ran, done := r.seen.untilSettled(r.b, all)
	return slices.Max(since(began, ran)), slices.Max(since(began, done))
}

// statusesOf are those that the operator gave a node, one after the other.
func (r *rig) statusesOf(name string) []v1alpha1.SeiNodeStatus {
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	return slices.Clone(r.seen.node(name).statuses)
}

// compare brings up a fleet with the operator, and then as many nodes with the script,
// and reports both. Every node is written what one of the operator's was.
func (r *rig) compare(all []string) {
	b := r.b
	b.Helper()
	began, audited := readLoad(b), time.Now()
	running, settled := r.atOnce(all)
	began.explain(b, count(len(all), "node")+" at once")
	r.countWrites(audited).reportPerNode(b, len(all))
	seconds(b, "running", running)
	seconds(b, "settled", settled)

	script := newBaseline(b, r.statusesOf(all[len(all)/2]))
	began = readLoad(b)
	plain := script.bringUpAll(all)
	began.explain(b, "the baseline")
	seconds(b, "baseline", plain)
	ratio := settled.Seconds() / plain.Seconds()
	b.ReportMetric(ratio, "x-baseline")
	say(b, "%s, created at once, were settled after %.1f s: %.2f times the baseline, %.1f s", count(len(all), "node"), settled.Seconds(), ratio, plain.Seconds())
	script.clear()
}
