package nodetask

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(-d))) }

// running is a node that was brought up.
func runningNode(change ...func(*v1alpha1.SeiNode)) *v1alpha1.SeiNode {
	node := &v1alpha1.SeiNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "alpha", UID: "node-uid"},
		Spec:       v1alpha1.SeiNodeSpec{ChainID: "testnet-1", Image: "seid:v1", FullNode: &v1alpha1.FullNodeSpec{}},
		Status:     v1alpha1.SeiNodeStatus{Phase: v1alpha1.PhaseRunning},
	}
	for _, f := range change {
		f(node)
	}
	return node
}

// restart is a RestartSeid that nobody has looked at yet.
func restart(change ...func(*v1alpha1.SeiNodeTask)) *v1alpha1.SeiNodeTask {
	task := &v1alpha1.SeiNodeTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "restart", UID: "task-uid", Generation: 1},
		Spec: v1alpha1.SeiNodeTaskSpec{
			Kind: v1alpha1.TaskKindRestartSeid, RestartSeid: &v1alpha1.RestartSeidPayload{},
			Target: v1alpha1.TaskTarget{
				NodeRef: v1alpha1.NodeReference{Name: "alpha"}, RequirePhase: v1alpha1.PhaseRunning, RequirePhaseTimeoutSeconds: new(int32(300)),
			},
		},
	}
	for _, f := range change {
		f(task)
	}
	return task
}

// began makes a task one that runs since a while.
func began(since time.Duration) func(*v1alpha1.SeiNodeTask) {
	return func(task *v1alpha1.SeiNodeTask) {
		task.Finalizers = []string{v1alpha1.FinalizerTask}
		task.Status = v1alpha1.SeiNodeTaskStatus{
			Phase: v1alpha1.TaskPhaseRunning, StartTime: ago(since), ExecutionStartTime: ago(since), TargetUID: "node-uid",
			Step: KindOf(task).Steps[0].Name,
		}
	}
}

func of(kind v1alpha1.SeiNodeTaskKind, payload func(*v1alpha1.SeiNodeTaskSpec)) func(*v1alpha1.SeiNodeTask) {
	return func(task *v1alpha1.SeiNodeTask) {
		task.Spec.Kind, task.Spec.RestartSeid = kind, nil
		payload(&task.Spec)
	}
}

var (
	asHold = of(v1alpha1.TaskKindHoldNode, func(s *v1alpha1.SeiNodeTaskSpec) { s.HoldNode = &v1alpha1.HoldNodePayload{} })
	asWait = of(v1alpha1.TaskKindAwaitCondition, func(s *v1alpha1.SeiNodeTaskSpec) {
		s.AwaitCondition = &v1alpha1.AwaitConditionPayload{CaughtUp: &v1alpha1.AwaitCaughtUp{}}
	})
	asResync = of(v1alpha1.TaskKindResyncNode, func(s *v1alpha1.SeiNodeTaskSpec) { s.ResyncNode = &v1alpha1.ResyncNodePayload{} })
	asImage  = of(v1alpha1.TaskKindUpdateNodeImage, func(s *v1alpha1.SeiNodeTaskSpec) {
		s.UpdateNodeImage = &v1alpha1.UpdateNodeImagePayload{Image: "seid:v2"}
	})
)

func named(name string) func(*v1alpha1.SeiNodeTask) {
	return func(task *v1alpha1.SeiNodeTask) { task.Name, task.UID = name, types.UID(name+"-uid") }
}

// updating gives a node a plan that is about to replace its pod.
func updating(node *v1alpha1.SeiNode) {
	node.Status.Plan = &v1alpha1.Plan{Type: v1alpha1.PlanNodeUpdate, Tasks: []v1alpha1.PlanTask{
		{Type: plan.TaskApplyStatefulSet, Status: v1alpha1.PlanTaskComplete}, {Type: plan.TaskReplacePod, Status: v1alpha1.PlanTaskPending},
	}}
}

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, not %v", what, got, want)
	}
}
