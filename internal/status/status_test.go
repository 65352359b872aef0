package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
)

func emptied(in *Input) { in.Node.Status = v1alpha1.SeiNodeStatus{} }

func TestAllConditionsAreThereOnceAndInOrder(t *testing.T) {
	t.Parallel()
	in := running(emptied)
	Set(in)
	var got []v1alpha1.ConditionType
	for _, c := range in.Node.Status.Conditions {
		got = append(got, v1alpha1.ConditionType(c.Type))
		if c.ObservedGeneration != 3 || !c.LastTransitionTime.Time.Equal(now) || c.Reason == "" || c.Message == "" {
			t.Errorf("the condition is %+v", c)
		}
	}
	if diff := cmp.Diff(v1alpha1.SeiNodeConditions, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestSetIsIdempotent(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]Input{
		"a node at rest":              running(),
		"an empty status":             running(emptied),
		"a validator, nobody looking": running(validator, silent),
		"much to tell":                running(muchToTell),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Set(in)
			in.Persisted = in.Node.Status.DeepCopy()
			in.Seen.Now = now.Add(time.Hour)
			Set(in)
			if diff := cmp.Diff(in.Persisted, &in.Node.Status); diff != "" {
				t.Errorf("the second time (-first +second):\n%s", diff)
			}
		})
	}
}

func TestPhase(t *testing.T) {
	t.Parallel()
	earlier := metav1.NewTime(now.Add(-time.Hour))
	was := func(p v1alpha1.SeiNodePhase) edit {
		return func(in *Input) {
			in.Node.Status.PhaseTransitionTime = &earlier
			in.Persisted = in.Node.Status.DeepCopy()
			in.Persisted.Phase = p
		}
	}
	for name, test := range map[string]struct {
		in      Input
		want    v1alpha1.SeiNodePhase
		changed bool
	}{
		"it stays":                   {in: running(was(v1alpha1.PhaseRunning)), want: v1alpha1.PhaseRunning},
		"it changed":                 {in: running(was(v1alpha1.PhaseInitializing)), want: v1alpha1.PhaseRunning, changed: true},
		"there was none":             {in: running(phase(""), was("")), want: v1alpha1.PhasePending, changed: true},
		"it is being deleted":        {in: running(deleted, was(v1alpha1.PhaseRunning)), want: v1alpha1.PhaseTerminating, changed: true},
		"it is still being deleted":  {in: running(deleted, was(v1alpha1.PhaseTerminating)), want: v1alpha1.PhaseTerminating},
		"it never came to anything":  {in: running(deleted, phase(""), was("")), want: v1alpha1.PhaseTerminating, changed: true},
		"it waits, and still has to": {in: running(phase(v1alpha1.PhasePending), was(v1alpha1.PhasePending)), want: v1alpha1.PhasePending},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Set(test.in)
			want := earlier
			if test.changed {
				want = metav1.NewTime(now)
			}
			if got := test.in.Node.Status; got.Phase != test.want || !got.PhaseTransitionTime.Equal(&want) {
				t.Errorf("the phase is %s since %s", got.Phase, got.PhaseTransitionTime)
			}
		})
	}
}

func TestSinceWhenAStopIsWanted(t *testing.T) {
	t.Parallel()
	earlier := metav1.NewTime(now.Add(-time.Minute))
	wanted := func(in *Input) { in.Node.Status.StopRequestedTime = &earlier }
	for name, test := range map[string]struct {
		in   Input
		want *metav1.Time
	}{
		"nobody wants one":           {in: running(unsafe)},
		"a pause has to wait":        {in: running(unsafe, asksForPause), want: new(metav1.NewTime(now))},
		"a deletion has to wait":     {in: running(unsafe, deleted), want: new(metav1.NewTime(now))},
		"a pause waits on":           {in: running(unsafe, asksForPause, wanted), want: &earlier},
		"a pause need not wait":      {in: running(asksForPause, wanted)},
		"a pause was thought better": {in: running(unsafe, wanted)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Set(test.in)
			if got := test.in.Node.Status.StopRequestedTime; !got.Equal(test.want) {
				t.Errorf("it is wanted since %s, want %s", got, test.want)
			}
		})
	}
}

