package plan

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// inUpdate is a node that runs, in the middle of a NodeUpdate.
func inUpdate(task string, edits ...edit) Input {
	in := running()
	current := newPlan(in, v1alpha1.PlanNodeUpdate, v1alpha1.ReasonImageChanged, "It is updated.")
	for i := range current.Tasks {
		if current.Tasks[i].Type == task {
			current.Tasks[i].Status = v1alpha1.PlanTaskRunning
			break
		}
		current.Tasks[i].Status = v1alpha1.PlanTaskComplete
	}
	in.Node.Status.Plan = current
	in.Persisted = nil
	return build(in, edits)
}

var (
	acceptsLoss = annotated(v1alpha1.AnnotationAcceptNewVolume, string(claimUID))
	evilSet     = hasSetKeepingPod(stamp("another"))
)

func TestWhatSupersedesAPlan(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in   Input
		next v1alpha1.PlanType // empty: the plan is carried on with
	}{
		"nothing": {in: inUpdate(TaskObserveImage)},

		"the volume is lost":                                 {in: inUpdate(TaskObserveImage, noClaim)},
		"the volume is lost, and another is accepted":        {in: inUpdate(TaskObserveImage, noClaim, noPod, acceptsLoss), next: v1alpha1.PlanBootstrap},
		"another volume is there, and accepted":              {in: inUpdate(TaskObserveImage, hasClaim(claimed(otherUID)), noPod, acceptsLoss), next: v1alpha1.PlanBootstrap},
		"the volume is there, and another would be accepted": {in: inUpdate(TaskObserveImage, acceptsLoss)},
		"the volume is lost after a bootstrap made it":       {in: fresh(at(TaskApplyService), tracks(claimUID), acceptsLoss), next: v1alpha1.PlanBootstrap},
		"the volume is lost, and a bootstrap makes another":  {in: fresh(at(TaskEnsureDataPVC), tracks(claimUID), acceptsLoss)},
		"the template is edited after it was applied":        {in: inUpdate(TaskObserveImage, evilSet), next: v1alpha1.PlanNodeUpdate},
		"the template is edited before it is applied":        {in: inUpdate(TaskApplyStatefulSet, evilSet)},
		"the template is edited when the new pod runs":       {in: inUpdate(TaskMarkReady, evilSet)},
		"the StatefulSet is another one":                     {in: inUpdate(TaskObserveImage, hasSetKeepingPod(func(s *appsv1.StatefulSet) { s.UID = otherUID; stamp("another")(s) }))},
		"the template is edited during a bootstrap":          {in: fresh(hasClaim(), tracks(claimUID), at(TaskConfigApply), hasSet(stamp("another")), func(in *Input) { in.Node.Status.StatefulSet = &v1alpha1.ObjectIdentity{Name: "node", UID: setUID} })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Decide(test.in)
			switch {
			case test.next == "" && (got.Step != Continue || got.Superseded != nil):
				t.Errorf("decided was %+v", got)
			case test.next != "" && (got.Superseded == nil || got.Plan == nil || got.Plan.Type != test.next):
				t.Errorf("decided was %+v", got)
			}
		})
	}
}
