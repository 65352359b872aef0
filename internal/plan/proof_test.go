package plan

import (
	"strings"
	"testing"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// lives says how it is with the process.
func lives(state api.SeidState, progress api.SeidProgress, changes ...func(*api.Seid)) edit {
	return sidecar(func(s *Sidecar) {
		s.Status.Seid = api.Seid{State: state, Progress: progress, RPC: state == api.SeidRunning}
		for _, change := range changes {
			change(&s.Status.Seid)
		}
	})
}

func parkedFor(reason string) func(*api.Seid) {
	return func(s *api.Seid) { s.ParkedBecause, s.Message = reason, "so it says" }
}

// updates says that a plan is under way.
func updates(reason v1alpha1.ConditionReason) edit {
	return func(in *Input) {
		in.Node.Status.Plan = &v1alpha1.Plan{Type: v1alpha1.PlanNodeUpdate, Reason: string(reason)}
	}
}

func isSeed(in *Input) { in.Node.Spec.FullNode, in.Node.Spec.Seed = nil, &v1alpha1.SeedSpec{} }

func TestProven(t *testing.T) {
	t.Parallel()
	image, template := updates(v1alpha1.ReasonImageChanged), updates(v1alpha1.ReasonTemplateChanged)
	starting, is, stands := api.SeidStarting, api.SeidRunning, api.SeidParked
	none, executed, idle := api.ProgressNone, api.ProgressExecuted, api.ProgressIdle
	for name, test := range map[string]struct {
		in      Input
		known   bool
		refused v1alpha1.ConditionReason
		says    string
	}{
		"no sidecar answers":                {in: running(noPod), says: "Waits for the sidecar"},
		"it starts":                         {in: running(lives(starting, none)), says: "to answer"},
		"it ended":                          {in: running(lives(api.SeidStopped, executed)), says: "to answer"},
		"its container waits":               {in: running(lives(api.SeidUnknown, none)), says: "to answer"},
		"it answers, and may fail soon":     {in: running(image, lives(is, none)), says: "execute a block"},
		"it executed a block":               {in: running(image, lives(is, executed)), known: true},
		"no block comes to it":              {in: running(image, lives(is, idle)), known: true, says: "no block came"},
		"the chain is known to stand still": {in: running(image, lives(is, none, func(s *api.Seid) { s.Readiness.Reason = "NetworkStalled" })), known: true, says: "stands still"},
		"it restores a snapshot":            {in: running(lives(starting, none, func(s *api.Seid) { s.UnsafeBecause = "StateSyncing" })), known: true, says: "snapshot"},
		"it finds no snapshot":              {in: running(image, lives(starting, none, func(s *api.Seid) { s.Readiness.Reason = "NoSnapshotFound" })), known: true, says: "finds no snapshot"},
		"an older sidecar":                  {in: running(image, lives(is, "")), known: true},
		"an older sidecar, no answer yet":   {in: running(image, lives(is, "", func(s *api.Seid) { s.RPC = false })), says: "execute a block"},
		"a seed":                            {in: running(isSeed, image, lives(is, none)), known: true},
		"a seed that starts":                {in: running(isSeed, image, lives(starting, none)), says: "to answer"},
		"held":                              {in: running(lives(api.SeidStopped, none), sidecar(func(s *Sidecar) { s.Status.Held = true })), known: true, says: "held"},
		"not approved":                      {in: running(lives(api.SeidWaiting, none), sidecar(func(s *Sidecar) { s.Status.Approved = false })), known: true, says: "not approved"},
		"the image lacks the upgrade":       {in: running(image, lives(stands, none, parkedFor("UpgradeNeeded"))), refused: v1alpha1.ReasonUpgradeNeeded, says: "seid:v6: so it says"},
		"the image is too new":              {in: running(image, lives(stands, none, parkedFor("BinaryTooNew"))), refused: v1alpha1.ReasonBinaryTooNew, says: "so it says"},
		"the image is too old":              {in: running(image, lives(stands, none, parkedFor("BinaryTooOld"))), refused: v1alpha1.ReasonBinaryTooOld},
		"the next upgrade came":             {in: running(image, lives(stands, executed, parkedFor("UpgradeNeeded"))), known: true, says: "so it says"},
		"it was halted before":              {in: running(template, lives(stands, none, parkedFor("UpgradeNeeded"))), known: true, says: "so it says"},
		"it was halted, and nothing is on":  {in: running(lives(stands, none, parkedFor("UpgradeNeeded"))), known: true},
		"other keys":                        {in: running(image, lives(stands, none, parkedFor("KeyIdentityChanged"))), known: true, says: "so it says"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Proven(test.in)
			if got.Known != test.known || got.Refused != test.refused || !strings.Contains(got.Message, test.says) {
				t.Errorf("%+v", got)
			}
		})
	}
}
