package engine

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

type metrics struct {
	submissions, failures, panics *prometheus.CounterVec
	duration                      *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		submissions: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "sei_sidecar_task_submissions_total", Help: "Runs of tasks that were accepted.",
		}, []string{"type"}),
		failures: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "sei_sidecar_task_failures_total", Help: "Runs of tasks that failed.",
		}, []string{"type", "reason"}),
		panics: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "sei_sidecar_task_panics_total", Help: "Handlers of tasks that panicked.",
		}, []string{"type"}),
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sei_sidecar_task_duration_seconds", Help: "From the start of a run to its end.",
			Buckets: []float64{.005, .05, .5, 1, 5, 15, 60, 300, 1800},
		}, []string{"type", "status"}),
	}
}

func (m *metrics) ended(t store.Task) {
	if t.Status == store.Failed {
		m.failures.WithLabelValues(t.Type, t.Reason).Inc()
	}
	if t.StartedAt.IsZero() {
		return // it ended before it began: its type is gone
	}
	m.duration.WithLabelValues(t.Type, string(t.Status)).Observe(t.CompletedAt.Sub(t.StartedAt).Seconds())
}
