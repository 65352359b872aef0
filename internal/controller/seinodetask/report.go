package seinodetask

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/nodetask"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// Reporter tells people by events and dashboards by metrics.
type Reporter struct {
	Recorder events.EventRecorder

	waited, took *prometheus.HistogramVec
}

// NewReporter registers the metrics.
func NewReporter(recorder events.EventRecorder, registry prometheus.Registerer) (*Reporter, error) {
	r := &Reporter{
		Recorder: recorder,
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sei_operator_nodetask_wait_seconds", Help: "How long SeiNodeTasks waited for their node and for their turn.",
			Buckets: []float64{.1, 1, 10, 60, 300, 1800},
		}, []string{"kind"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sei_operator_nodetask_duration_seconds", Help: "How long SeiNodeTasks took from their beginning on their node to their end, by the reason for which they ended.",
			Buckets: []float64{.1, .3, 1, 3, 10, 30, 60, 180, 600, 1800, 3600, 86400},
		}, []string{"kind", "reason"}),
	}
	for _, collector := range []prometheus.Collector{r.waited, r.took} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Event tells of something that happened to a task.
func (r *Reporter) Event(task *v1alpha1.SeiNodeTask, event scope.Event) {
	kind := corev1.EventTypeNormal
	if event.Warning {
		kind = corev1.EventTypeWarning
	}
	r.Recorder.Eventf(task, nil, kind, event.Reason, "Reconcile", "%s", event.Message)
}

// Observe counts what a change of the status tells.
func (r *Reporter) Observe(task *v1alpha1.SeiNodeTask, before, after *v1alpha1.SeiNodeTaskStatus) {
	kind := string(task.Spec.Kind)
	began := after.ExecutionStartTime
	if before.ExecutionStartTime == nil && began != nil {
		r.waited.WithLabelValues(kind).Observe(began.Sub(after.StartTime.Time).Seconds())
	}
	if reason := nodetask.Ended(after); reason != "" && !before.Finished() {
		seconds := 0.0
		if began != nil {
			seconds = after.CompletionTime.Sub(began.Time).Seconds()
		}
		r.took.WithLabelValues(kind, string(reason)).Observe(seconds)
	}
}
