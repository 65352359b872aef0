package status

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// waits gives a status a plan whose second task began to wait this long ago.
func waits(ago time.Duration) change {
	return func(s *v1alpha1.SeiNodeStatus) {
		s.Plan = &v1alpha1.Plan{Tasks: []v1alpha1.PlanTask{
			{Status: v1alpha1.PlanTaskComplete, StartTime: new(metav1.NewTime(now.Add(-time.Hour)))},
			{Status: v1alpha1.PlanTaskRunning, StartTime: new(metav1.NewTime(now.Add(-ago)))},
			{Status: v1alpha1.PlanTaskPending},
		}}
	}
}

func tellsOf(kind v1alpha1.ConditionType) change {
	return func(s *v1alpha1.SeiNodeStatus) {
		s.Conditions = append(s.Conditions, condition(kind, metav1.ConditionTrue, v1alpha1.ReasonBound, "news"))
	}
}

func TestPostpone(t *testing.T) {
	t.Parallel()
	currentImage := func(s *v1alpha1.SeiNodeStatus) { s.CurrentImage = "new" }
	for name, test := range map[string]struct {
		before, after *v1alpha1.SeiNodeStatus
		want          time.Duration
	}{
		"nothing changed":                   {before: statusWith(waits(0)), after: statusWith(waits(0))},
		"the image of seid, at once":        {before: statusWith(waits(0)), after: statusWith(waits(0), currentImage), want: batch},
		"the image of seid, a moment later": {before: statusWith(waits(time.Second)), after: statusWith(waits(time.Second), currentImage), want: batch - time.Second},
		"the image of seid, in time":        {before: statusWith(waits(batch)), after: statusWith(waits(batch), currentImage)},
		"the image of seid, much later":     {before: statusWith(waits(time.Hour)), after: statusWith(waits(time.Hour), currentImage)},
		"a task that begins in the future":  {before: statusWith(waits(-time.Hour)), after: statusWith(waits(-time.Hour), currentImage)},
		"the image of the sidecar": {
			before: statusWith(waits(0)), after: statusWith(waits(0), func(s *v1alpha1.SeiNodeStatus) { s.CurrentSidecarImage = "new" }), want: batch,
		},
		"the hash of the template": {
			before: statusWith(waits(0)), after: statusWith(waits(0), func(s *v1alpha1.SeiNodeStatus) { s.PodTemplateHash = "new" }), want: batch,
		},
		"the volume":                      {before: statusWith(waits(0)), after: statusWith(waits(0), tellsOf(v1alpha1.ConditionDataVolumeReady)), want: batch},
		"the sidecar":                     {before: statusWith(waits(0)), after: statusWith(waits(0), tellsOf(v1alpha1.ConditionSidecarReady)), want: batch},
		"whether it is ready":             {before: statusWith(waits(0)), after: statusWith(waits(0), tellsOf(v1alpha1.ConditionReady))},
		"the volume and the phase":        {before: statusWith(waits(0)), after: statusWith(waits(0), tellsOf(v1alpha1.ConditionDataVolumeReady), inPhase(v1alpha1.PhaseFailed))},
		"the plan":                        {before: statusWith(), after: statusWith(waits(0), currentImage)},
		"the image, without a plan":       {before: statusWith(), after: statusWith(currentImage)},
		"the image, and no task runs yet": {before: statusWith(planned("1")), after: statusWith(planned("1"), currentImage)},
		"a task without a start": {
			before: statusWith(func(s *v1alpha1.SeiNodeStatus) { waits(0)(s); s.Plan.Tasks[1].StartTime = nil }),
			after:  statusWith(func(s *v1alpha1.SeiNodeStatus) { waits(0)(s); s.Plan.Tasks[1].StartTime = nil }, currentImage),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Postpone(test.before, test.after, now); got != test.want {
				t.Errorf("it waits %s, want %s", got, test.want)
			}
		})
	}
}
