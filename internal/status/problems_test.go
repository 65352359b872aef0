package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// problems are what a sidecar tells.
func problems(found ...api.Problem) edit {
	return func(in *Input) { in.Seen.Sidecar.Status.Problems = found }
}

func problem(reason, message string) api.Problem {
	return api.Problem{Reason: reason, Message: message}
}

// TestProblemsOfASidecarAreShown: nobody looks at a sidecar's own API.
func TestProblemsOfASidecarAreShown(t *testing.T) {
	t.Parallel()
	planned := func(in *Input) { in.Node.Status.Plan = &v1alpha1.Plan{Type: v1alpha1.PlanBootstrap} }
	// moves is a seid on its way to another state, and how long it has been.
	moves := func(state api.SeidState, held bool, since time.Duration) edit {
		return func(in *Input) {
			problems(problem("SeidNotAsWanted", "since noon"))(in)
			status := &in.Seen.Sidecar.Status
			status.Held, status.Seid.State, status.Seid.Since = held, state, in.Seen.Now.Add(-since)
		}
	}
	for name, c := range map[string]struct {
		in     Input
		status metav1.ConditionStatus
		reason string
		says   string
	}{
		"none": {running(), metav1.ConditionTrue, "NoProblems", "no problem"},
		"a part of the configuration is not known": {running(problems(problem("ConfigurationNotKnown", "a newer operator wrote x"))), metav1.ConditionFalse, "ConfigurationNotKnown", "ConfigurationNotKnown: a newer operator wrote x."},
		"two": {
			running(problems(problem("StoreUnavailable", "the disk is full."), problem("TaskStoreMovedAside", "look at it"))), metav1.ConditionFalse, "StoreUnavailable",
			"StoreUnavailable: the disk is full. TaskStoreMovedAside: look at it.",
		},
		"seid cannot be stopped":          {running(problems(problem("SeidNotAsWanted", "stopping seid since noon"))), metav1.ConditionFalse, "SeidNotAsWanted", "since noon"},
		"on the way up":                   {running(planned, problems(problem("SeidNotAsWanted", "x"), problem("ApprovalOfAnotherNode", "y"))), metav1.ConditionTrue, "NoProblems", ""},
		"a hold closes the stores":        {running(moves(api.SeidStopping, true, 5*time.Minute)), metav1.ConditionTrue, "NoProblems", ""},
		"a hold does not come to its end": {running(moves(api.SeidStopping, true, 10*time.Minute)), metav1.ConditionFalse, "SeidNotAsWanted", "since noon"},
		"a hold waits for a safe stop":    {running(moves(api.SeidRunning, true, time.Minute)), metav1.ConditionFalse, "SeidNotAsWanted", "since noon"},
		"a stop that nobody asked for":    {running(moves(api.SeidStopping, false, time.Minute)), metav1.ConditionFalse, "SeidNotAsWanted", "since noon"},
		"a start opens the stores":        {running(moves(api.SeidStarting, false, 5*time.Minute)), metav1.ConditionTrue, "NoProblems", ""},
		"a start does not end":            {running(moves(api.SeidStarting, false, 10*time.Minute)), metav1.ConditionFalse, "SeidNotAsWanted", "since noon"},
		"a container that starts":         {running(problems(problem("SupervisorUnreachable", "x"))), metav1.ConditionTrue, "NoProblems", ""},
		"no word of it fits a condition":  {running(problems(problem("what is this?", "x"))), metav1.ConditionFalse, "SidecarProblem", "what is this?: x."},
		"a sidecar that was never there":  {running(silent), metav1.ConditionUnknown, "Waiting", "not reported"},
	} {
		Set(c.in)
		got := meta.FindStatusCondition(c.in.Node.Status.Conditions, string(v1alpha1.ConditionSidecarHealthy))
		if got == nil || got.Status != c.status || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
		if ready := meta.IsStatusConditionTrue(c.in.Node.Status.Conditions, string(v1alpha1.ConditionReady)); name == "two" && !ready {
			t.Error("a node that serves is not ready for a problem of its sidecar")
		}
	}
}

// TestAProblemIsToldOnce, stays while the sidecar is silent, and costs nothing after that.
func TestAProblemIsToldOnce(t *testing.T) {
	t.Parallel()
	well := running()
	Set(well)
	in := running(problems(problem("StoreUnavailable", "the disk is full")))
	in.Node.Status.Conditions, in.Persisted = well.Node.Status.Conditions, well.Node.Status.DeepCopy()
	Set(in)
	events := Transitions(in.Persisted, &in.Node.Status)
	if len(events) != 1 || !events[0].Warning || events[0].Reason != "StoreUnavailable" || !strings.Contains(events[0].Message, "the disk is full") {
		t.Errorf("%+v", events)
	}
	for _, later := range []edit{func(*Input) {}, silent} {
		in.Persisted = in.Node.Status.DeepCopy()
		in.Seen.Now = in.Seen.Now.Add(time.Hour)
		later(&in)
		Set(in)
		healthy := func(s *v1alpha1.SeiNodeStatus) *metav1.Condition {
			return meta.FindStatusCondition(s.Conditions, string(v1alpha1.ConditionSidecarHealthy))
		}
		if diff := cmp.Diff(healthy(in.Persisted), healthy(&in.Node.Status)); diff != "" {
			t.Errorf("it changed:\n%s", diff)
		}
		if events := Transitions(in.Persisted, &in.Node.Status); len(events) > 0 && events[0].Reason == "StoreUnavailable" {
			t.Errorf("%+v", events)
		}
	}
}
