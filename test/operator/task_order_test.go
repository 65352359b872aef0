package operator_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

// The tests in this file are about who goes first: one task at a time, and either a
// task or a plan that stops seid.

func TestMutatingTasksRunOneAtATimeOldestFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	before := len(r.sidecar().Ledger())
	release := r.sidecar().Block(tasks.TypeRestartSeid)
	// Made in the same second, they come in the order of their names.
	r.task("a", v1alpha1.TaskKindRestartSeid)
	r.began(tasks.TypeRestartSeid)
	r.task("b", v1alpha1.TaskKindDiscoverPeers)
	r.task("c", v1alpha1.TaskKindMarkReady)
	r.waits("b", "SeiNodeTask a")
	r.waits("c", "SeiNodeTask a")
	// What changes nothing neither waits nor keeps others waiting.
	r.task("await", v1alpha1.TaskKindAwaitCondition)
	r.ends("await", v1alpha1.ReasonTaskComplete, "")
	release()
	r.ends("a", v1alpha1.ReasonTaskComplete, "")
	r.ends("b", v1alpha1.ReasonTaskComplete, "")
	r.ends("c", v1alpha1.ReasonTaskComplete, "")
	want := []string{"restart-seid#1 Done", "await-condition#1 Done", "discover-peers#1 Done", "mark-ready#1 Done"}
	if diff := cmp.Diff(want, r.since(before)); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
}

// A plan that came first replaces the pod before a task begins.
func TestATaskWaitsForAPlanThatStopsSeid(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	before := len(r.sidecar().Ledger())
	release := r.sidecar().Block(tasks.TypeRestartSeid)
	r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Overrides = v1alpha1.Overrides{"config.p2p.max-connections": "77"} })
	r.began(tasks.TypeRestartSeid)
	r.task("peers", v1alpha1.TaskKindDiscoverPeers)
	r.waits("peers", "plan ConfigUpdate")
	release()
	r.ends("peers", v1alpha1.ReasonTaskComplete, "")
	want := []string{"config-validate#1 Done", "config-apply#1 Done", "restart-seid#1 Done", "discover-peers#1 Done"}
	if diff := cmp.Diff(want, r.since(before)); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
}

// A task that came first ends before a plan stops the pod, and the node says so.
func TestAPlanWaitsForATaskThatRuns(t *testing.T) {
	t.Parallel()
	for _, edit := range []struct {
		name string
		edit func(*v1alpha1.SeiNode)
		plan v1alpha1.PlanType
	}{
		{"replace-pod", func(n *v1alpha1.SeiNode) { n.Spec.Image = otherImage }, v1alpha1.PlanNodeUpdate},
		{"restart-seid", func(n *v1alpha1.SeiNode) { n.Spec.Overrides = v1alpha1.Overrides{"config.p2p.max-connections": "77"} }, v1alpha1.PlanConfigUpdate},
	} {
		t.Run(edit.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.up()
			pod := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
			release := r.sidecar().Block(tasks.TypeMarkReady)
			r.task("mark", v1alpha1.TaskKindMarkReady)
			r.began(tasks.TypeMarkReady)
			r.edit("alpha", edit.edit)
			if edit.plan == v1alpha1.PlanNodeUpdate {
				node := r.until("alpha", "the plan to wait", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForTask))
				if !contains(ready(node).Message, "SeiNodeTask mark (MarkReady)") {
					t.Errorf("the node says %q", ready(node).Message)
				}
			}
			if same := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true }); same.UID != pod.UID || same.DeletionTimestamp != nil {
				t.Error("the pod was stopped under the task")
			}
			if n := r.count(tasks.TypeRestartSeid); n != 0 {
				t.Error("seid was restarted under the task")
			}
			release()
			r.ends("mark", v1alpha1.ReasonTaskComplete, "")
			r.until("alpha", "the plan to end", func(n *v1alpha1.SeiNode) bool {
				return isReady(n) && n.Status.LastPlan.Type == edit.plan && n.Status.LastPlan.Outcome == v1alpha1.PlanOutcomeComplete
			})
		})
	}
}

// A plan waits no longer than the task may take.
func TestAPlanWaitsNoLongerThanTheTaskMayTake(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	release := r.sidecar().Block(tasks.TypeRestartSeid)
	defer release()
	r.task("restart", v1alpha1.TaskKindRestartSeid, within(3))
	r.began(tasks.TypeRestartSeid)
	r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Image = otherImage })
	r.ends("restart", v1alpha1.ReasonTimeout, "")
	r.until("alpha", "the new image", func(n *v1alpha1.SeiNode) bool { return isReady(n) && n.Status.CurrentImage == otherImage })
}
