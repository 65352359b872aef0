package client_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// From a submission over HTTP to the answer that the task is done, everything
// durable. The target is 5 ms.
func BenchmarkSubmitToDone(b *testing.B) {
	s := start(b)
	c := dial(b, s.url, uid)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		id, err := c.Submit(b.Context(), api.TaskRequest{Type: "quick", Params: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
		if err != nil {
			b.Fatal(err)
		}
		if got, err := c.Wait(b.Context(), id, time.Minute); err != nil || got.Status != api.TaskCompleted {
			b.Fatal(got.Status, err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
