package scale_test

import (
	"os"
	"runtime"
	"runtime/pprof"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sei-operator/sei-operator/internal/operator"
	"github.com/sei-operator/sei-operator/internal/platform"
)

func BenchmarkTmp(b *testing.B) {
	runtime.MemProfileRate = 4096
	r := newRig(b)
	r.runHere(operator.Config{
		Kubernetes: r.cluster.OperatorConfig(b), Platform: platform.Default(), Log: logr.Discard(), Metrics: prometheus.NewRegistry(),
		MetricsAddress: "0", HealthAddress: "0", WatchNamespace: r.namespace,
	})
	r.create("warm")
	r.seen.untilSettled(b, []string{"warm"})
	before := reconciled(b)
	began := readLoad(b)
	_, d := r.atOnce(names("node", *smallFleet))
	began.explain(b, "creation")
	say(b, "%d reconciles, %s", reconciled(b)-before, d)
	runtime.GC()
	runtime.GC()
	f, _ := os.Create("/tmp/heap.prof")
	pprof.WriteHeapProfile(f)
	f.Close()
}