func TestAPlaceInTheBudgetIsGivenBack(t *testing.T) {
	t.Parallel()
	slot := func(in *Input) { in.Node.Status.Slot = &v1alpha1.UpdateSlot{Cause: v1alpha1.UpdateCauseOperator} }
	for name, test := range map[string]struct {
		in   Input
		kept bool
	}{
		"it is ready":                  {in: running(slot)},
		"it is not ready yet":          {in: running(slot, notReadyPod), kept: true},
		"it was restarted just now":    {in: running(restarted), kept: true},
		"it is held":                   {in: running(slot, notReadyPod, holds)},
		"it is ready and still worked": {in: running(slot, doing(v1alpha1.PlanNodeUpdate)), kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if Set(test.in); (test.in.Node.Status.Slot != nil) != test.kept {
				t.Errorf("the slot is %+v", test.in.Node.Status.Slot)
			}
		})
	}
}

// stopped makes a container one that does not run.
func stopped(c *corev1.ContainerStatus) { c.State = corev1.ContainerState{} }

func TestWhatRuns(t *testing.T) {
	t.Parallel()
	before := func(in *Input) {
		in.Node.Status.CurrentImage, in.Node.Status.CurrentSidecarImage, in.Node.Status.PodTemplateHash = "seid", "sidecar", "before"
	}
	const seid, agent = "registry.example.com/seid:v6", "registry.example.com/sidecar:v1"
	for name, test := range map[string]struct {
		edit edit
		want [3]string
	}{
		"all runs":          {edit: func(*Input) {}, want: [3]string{seid, agent, "hash"}},
		"there is no pod":   {edit: noPod, want: [3]string{"seid", "sidecar", "before"}},
		"the pod is ending": {edit: endsAt(now), want: [3]string{"seid", "sidecar", "before"}},
		"nothing has started": {
			edit: pod(func(p *corev1.Pod) {
				stopped(&p.Status.ContainerStatuses[1])
				stopped(&p.Status.InitContainerStatuses[1])
			}),
			want: [3]string{"seid", "sidecar", "before"},
		},
		"only the sidecar runs": {
			edit: pod(func(p *corev1.Pod) { stopped(&p.Status.ContainerStatuses[1]) }), want: [3]string{"seid", agent, "hash"},
		},
		"only seid runs": {
			edit: pod(func(p *corev1.Pod) { stopped(&p.Status.InitContainerStatuses[1]) }), want: [3]string{seid, "sidecar", "hash"},
		},
		"a pod from before templates had a hash, and one was known": {
			edit: pod(func(p *corev1.Pod) { p.Annotations = nil }), want: [3]string{seid, agent, "before"},
		},
		"a container that the pod does not name": {
			edit: pod(func(p *corev1.Pod) { p.Spec.Containers = nil }), want: [3]string{"seid", agent, "hash"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := running(before, test.edit)
			Set(in)
			got := [3]string{in.Node.Status.CurrentImage, in.Node.Status.CurrentSidecarImage, in.Node.Status.PodTemplateHash}
			if got != test.want {
				t.Errorf("there run %q, want %q", got, test.want)
			}
		})
	}
}

// TestAPodFromBeforeTemplatesHadAHash counts as what is wanted now.
func TestAPodFromBeforeTemplatesHadAHash(t *testing.T) {
	t.Parallel()
	unstamped := pod(func(p *corev1.Pod) { p.Annotations = nil })
	in, unrendered := running(unstamped), running(unstamped, func(in *Input) { in.RenderProblem = "not safe" })
	Set(in)
	Set(unrendered)
	if got := in.Node.Status.PodTemplateHash; got != in.Want.TemplateHash || got == "" || unrendered.Node.Status.PodTemplateHash != "" {
		t.Errorf("the hash is %q, and %q without a render", got, unrendered.Node.Status.PodTemplateHash)
	}
}

