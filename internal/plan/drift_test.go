package plan

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// onPod changes the pod that is there.
func onPod(change func(*corev1.Pod)) edit {
	return func(in *Input) {
		in.Seen.Pod = in.Seen.Pod.DeepCopy()
		change(in.Seen.Pod)
	}
}

// runsImage gives a container of a pod another image.
func runsImage(container, name string) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) {
		for _, all := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range all {
				if all[i].Name == container {
					all[i].Image = name
				}
			}
		}
	}
}

func unstamped(p *corev1.Pod) { delete(p.Annotations, v1alpha1.AnnotationTemplateHash) }

// stamp puts another hash on the template of the StatefulSet.
func stamp(hash string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		if s.Spec.Template.Annotations = map[string]string{v1alpha1.AnnotationTemplateHash: hash}; hash == "" {
			s.Spec.Template.Annotations = nil
		}
	}
}

// newTemplate is what a new operator may want.
func newTemplate(in *Input) { in.Want.TemplateHash = "another" }

func TestDrift(t *testing.T) {
	t.Parallel()
	update, reconfigure := v1alpha1.PlanNodeUpdate, v1alpha1.PlanConfigUpdate
	oldSeid, oldSidecar := runsImage(render.ContainerSeid, "old"), runsImage(render.ContainerSidecar, "older")
	for name, test := range map[string]struct {
		in     Input
		plan   v1alpha1.PlanType
		reason v1alpha1.ConditionReason
		says   []string
	}{
		"none":                             {in: running()},
		"there is no StatefulSet":          {in: running(newImage, noSet)},
		"the StatefulSet is adopted":       {in: running(newImage, forgotten)},
		"the StatefulSet is not ours":      {in: running(newImage, hasSet(ownedBy("HelmRelease", "theirs")))},
		"the StatefulSet is being deleted": {in: running(newImage, hasSet(terminatingSet))},
		"another image is wanted": {
			in: running(newImage, override("y")), plan: update, reason: v1alpha1.ReasonImageChanged,
			says: []string{"from registry.example.com/seid:v6 to registry.example.com/seid:v7"},
		},
		"the pod runs another image": {
			in:   running(onPod(func(p *corev1.Pod) { oldSeid(&p.Spec); oldSidecar(&p.Spec) })),
			plan: update, reason: v1alpha1.ReasonImageChanged, says: []string{"from old to registry.example.com/seid:v6"},
		},
		"the pod runs another sidecar": {
			in:   running(newTemplate, onPod(func(p *corev1.Pod) { oldSidecar(&p.Spec) })),
			plan: update, reason: v1alpha1.ReasonSidecarImageChanged, says: []string{"from older to registry.example.com/sidecar:v1"},
		},
		"there is no pod, and the template has another image": {
			in:   running(noPod, hasSet(func(s *appsv1.StatefulSet) { oldSeid(&s.Spec.Template.Spec) })),
			plan: update, reason: v1alpha1.ReasonImageChanged,
		},
		"the pod is ending, and the template has another image": {
			in:   running(hasSet(func(s *appsv1.StatefulSet) { oldSeid(&s.Spec.Template.Spec) }), onPod(endingPod)),
			plan: update, reason: v1alpha1.ReasonImageChanged,
		},
		"the pod has no such container": {
			in:   running(onPod(func(p *corev1.Pod) { p.Spec.Containers = nil })),
			plan: update, reason: v1alpha1.ReasonImageChanged,
		},
		"another template is wanted": {
			in: running(newTemplate), plan: update, reason: v1alpha1.ReasonTemplateChanged, says: []string{"to another"},
		},
		"the pod is from before templates had a hash, and so is the StatefulSet": {
			in: running(onPod(unstamped), hasSetKeepingPod(stamp(""))),
		},
		"the same, and another template is wanted than was when it was first seen": {
			in: running(onPod(unstamped), hasSetKeepingPod(stamp("")), newTemplate), plan: update, reason: v1alpha1.ReasonTemplateChanged,
		},
		"the same, and nobody remembers what was wanted then": {
			in: running(onPod(unstamped), hasSetKeepingPod(stamp("")), newTemplate, func(in *Input) { in.Node.Status.PodTemplateHash = "" }),
		},
		"the StatefulSet has another template than the pod": {
			in: running(hasSetKeepingPod(stamp("another"))), plan: update, reason: v1alpha1.ReasonTemplateChanged,
			says: []string{"StatefulSet node", "somebody else"},
		},
		"the pod is from before templates had a hash, and the StatefulSet has another": {
			in: running(onPod(unstamped), hasSetKeepingPod(stamp("another"))), plan: update, reason: v1alpha1.ReasonTemplateChanged,
		},
		"somebody took the hash off the StatefulSet": {
			in: running(hasSetKeepingPod(stamp(""))), plan: update, reason: v1alpha1.ReasonTemplateChanged,
		},
		"somebody edited the template": {
			in:   running(hasSetKeepingPod(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(1)) })),
			plan: update, reason: v1alpha1.ReasonTemplateChanged,
		},
		"somebody took the template over": {
			in:   running(hasSetKeepingPod(func(s *appsv1.StatefulSet) { s.ManagedFields = nil })),
			plan: update, reason: v1alpha1.ReasonTemplateChanged,
		},
		"the managed fields cannot be read": {
			in:   running(hasSetKeepingPod(func(s *appsv1.StatefulSet) { s.ManagedFields[0].FieldsV1.SetRawBytes([]byte(`{"nonsense":{}}`)) })),
			plan: update, reason: v1alpha1.ReasonTemplateChanged,
		},
		"another configuration is wanted": {
			in: running(override("y")), plan: reconfigure, reason: v1alpha1.ReasonConfigChanged, says: []string{"changed: app.x."},
		},
		"the configuration is in the ConfigMap, and seid was not started with it": {
			in:   running(func(in *Input) { in.Node.Status.AppliedConfigHash = "old" }),
			plan: reconfigure, reason: v1alpha1.ReasonConfigChanged,
		},
		"another configuration is wanted, and the live one is unreadable": {
			in: running(override("y"), garbage), plan: reconfigure, reason: v1alpha1.ReasonConfigChanged, says: []string{"The configuration changed."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := FindDrift(test.in)
			if test.reason == "" {
				if got != nil {
					t.Errorf("the drift is %+v", got)
				}
				return
			}
			if got == nil || got.Plan != test.plan || got.Reason != test.reason {
				t.Fatalf("the drift is %+v, want %s because of %s", got, test.plan, test.reason)
			}
			saysAll(t, got.Message, test.says)
		})
	}
}

