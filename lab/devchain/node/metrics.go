package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sei-operator/sei-operator/lab/devchain/app"
)

// planMetric shows the upgrade that is scheduled, under seid's name. A plan that was
// carried out is no longer shown; the sample without a name always is.
type planMetric struct {
	plan func() *app.Plan
	desc *prometheus.Desc
}

func newPlanMetric(plan func() *app.Plan) *planMetric {
	return &planMetric{plan: plan, desc: prometheus.NewDesc(
		"cosmos_upgrade_plan_height", "Height of the upgrade that is scheduled.", []string{"name", "info"}, nil)}
}

// Describe implements a collector.
func (m *planMetric) Describe(out chan<- *prometheus.Desc) { out <- m.desc }

// Collect implements a collector.
func (m *planMetric) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, 0, "", "")
	if plan := m.plan(); plan != nil {
		out <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, float64(plan.Height), plan.Name, plan.Info)
	}
}

// registerMetrics adds those of the application to those of the engine.
func registerMetrics(version string, plan func() *app.Plan) error {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "seid_version_and_commit", Help: "The binary that runs.",
		ConstLabels: prometheus.Labels{"seid_version": version, "commit": ""},
	})
	build.Set(1)
	for _, collector := range []prometheus.Collector{build, newPlanMetric(plan)} {
		if err := prometheus.Register(collector); err != nil {
			return err
		}
	}
	return nil
}
