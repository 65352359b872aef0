package operator_test

import (
	"testing"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

const image2 = "registry.example.com/seid:v2"

// A rollout of ten nodes within budgets of 1, 3 and 50 %, watched continuously: never are
// more pods down than the budget allows.
func TestARolloutStaysWithinItsBudget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		budget string
		most   int
	}{{"1", 1}, {"3", 3}, {"50%", 5}} {
		t.Run(c.budget, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			const count = 10
			r.create(r.deployment("fleet", count, maxUnavailable(c.budget)))
			r.fleetReady("fleet")
			seen := r.watchAvailability("fleet", count)
			r.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Template.Spec.Image = image2 })
			done := r.fleetReady("fleet")
			most, looks := seen.End()
			t.Logf("maxUnavailable %s: at most %d pods were down at once, seen in %d observations", c.budget, most, looks)
			if most > c.most || most == 0 || looks < 2*count {
				t.Errorf("%d were down at once, in %d observations: %v", most, looks, seen.History)
			}
			if done.Status.UpdatedReplicas != count || done.Status.CurrentRevision != done.Status.UpdateRevision {
				t.Errorf("the status says %+v", done.Status)
			}
			for _, name := range nodeNames("fleet", count) {
				node := &v1alpha1.SeiNode{}
				r.get(name, node)
				if node.Status.CurrentImage != image2 {
					t.Errorf("%s runs %s", name, node.Status.CurrentImage)
				}
			}
		})
	}
}
