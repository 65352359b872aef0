package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sei-operator/sei-operator/lab/devchain/app"
)

// planMetric shows the upgrades that this process came across, under seid's name; beside
// them there is always a zero without labels.
type planMetric struct {
	plans          func() []app.Plan
	named, nothing *prometheus.Desc
}

func newPlanMetric(plans func() []app.Plan) *planMetric {
	const name, help = "cosmos_upgrade_plan_height", "Next upgrade height"
	return &planMetric{
		plans:   plans,
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
	for _, plan := range m.plans() {
		// seid keeps it in 32 bits: above 2^24 it is rounded, and at the heights of a chain
		// that is some years old it is a multiple of 16.
		out <- prometheus.MustNewConstMetric(m.named, prometheus.GaugeValue, float64(float32(plan.Height)), plan.Name, plan.Info)
	}
}

// registerMetrics adds those of the application to those of the engine. Without telemetry
// there are no plans.
func registerMetrics(version string, telemetry bool, plans func() []app.Plan) error {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "seid_version_and_commit", Help: "The binary that runs.",
		ConstLabels: prometheus.Labels{"seid_version": version, "commit": ""},
	})
	build.Set(1)
	collectors := []prometheus.Collector{build}
	if telemetry {
		collectors = append(collectors, newPlanMetric(plans))
	}
	for _, collector := range collectors {
		if err := prometheus.Register(collector); err != nil {
			return err
		}
	}
	return nil
}
