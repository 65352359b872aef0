package task

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// silentReporter tells nobody.
type silentReporter struct{}

func (silentReporter) Event(*v1alpha1.SeiNode, scope.Event)    {}
func (silentReporter) TaskEnded(string, string, time.Duration) {}
func (silentReporter) Recreated(*v1alpha1.SeiNode)             {}

// replacing is a node in the middle of an update, with a StatefulSet that has seen its
// template and a pod from before it. The writes it makes are recorded, and not made.
func replacing(writes *[]kube.Write) *scope.Scope {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "set", Generation: 2}}
	set.Spec.Replicas = new(int32(1))
	set.Status.ObservedGeneration, set.Status.UpdateRevision, set.Status.CurrentRevision = 2, "new", "new"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "node-0", UID: "pod", Labels: map[string]string{appsv1.StatefulSetRevisionLabel: "old"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "node", UID: "set", Controller: new(true)}},
	}}
	node := &v1alpha1.SeiNode{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	node.Status.Plan = &v1alpha1.Plan{Type: v1alpha1.PlanNodeUpdate, Tasks: []v1alpha1.PlanTask{{Type: plan.TaskReplacePod, StartTime: new(metav1.NewTime(now))}}}
	return &scope.Scope{
		Input: plan.Input{Node: node, Persisted: &node.Status, Seen: plan.Observation{Now: now, StatefulSet: set, Pod: pod}},
		Tools: scope.Tools{
			Report: silentReporter{},
			Kube: kube.New(kube.Options{Live: &tasksOf{}, Around: func(_ context.Context, write kube.Write, _ func(context.Context) error) error {
				*writes = append(*writes, write)
				return nil
			}}),
		},
	}
}

// The conditions of seed 002 under which a pod is replaced, and no others. That the
// StatefulSet calls its own revision current says nothing.
func TestSeed002WhichPodIsReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*scope.Scope)
		want    verdict
		deletes int
	}{
		"a pod of another revision":  {func(*scope.Scope) {}, waiting, 1},
		"a pod of the same revision": {func(s *scope.Scope) { s.Seen.Pod.Labels[appsv1.StatefulSetRevisionLabel] = "new" }, done, 0},
		"no pod":                     {func(s *scope.Scope) { s.Seen.Pod = nil }, done, 0},
		"a pod that is ending":       {func(s *scope.Scope) { s.Seen.Pod.DeletionTimestamp = new(metav1.NewTime(s.Seen.Now)) }, waiting, 0},
		"a pod of somebody else":     {func(s *scope.Scope) { s.Seen.Pod.OwnerReferences = nil }, done, 0},
		"a pod without a revision":   {func(s *scope.Scope) { s.Seen.Pod.Labels = nil }, done, 0},
		"no StatefulSet":             {func(s *scope.Scope) { s.Seen.StatefulSet = nil }, waiting, 0},
		"a StatefulSet that does not know what it updates to": {
			func(s *scope.Scope) { s.Seen.StatefulSet.Status.UpdateRevision = "" }, waiting, 0,
		},
		"a StatefulSet whose template was not seen yet": {
			func(s *scope.Scope) { s.Seen.StatefulSet.Generation = 3 }, waiting, 0,
		},
		"a StatefulSet with two replicas": {
			func(s *scope.Scope) { s.Seen.StatefulSet.Spec.Replicas = new(int32(2)) }, terminal, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var writes []kube.Write
			s := replacing(&writes)
			test.change(s)
			outcome, err := replacePod(t.Context(), s, 0)
			if err != nil || outcome.verdict != test.want || len(writes) != test.deletes {
				t.Errorf("it is %s (%s), %v, and wrote %v", outcome.verdict, outcome.message, err, writes)
			}
		})
	}
}

// Every task of every plan has its place in the table, with a deadline.
func TestEveryTaskIsInTheTable(t *testing.T) {
	for name, def := range definitions {
		if def.deadline <= 0 || def.run == nil {
			t.Errorf("%s has the deadline %s", name, def.deadline)
		}
	}
	budgets := map[string]int32{
		plan.TaskConfigureGenesis: 180, plan.TaskConfigureStateSync: 180, plan.TaskConfigApply: 5,
		plan.TaskConfigValidate: 3, plan.TaskMarkReady: 5, plan.TaskRestartSeid: 3,
	}
	for name, def := range definitions {
		if def.retries != budgets[name] {
			t.Errorf("%s may be tried again %d times, want %d", name, def.retries, budgets[name])
		}
	}
}
