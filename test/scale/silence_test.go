package scale_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sei-operator/sei-operator/internal/operator"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/test/cluster"
)

const (
	resync  = 2 * time.Second
	resyncs = 10
)

// silence reports what the operator asks of the API server while nothing happens. It
// runs in this process, because nobody but a test needs a resync that short.
func (r *rig) silence(all []string) {
	b := r.b
	b.Helper()
	called := len(r.sidecars.Calls())
	stop := r.runHere(operator.Config{
		Namespace:  "sei-system",
		Kubernetes: r.cluster.OperatorConfig(b), Platform: platform.Default(), Log: logr.Discard(), Metrics: prometheus.NewRegistry(),
		MetricsAddress: "0", HealthAddress: "0", WatchNamespace: r.namespace, Resync: new(resync),
	})
	defer stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for r.streams(called) < len(all) {
		select {
		case <-look.C:
		case <-b.Context().Done():
			b.Fatal("not all streams were opened")
		}
	}
	// Whatever the start brought about is over.
	r.pause(resync)
	reconciles, called, audited := reconciled(b), len(r.sidecars.Calls()), time.Now()
	began := readLoad(b)
	// Each resync comes up to a tenth late.
	r.pause(resyncs * resync * 11 / 10)
	began.explain(b, "the silence")
	writes, reads, watches := 0, 0, 0
	for _, request := range r.cluster.Audit(b, cluster.OperatorUser, audited) {
		switch {
		case request.Write():
			writes++
		case request.Read():
			reads++
		case request.Verb == "watch":
			watches++
		}
	}
	reconciles, called = reconciled(b)-reconciles, len(r.sidecars.Calls())-called
	b.ReportMetric(float64(writes), "silent-writes")
	b.ReportMetric(float64(reads), "silent-reads")
	say(b, "%s, %d streams open, ten resyncs in %s, %d reconciles: %s, %s, %d new watches, %s of sidecars",
		count(len(all), "node"), len(all), resyncs*resync*11/10, reconciles, count(writes, "API write"), count(reads, "live read"), watches, count(called, "poll"))
	if writes+reads > 0 {
		b.Errorf("a fleet at rest is not silent")
	}
}

// streams is how many nodes have been asked for their events.
func (r *rig) streams(since int) int {
	open := map[string]bool{}
	for _, call := range r.sidecars.Calls()[since:] {
		if call.Method == http.MethodGet && call.Path == "/v0/events" {
			open[call.Name] = true
		}
	}
	return len(open)
}

// runHere runs an operator in this process.
func (r *rig) runHere(config operator.Config) (stop func()) {
	ctx, cancel := context.WithCancel(r.b.Context())
	ended := make(chan error, 1)
	go func() { ended <- operator.Run(ctx, config) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.b.Errorf("the operator ended with %v", err)
		}
	})
	r.b.Cleanup(stop)
	return stop
}

// reconciled is how often the operator in this process looked at a node.
func reconciled(b *testing.B) int {
	b.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	total := 0.0
	for _, family := range families {
		if family.GetName() == "controller_runtime_reconcile_total" {
			for _, metric := range family.GetMetric() {
				total += metric.GetCounter().GetValue()
			}
		}
	}
	return int(total)
}