func TestTheRestOfTheStatus(t *testing.T) {
	t.Parallel()
	in := running(func(in *Input) { in.Node.Status.NodeID = "old" })
	Set(in)
	if got := in.Node.Status; got.ObservedGeneration != 3 || got.Mode != v1alpha1.ModeFullNode || got.NodeID != "abc" || got.Endpoint.P2P == "" {
		t.Errorf("the status is %+v", got)
	}
	for name, other := range map[string]Input{
		"a node that is not up":        running(phase(v1alpha1.PhaseInitializing)),
		"a spec that is not rendered":  running(func(in *Input) { in.RenderProblem = "not safe" }),
		"a sidecar that tells nothing": running(phase(v1alpha1.PhaseInitializing), silent, func(in *Input) { in.Node.Status.NodeID = "old" }),
	} {
		Set(other)
		if other.Node.Status.Endpoint != nil {
			t.Errorf("%s has the endpoint %+v", name, other.Node.Status.Endpoint)
		}
		if want := map[bool]string{true: "old", false: "abc"}[!other.Seen.Sidecar.Connected]; other.Node.Status.NodeID != want {
			t.Errorf("%s has the id %q, want %q", name, other.Node.Status.NodeID, want)
		}
	}
	endpoint := in.Node.Status.Endpoint
	if endpoint.P2P = "changed"; in.Want.Endpoint.P2P == "changed" {
		t.Error("the endpoint is not a copy")
	}
}

// restarted is a node whose configuration was changed this very moment.
func restarted(in *Input) {
	in.Node.Status.Slot = &v1alpha1.UpdateSlot{Cause: v1alpha1.UpdateCauseOperator}
	in.Node.Status.LastPlan = &v1alpha1.PlanRecord{Type: v1alpha1.PlanConfigUpdate, CompletionTime: metav1.NewTime(now)}
}

func TestWhenToLookAgain(t *testing.T) {
	t.Parallel()
	unschedulable := func(since time.Duration) edit {
		return pod(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
				LastTransitionTime: metav1.NewTime(now.Add(-since)),
			}}
		})
	}
	seeking := running(silent, sidecarUp(now), unschedulable(time.Second))
	for name, test := range map[string]struct {
		in   Input
		want time.Duration
	}{
		"all is well":                                  {in: running()},
		"there is no pod":                              {in: running(noPod)},
		"the sidecar has not started":                  {in: running(silent, sidecarStarting)},
		"the sidecar starts this very moment":          {in: running(silent, sidecarUp(now)), want: sidecarGrace},
		"the sidecar has just started":                 {in: running(silent, sidecarUp(now.Add(-time.Second))), want: sidecarGrace - time.Second},
		"the sidecar has just started and answers":     {in: running(sidecarUp(now.Add(-time.Second)))},
		"the sidecar started by a clock that is ahead": {in: running(silent, sidecarUp(now.Add(time.Hour))), want: sidecarGrace},
		"the sidecar is overdue":                       {in: running(silent, sidecarUp(now.Add(-time.Hour)))},
		"the pod has not found a machine for a moment": {in: seeking, want: plan.UnschedulableIn(seeking.Seen.Pod, now)},
		"the pod is ending":                            {in: running(endsAt(now)), want: 30 * time.Second},
		"the pod is ending and the sidecar is silent":  {in: running(endsAt(now), silent, sidecarUp(now)), want: sidecarGrace},
		"the pod is almost out of reach":               {in: running(endsAt(now.Add(-29*time.Second)), silent, sidecarUp(now)), want: time.Second},
		"seid was restarted in place just now":         {in: running(restarted), want: 40 * time.Second},
		"the pod has not found a machine for long":     {in: running(silent, sidecarStarting, unschedulable(time.Minute))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Set(test.in); got != test.want {
				t.Errorf("it looks again after %s, want %s", got, test.want)
			}
		})
	}
}

// TestAReadyNodeIsDecidedByWhatIsSeen guards the rig: a node of the rig is ready.
func TestAReadyNodeIsDecidedByWhatIsSeen(t *testing.T) {
	t.Parallel()
	in := running()
	if got := plan.StatefulSet(in.Input); got.Action != plan.Assert {
		t.Errorf("its StatefulSet: %+v", got)
	}
}
