package scale_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

func sameStatus(a, b *v1alpha1.SeiNodeStatus) bool { return equality.Semantic.DeepEqual(a, b) }

// say prints a figure for people, at once: a benchmark takes minutes, and what it logs
// is cut short.
func say(b *testing.B, format string, args ...any) {
	b.Helper()
	fmt.Printf("    "+format+"\n", args...)
}

// quantile is the smallest that at least this share of all is not above.
func quantile(took []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	index := int(share*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(index, 0), len(sorted)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// spread reports the median and the 99th percentile.
func spread(b *testing.B, name string, took []time.Duration) (p50 time.Duration) {
	b.Helper()
	p50 = quantile(took, 0.5)
	p99 := quantile(took, 0.99)
	b.ReportMetric(milliseconds(p50), name+"-p50-ms")
	b.ReportMetric(milliseconds(p99), name+"-p99-ms")
	say(b, "%s: p50 %.0f ms, p99 %.0f ms, of %d", name, milliseconds(p50), milliseconds(p99), len(took))
	return p50
}

// since is how long after a moment each of them was.
func since(began time.Time, at []time.Time) []time.Duration {
	took := make([]time.Duration, len(at))
	for i := range at {
		took[i] = at[i].Sub(began)
	}
	return took
}

// seconds reports a time.
func seconds(b *testing.B, name string, took time.Duration) {
	b.Helper()
	b.ReportMetric(took.Seconds(), name+"-s")
	say(b, "%s: %.2f s", name, took.Seconds())
}

func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
