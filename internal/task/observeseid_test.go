package task

import (
	"testing"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// An update is complete when the new seid is known to work, goes on while nobody knows,
// and ends for good with a binary that cannot go on.
func TestAnUpdateWaitsForProof(t *testing.T) {
	answers := api.Seid{State: api.SeidRunning, RPC: true, Progress: api.ProgressNone}
	executed, refused := answers, api.Seid{State: api.SeidParked, ParkedBecause: "BinaryTooNew"}
	executed.Progress = api.ProgressExecuted
	for name, test := range map[string]struct {
		sidecar plan.Sidecar
		want    verdict
		reason  string
	}{
		"nobody tells":            {plan.Sidecar{}, waiting, ""},
		"it answers":              {plan.Sidecar{Connected: true, Status: api.Status{Approved: true, Seid: answers}}, waiting, ""},
		"it has executed a block": {plan.Sidecar{Connected: true, Status: api.Status{Approved: true, Seid: executed}}, done, ""},
		"it cannot go on":         {plan.Sidecar{Connected: true, Status: api.Status{Approved: true, Seid: refused}}, terminal, "BinaryTooNew"},
	} {
		s := replacing(nil)
		s.Node.Status.Plan.Reason = string(v1alpha1.ReasonImageChanged)
		s.Seen.Sidecar = test.sidecar
		got, err := observeSeid(t.Context(), s, 0)
		if err != nil || got.verdict != test.want || got.reason != test.reason {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
