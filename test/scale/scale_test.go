package scale_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

const (
	// repetitions is how often is done what is done to one node after the other.
	repetitions = 30
	// deletions is how many objects of a kind are deleted, one after the other.
	deletions = 60
	// missing is how many StatefulSets are deleted while no operator is there.
	missing = 10
)

// BenchmarkOneNode is how long it takes to bring up a node whose pod and sidecar are
// there at once, on a control plane that has nothing else to do.
func BenchmarkOneNode(b *testing.B) {
	r := newRig(b)
	operator := r.build().start()
	r.create("warm")
	r.seen.untilSettled(b, []string{"warm"})

	began, audited := readLoad(b), time.Now()
	all := names("node", repetitions)
	running, settled := r.oneByOne(all)
	began.explain(b, "the operator's nodes, one by one")
	r.countWrites(audited).reportPerNode(b, len(all))
	ran, took := spread(b, "running", running), spread(b, "settled", settled)

	slow := names("slow", 5)
	for _, name := range slow {
		r.sidecars.Node(r.namespace, name).Delay("configure-genesis", time.Second)
	}
	_, delayed := r.oneByOne(slow)
	operator.stop()
	extra := quantile(delayed, 0.5) - took
	b.ReportMetric(milliseconds(extra), "1s-task-costs-ms")
	say(b, "a sidecar task that takes 1 s costs %.0f ms", milliseconds(extra))

	script := newBaseline(b, r.statusesOf("warm"))
	script.oneByOne(names("warm", 1))
	began = readLoad(b)
	plainRunning, plainSettled := script.oneByOne(names("node", repetitions))
	began.explain(b, "the baseline, one by one")
	plain := spread(b, "baseline-running", plainRunning)
	spread(b, "baseline-settled", plainSettled)
	b.ReportMetric(milliseconds(ran-plain), "overhead-p50-ms")
	say(b, "over the baseline: %.0f ms", milliseconds(ran-plain))
	b.ReportMetric(0, "ns/op")
}

// BenchmarkSmallFleet is about a fleet that is created at once, and then left alone.
func BenchmarkSmallFleet(b *testing.B) {
	r := newRig(b)
	operator := r.build().start()
	all := names("node", *smallFleet)
	r.compare(all)
	operator.stop()
	r.silence(all)
	b.ReportMetric(0, "ns/op")
}

// BenchmarkOneWedgedOfFifty is how long the others take while one sidecar accepts
// connections and answers nothing, from the beginning.
func BenchmarkOneWedgedOfFifty(b *testing.B) {
	for _, wedged := range []bool{false, true} {
		b.Run(fmt.Sprintf("wedged=%t", wedged), func(b *testing.B) {
			r := newRig(b)
			r.build().start()
			all := names("node", 50)
			r.create("warm")
			r.seen.untilSettled(b, []string{"warm"})
			if wedged {
				defer r.sidecars.Node(r.namespace, all[0]).Wedge()()
			}
			began := time.Now()
			r.createAll(all)
			running, _ := r.seen.untilSettled(b, all[1:])
			took := quantile(since(began, running), 1)
			seconds(b, "49-running", took)
			if node := r.seen.untilNode(b, all[0], "to be seen", func(*v1alpha1.SeiNode) bool { return true }); wedged && node.Status.Phase == v1alpha1.PhaseRunning {
				b.Errorf("the wedged one is running")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkLargeFleet is about a fleet that is created at once, damaged in many ways,
// and looked after by an operator whose memory is measured.
func BenchmarkLargeFleet(b *testing.B) {
	r := newRig(b)
	p := r.build()
	operator := p.start()
	empty := operator.memory()
	all := names("node", *largeFleet)
	r.compare(all)
	reportMemory(b, "after-create", empty, operator.memory(), len(all))

	for _, kind := range []derived{configMaps, services, statefulSets} {
		began := readLoad(b)
		took := r.deleted(kind, all[:min(deletions, len(all))])
		began.explain(b, "the deletions of "+kind.resource)
		spread(b, kind.resource+"-back", took)
	}
	r.besideAWedge()

	back, fresh := r.backAfterKill(p, operator, all[len(all)-min(missing, len(all)):])
	seconds(b, "back-after-kill", back)
	reportMemory(b, "after-restart", empty, fresh.memory(), len(all)+2*repetitions+1)
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

// besideAWedge reports how long nodes take to come up while the sidecar of another one
// stopped answering in the middle of its plan, and how long otherwise.
func (r *rig) besideAWedge() {
	b := r.b
	b.Helper()
	undisturbed, _ := r.oneByOne(names("before", repetitions))
	sidecar := r.sidecars.Node(r.namespace, "wedged")
	release := sidecar.Block("config-apply")
	r.create("wedged")
	if _, err := sidecar.WaitCall(b.Context(), "config-apply"); err != nil {
		b.Fatal(err)
	}
	unwedge := sidecar.Wedge()
	disturbed, _ := r.oneByOne(names("beside", repetitions))
	unwedge()
	release()
	r.seen.untilSettled(b, []string{"wedged"})
	spread(b, "without-wedge", undisturbed)
	spread(b, "beside-wedge", disturbed)
}

// reportMemory reports what the operator needs at rest.
func reportMemory(b *testing.B, when string, empty, full memory, nodes int) {
	b.Helper()
	const megabyte, kilobyte = 1e6, 1e3
	for _, kind := range []struct {
		name        string
		empty, full float64
	}{{"heap", empty.heap, full.heap}, {"rss", empty.rss, full.rss}} {
		perNode := (kind.full - kind.empty) / float64(nodes)
		b.ReportMetric(kind.empty/megabyte, kind.name+"-empty-MB")
		b.ReportMetric(kind.full/megabyte, kind.name+"-"+when+"-MB")
		b.ReportMetric(perNode/kilobyte, kind.name+"-"+when+"-kB/node")
		say(b, "memory of the operator, %s, %s: %.1f MB with no node, %.1f MB with %d, so %.0f kB per node",
			kind.name, when, kind.empty/megabyte, kind.full/megabyte, nodes, perNode/kilobyte)
	}
}

// stop ends an operator in order, kill as a crash does.
func (o *running) stop() { o.end(syscall.SIGTERM) }
func (o *running) kill() { o.end(syscall.SIGKILL) }
