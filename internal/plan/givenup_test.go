package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// A volume that a person gave up is made anew, whatever the node was about, and once.
func TestANodeIsBroughtUpAgainOnANewVolume(t *testing.T) {
	t.Parallel()
	accepts := acceptsLossOf(string(claimUID))
	pending := onPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })
	at := func(kind v1alpha1.PlanType, first v1alpha1.PlanTaskStatus) edit {
		return func(in *Input) {
			in.Node.Status.Plan = newPlan(*in, kind, "", "")
			in.Node.Status.Plan.Tasks[0].Status = first
		}
	}
	for name, test := range map[string]struct {
		in   Input
		step Step
	}{
		"at rest, and nobody gave it up":   {running(noClaim, noPod), Idle},
		"at rest, the pod is gone":         {running(noClaim, noPod, accepts), Start},
		"at rest, the pod waits for it":    {running(noClaim, pending, accepts), Start},
		"another claim is in its place":    {running(hasClaim(func(c *corev1.PersistentVolumeClaim) { c.UID = otherUID }), noPod, accepts), Start},
		"it is there after all":            {running(noPod, accepts), Idle},
		"a pod still runs on it":           {running(noClaim, accepts), Idle},
		"an update waits":                  {running(noClaim, noPod, accepts, at(v1alpha1.PlanNodeUpdate, v1alpha1.PlanTaskRunning)), Start},
		"a bootstrap is past making it":    {running(noClaim, noPod, accepts, at(v1alpha1.PlanBootstrap, v1alpha1.PlanTaskComplete)), Start},
		"a bootstrap is about to make it":  {running(noClaim, noPod, accepts, at(v1alpha1.PlanBootstrap, v1alpha1.PlanTaskRunning)), Continue},
		"an approval waits":                {running(noClaim, noPod, accepts, at(v1alpha1.PlanReapprove, v1alpha1.PlanTaskPending)), Start},
		"it is paused":                     {running(noClaim, noPod, accepts, paused), Frozen},
		"the annotation names another one": {running(noClaim, noPod, acceptsLossOf("another")), Idle},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Decide(test.in)
			if got.Step != test.step {
				t.Fatalf("the step is %s: %s", got.Step, got.Message)
			}
			if got.Step == Start && (got.Plan.Type != v1alpha1.PlanBootstrap || got.Plan.Tasks[0].Type != TaskEnsureDataPVC) {
				t.Errorf("the plan is %+v", got.Plan)
			}
		})
	}
}
