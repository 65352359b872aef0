package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sei-operator/sei-operator/lab/devchain/app"
)

// planMetric shows the upgrade that is scheduled, under seid's name. A plan that was
// carried out is no longer shown; beside it there is always a zero without labels.
type planMetric struct {
	plan           func() *app.Plan
	named, nothing *prometheus.Desc
}

func newPlanMetric(plan func() *app.Plan) *planMetric {
	const name, help = "cosmos_upgrade_plan_height", "Height of the upgrade that is scheduled."
	return &planMetric{
		plan:    plan,
		named:   prometheus.NewDesc(name, help, []string{"name", "info"}, nil),
		nothing: prometheus.NewDesc(name, help, nil, nil),
	}
}

// Describe implements a collector. It describes nothing: samples of one name with
// different labels would be refused.
func (m *planMetric) Describe(chan<- *prometheus.Desc) {}

// Collect implements a collector.
func (m *planMetric) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(m.nothing, prometheus.GaugeValue, 0)
	if plan := m.plan(); plan != nil {
		out <- prometheus.MustNewConstMetric(m.named, prometheus.GaugeValue, float64(plan.Height), plan.Name, plan.Info)
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