// hasSetKeepingPod changes the StatefulSet under a pod that stays as it was.
func hasSetKeepingPod(change func(*appsv1.StatefulSet)) edit {
	return func(in *Input) {
		in.Seen.StatefulSet = in.Seen.StatefulSet.DeepCopy()
		change(in.Seen.StatefulSet)
	}
}

func TestDifferencesOfAConfiguration(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for _, c := range "abcdefghij" {
		many["app."+string(c)] = "x"
	}
	eight := map[string]string{}
	for _, c := range "abcdefgh" {
		eight["app."+string(c)] = "x"
	}
	for name, test := range map[string]struct {
		has, wants seid.Intent
		want       string
	}{
		"nothing":                  {},
		"nothing that counts":      {has: seid.Intent{Serial: 1, Peers: []string{"a"}}},
		"the address":              {wants: seid.Intent{ExternalAddress: "a:1"}, want: "externalAddress"},
		"the snapshots":            {has: seid.Intent{SnapshotGeneration: &seid.SnapshotGeneration{Interval: 1}}, want: "snapshotGeneration"},
		"the mode":                 {has: seid.Intent{Mode: seid.ModeArchive}, want: "mode"},
		"a key that is new":        {wants: seid.Intent{Overrides: map[string]string{"app.x": ""}}, want: "app.x"},
		"a key that is gone":       {has: seid.Intent{Overrides: map[string]string{"app.x": ""}}, want: "app.x"},
		"a key that changed":       {has: seid.Intent{Overrides: map[string]string{"app.x": "1", "app.y": "1"}}, wants: seid.Intent{Overrides: map[string]string{"app.x": "2", "app.y": "1"}}, want: "app.x"},
		"all of it, in order":      {has: seid.Intent{Mode: "x", ExternalAddress: "a:1", Overrides: map[string]string{"b": "", "a": ""}, SnapshotGeneration: &seid.SnapshotGeneration{}}, want: "externalAddress,snapshotGeneration,mode,a,b"},
		"as many as are told":      {wants: seid.Intent{Overrides: eight}, want: "app.a,app.b,app.c,app.d,app.e,app.f,app.g,app.h"},
		"more than are told of it": {wants: seid.Intent{Overrides: many}, want: "app.a,app.b,app.c,app.d,app.e,app.f,app.g,app.h,and 2 more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(differences(test.has, test.wants), ","); got != test.want {
				t.Errorf("there differ %q, want %q", got, test.want)
			}
		})
	}
}

