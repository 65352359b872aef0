package seinode

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// phases are all phases, so that each has a series.
var phases = []v1alpha1.SeiNodePhase{
	v1alpha1.PhasePending, v1alpha1.PhaseInitializing, v1alpha1.PhaseRunning, v1alpha1.PhaseFailed, v1alpha1.PhaseTerminating,
}

// Metrics of nodes and of the work on them.
type Metrics struct {
	phase       *prometheus.GaugeVec
	ready       *prometheus.GaugeVec
	update      *prometheus.GaugeVec
	recreations *prometheus.CounterVec
	plans       *prometheus.HistogramVec
	tasks       *prometheus.HistogramVec
	retries     *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	node := []string{"namespace", "name"}
	m := &Metrics{
		phase: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sei_operator_node_phase", Help: "1 for the phase that a node is in, 0 for the others.",
		}, append(node, "phase")),
		ready: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sei_operator_node_ready", Help: "1 when the condition Ready of a node is True.",
		}, append(node, "reason")),
		update: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sei_operator_node_update", Help: "1 while a node takes a place in the update budget (updating), or waits for one (waiting).",
		}, append(node, "state")),
		recreations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sei_operator_statefulset_recreations_total", Help: "StatefulSets of a node that were gone or replaced and are made anew.",
		}, node),
		plans: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sei_operator_plan_duration_seconds", Help: "How long plans took, from the first record to the end.",
			Buckets: []float64{.1, .3, 1, 3, 10, 30, 60, 180, 600, 1800, 3600},
		}, []string{"type", "outcome"}),
		tasks: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sei_operator_task_duration_seconds", Help: "How long tasks of plans took, waiting included.",
			Buckets: []float64{.01, .03, .1, .3, 1, 3, 10, 30, 60, 180, 600, 1800},
		}, []string{"type", "outcome"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sei_operator_task_retries_total", Help: "Tasks of plans that failed and are tried again.",
		}, []string{"type"}),
	}
	for _, collector := range []prometheus.Collector{m.phase, m.ready, m.update, m.recreations, m.plans, m.tasks, m.retries} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Observe tells how it stands with a node, and counts a plan that ended.
func (m *Metrics) Observe(node *v1alpha1.SeiNode, before *v1alpha1.SeiNodeStatus) {
	for _, phase := range phases {
		m.phase.WithLabelValues(node.Namespace, node.Name, string(phase)).Set(oneIf(node.Status.Phase == phase))
	}
	m.ready.DeletePartialMatch(labelsOf(node.Namespace, node.Name))
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == string(v1alpha1.ConditionReady) {
			m.ready.WithLabelValues(node.Namespace, node.Name, c.Reason).Set(oneIf(c.Status == "True"))
		}
	}
	c := meta.FindStatusCondition(node.Status.Conditions, string(v1alpha1.ConditionNodeUpdateInProgress))
	m.update.WithLabelValues(node.Namespace, node.Name, "updating").Set(oneIf(node.Status.Slot != nil))
	m.update.WithLabelValues(node.Namespace, node.Name, "waiting").Set(oneIf(c != nil && c.Reason == string(v1alpha1.ReasonWaitingForBudget)))
	last := node.Status.LastPlan
	if last != nil && (before.LastPlan == nil || !before.LastPlan.CompletionTime.Equal(&last.CompletionTime)) {
		m.plans.WithLabelValues(string(last.Type), string(last.Outcome)).Observe(last.CompletionTime.Sub(last.StartTime.Time).Seconds())
	}
}

// Forget removes what is about a node that is gone.
func (m *Metrics) Forget(node types.NamespacedName) {
	labels := labelsOf(node.Namespace, node.Name)
	m.phase.DeletePartialMatch(labels)
	m.ready.DeletePartialMatch(labels)
	m.update.DeletePartialMatch(labels)
	m.recreations.DeletePartialMatch(labels)
}

func labelsOf(namespace, name string) prometheus.Labels {
	return prometheus.Labels{"namespace": namespace, "name": name}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Reporter tells people by events and dashboards by metrics.
type Reporter struct {
	Recorder events.EventRecorder
	Metrics  *Metrics
}

var _ scope.Reporter = (*Reporter)(nil)

// Event tells of something that happened to a node.
func (r *Reporter) Event(node *v1alpha1.SeiNode, event scope.Event) {
	kind := corev1.EventTypeNormal
	if event.Warning {
		kind = corev1.EventTypeWarning
	}
	r.Recorder.Eventf(node, nil, kind, event.Reason, "Reconcile", "%s", event.Message)
}

// TaskEnded counts a run of a task.
func (r *Reporter) TaskEnded(taskType, outcome string, took time.Duration) {
	if outcome == "retried" {
		r.Metrics.retries.WithLabelValues(taskType).Inc()
		return
	}
	r.Metrics.tasks.WithLabelValues(taskType, outcome).Observe(took.Seconds())
}

// Recreated counts a StatefulSet that is made anew.
func (r *Reporter) Recreated(node *v1alpha1.SeiNode) {
	r.Metrics.recreations.WithLabelValues(node.Namespace, node.Name).Inc()
}
