package scale_test

import (
	"syscall"
	"testing"
	"time"
)

// repetitions is how often is done what is done to one node after the other.
const repetitions = 30

// BenchmarkOneNode is how long it takes to bring up a node whose pod and sidecar are
// there at once, on a control plane that has nothing else to do.
func BenchmarkOneNode(b *testing.B) {
	sayConditions(b)
	r := newRig(b)
	operator := r.build().start()
	r.create("warm")
	r.seen.untilSettled(b, []string{"warm"})
	statuses := r.seen.nodes["warm"].statuses

	audited := time.Now()
	all := names("node", repetitions)
	began := readLoad(b)
	running, settled := r.oneByOne(all)
	began.explain(b, "the operator's nodes, one by one")
	r.countWrites(audited).reportPerNode(b, len(all))

	slow := names("slow", 5)
	for _, name := range slow {
		r.sidecars.Node(r.namespace, name).Delay("configure-genesis", time.Second)
	}
	_, delayed := r.oneByOne(slow)
	operator.end(syscall.SIGTERM)

	script := newBaseline(b, statuses)
	var plainRunning, plainSettled []time.Duration
	for _, name := range append(names("warm", 1), names("node", repetitions)...) {
		node := script.fullNode(name)
		from := time.Now()
		if err := script.person.Create(b.Context(), node); err != nil {
			b.Fatal(err)
		}
		at, err := script.bringUp(node)
		if err != nil {
			b.Fatal(err)
		}
		plainRunning, plainSettled = append(plainRunning, at.Sub(from)), append(plainSettled, time.Since(from))
	}
	plain := spread(b, "baseline-running", plainRunning[1:])
	spread(b, "baseline-settled", plainSettled[1:])
	ours := spread(b, "running", running)
	took := spread(b, "settled", settled)
	b.ReportMetric(milliseconds(ours-plain), "overhead-p50-ms")
	say(b, "over the baseline: %.0f ms", milliseconds(ours-plain))
	extra := quantile(delayed, 0.5) - took
	b.ReportMetric(milliseconds(extra), "1s-task-costs-ms")
	say(b, "a sidecar task that takes 1 s costs %.0f ms", milliseconds(extra))
	b.ReportMetric(0, "ns/op")
}

// oneByOne brings up one node after the other.
func (r *rig) oneByOne(all []string) (running, settled []time.Duration) {
	r.b.Helper()
	for _, name := range all {
		began := time.Now()
		r.create(name)
		ran, done := r.seen.untilSettled(r.b, []string{name})
		running, settled = append(running, ran[0].Sub(began)), append(settled, done[0].Sub(began))
	}
	return running, settled
}