// An update whose pod did not come up is tried again for as long as it takes its place
// in the budget, unless the pod gets ready by itself.
func TestAnUpdateThatFailedIsTriedAgain(t *testing.T) {
	t.Parallel()
	unready := onPod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
	slot := v1alpha1.UpdateSlot{Cause: v1alpha1.UpdateCauseOperator, TemplateHash: "x"}
	failed := func(kind v1alpha1.PlanType, outcome v1alpha1.PlanOutcome, took *v1alpha1.UpdateSlot) edit {
		return func(in *Input) {
			in.Node.Status.LastPlan = &v1alpha1.PlanRecord{Type: kind, Outcome: outcome, Slot: took}
		}
	}
	refuses := sidecar(func(s *Sidecar) {
		s.Status.Seid.State, s.Status.Seid.ParkedBecause = api.SeidParked, string(v1alpha1.ReasonBinaryTooNew)
	})
	update, broke := v1alpha1.PlanNodeUpdate, v1alpha1.PlanOutcomeFailed
	other := slot
	other.Cause = v1alpha1.UpdateCauseRecreate
	for name, test := range map[string]struct {
		in    Input
		again bool
	}{
		"the pod is not ready":                {running(unready, has(slot), failed(update, broke, &slot)), true},
		"the pod is gone":                     {running(noPod, has(slot), failed(update, broke, &slot)), true},
		"the pod is ready":                    {running(has(slot), failed(update, broke, &slot)), false},
		"the binary does not fit":             {running(unready, refuses, has(slot), failed(update, broke, &slot)), false},
		"it was complete":                     {running(unready, has(slot), failed(update, v1alpha1.PlanOutcomeComplete, &slot)), false},
		"it was another plan":                 {running(unready, has(slot), failed(v1alpha1.PlanConfigUpdate, broke, &slot)), false},
		"there was no plan":                   {running(unready, has(slot)), false},
		"it was ready since":                  {running(unready, failed(update, broke, &slot)), false},
		"it never took a place":               {running(unready, failed(update, broke, nil)), false},
		"it takes a place for another reason": {running(unready, has(other), failed(update, broke, &slot)), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := FindDrift(test.in)
			if !test.again {
				if got != nil {
					t.Errorf("the drift is %+v", got)
				}
				return
			}
			if got == nil || got.Plan != update || got.Reason != v1alpha1.ReasonTemplateChanged {
				t.Fatalf("the drift is %+v", got)
			}
			saysAll(t, got.Message, []string{"failed", "not ready"})
		})
	}
}

// The new pod brings the configuration with it, so it is tried first.
func TestAnUpdateThatFailedComesBeforeTheConfiguration(t *testing.T) {
	t.Parallel()
	slot := v1alpha1.UpdateSlot{Cause: v1alpha1.UpdateCauseEdit, TemplateHash: "x"}
	in := running(noPod, has(slot), override("y"), func(in *Input) {
		in.Node.Status.LastPlan = &v1alpha1.PlanRecord{Type: v1alpha1.PlanNodeUpdate, Outcome: v1alpha1.PlanOutcomeFailed, Slot: &slot}
	})
	if got := FindDrift(in); got == nil || got.Plan != v1alpha1.PlanNodeUpdate {
		t.Errorf("the drift is %+v", got)
	}
}
