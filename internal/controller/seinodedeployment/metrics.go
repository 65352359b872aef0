package seinodedeployment

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/fleet"
)

// Metrics of fleets.
type Metrics struct {
	nodes     *prometheus.GaugeVec
	condition *prometheus.GaugeVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	of := []string{"namespace", "name"}
	m := &Metrics{
		nodes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sei_operator_fleet_nodes", Help: "How many nodes of a fleet are wanted, existing, ready, available and updated.",
		}, append(of, "count")),
		condition: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sei_operator_fleet_condition", Help: "1 when a condition of a fleet is True.",
		}, append(of, "condition")),
	}
	for _, collector := range []prometheus.Collector{m.nodes, m.condition} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Observe tells how it stands with a fleet.
func (m *Metrics) Observe(deployment *v1alpha1.SeiNodeDeployment) {
	status := &deployment.Status
	for kind, count := range map[string]int32{
		"wanted": int32(fleet.Replicas(deployment)), "existing": status.Replicas, "ready": status.ReadyReplicas,
		"available": status.AvailableReplicas, "updated": status.UpdatedReplicas,
	} {
		m.nodes.WithLabelValues(deployment.Namespace, deployment.Name, kind).Set(float64(count))
	}
	for _, kind := range v1alpha1.SeiNodeDeploymentConditions {
		value := 0.0
		if meta.IsStatusConditionTrue(status.Conditions, string(kind)) {
			value = 1
		}
		m.condition.WithLabelValues(deployment.Namespace, deployment.Name, string(kind)).Set(value)
	}
}

// Forget removes what is about a fleet that is gone.
func (m *Metrics) Forget(deployment types.NamespacedName) {
	labels := prometheus.Labels{"namespace": deployment.Namespace, "name": deployment.Name}
	m.nodes.DeletePartialMatch(labels)
	m.condition.DeletePartialMatch(labels)
}
