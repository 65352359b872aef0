package operator_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/operator"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/nodes"
)

// payloads give a task the payload of its kind.
var payloads = map[v1alpha1.SeiNodeTaskKind]func(*v1alpha1.SeiNodeTaskSpec){
	v1alpha1.TaskKindRestartSeid:   func(s *v1alpha1.SeiNodeTaskSpec) { s.RestartSeid = &v1alpha1.RestartSeidPayload{} },
	v1alpha1.TaskKindDiscoverPeers: func(s *v1alpha1.SeiNodeTaskSpec) { s.DiscoverPeers = &v1alpha1.DiscoverPeersPayload{} },
	v1alpha1.TaskKindMarkReady:     func(s *v1alpha1.SeiNodeTaskSpec) { s.MarkReady = &v1alpha1.MarkReadyPayload{} },
	v1alpha1.TaskKindHoldNode:      func(s *v1alpha1.SeiNodeTaskSpec) { s.HoldNode = &v1alpha1.HoldNodePayload{} },
	v1alpha1.TaskKindReleaseHold:   func(s *v1alpha1.SeiNodeTaskSpec) { s.ReleaseHold = &v1alpha1.ReleaseHoldPayload{} },
	v1alpha1.TaskKindResyncNode:    func(s *v1alpha1.SeiNodeTaskSpec) { s.ResyncNode = &v1alpha1.ResyncNodePayload{} },
	v1alpha1.TaskKindUpdateNodeImage: func(s *v1alpha1.SeiNodeTaskSpec) {
		s.UpdateNodeImage = &v1alpha1.UpdateNodeImagePayload{Image: otherImage}
	},
	v1alpha1.TaskKindAwaitCondition: func(s *v1alpha1.SeiNodeTaskSpec) {
		s.AwaitCondition = &v1alpha1.AwaitConditionPayload{Height: &v1alpha1.AwaitHeight{TargetHeight: 1234}}
	},
	v1alpha1.TaskKindAwaitNodesAtHeight: func(s *v1alpha1.SeiNodeTaskSpec) {
		s.AwaitNodesAtHeight = &v1alpha1.AwaitNodesAtHeightPayload{TargetHeight: 1234}
	},
}

const otherImage = "registry.example.com/seid:v2"

// newTask is a task for the node alpha.
func (r *rig) newTask(name string, kind v1alpha1.SeiNodeTaskKind, change ...func(*v1alpha1.SeiNodeTask)) *v1alpha1.SeiNodeTask {
	task := &v1alpha1.SeiNodeTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec:       v1alpha1.SeiNodeTaskSpec{Kind: kind, Target: v1alpha1.TaskTarget{NodeRef: v1alpha1.NodeReference{Name: "alpha"}}},
	}
	if give := payloads[kind]; give != nil {
		give(&task.Spec)
	}
	for _, f := range change {
		f(task)
	}
	return task
}

// task creates a task for the node alpha.
func (r *rig) task(name string, kind v1alpha1.SeiNodeTaskKind, change ...func(*v1alpha1.SeiNodeTask)) *v1alpha1.SeiNodeTask {
	r.t.Helper()
	task := r.newTask(name, kind, change...)
	r.create(task)
	return task
}

// within gives a task so many seconds once it began.
func within(seconds int32) func(*v1alpha1.SeiNodeTask) {
	return func(task *v1alpha1.SeiNodeTask) { task.Spec.TimeoutSeconds = &seconds }
}

// patient lets a task wait so many seconds for its node.
func patient(seconds int32) func(*v1alpha1.SeiNodeTask) {
	return func(task *v1alpha1.SeiNodeTask) { task.Spec.Target.RequirePhaseTimeoutSeconds = &seconds }
}

// taskUntil waits for a task to be in some state.
func (r *rig) taskUntil(name, what string, ok func(*v1alpha1.SeiNodeTask) bool) *v1alpha1.SeiNodeTask {
	r.t.Helper()
	return cluster.Eventually(r.t, r.person, r.key(name), what, ok)
}

// waits waits until a task says that it waits for something.
func (r *rig) waits(name, what string) *v1alpha1.SeiNodeTask {
	r.t.Helper()
	return r.taskUntil(name, "the task to wait for "+what, func(task *v1alpha1.SeiNodeTask) bool {
		return task.Status.Phase == v1alpha1.TaskPhasePending && strings.Contains(task.Status.Message, what)
	})
}

// ends waits until a task ended, and sees to it that it did so for this reason, with
// this in its message.
func (r *rig) ends(name string, reason v1alpha1.ConditionReason, message string) *v1alpha1.SeiNodeTask {
	r.t.Helper()
	task := r.taskUntil(name, "the task to end", func(task *v1alpha1.SeiNodeTask) bool { return task.Status.Finished() })
	want, other := v1alpha1.ConditionFailed, v1alpha1.ConditionReady
	if reason == v1alpha1.ReasonTaskComplete {
		want, other = other, want
	}
	c := meta.FindStatusCondition(task.Status.Conditions, string(want))
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != string(reason) || !strings.Contains(c.Message, message) {
		r.t.Errorf("task %s ended with %+v; %s should be True with the reason %s and say %q", name, task.Status.Conditions, want, reason, message)
	}
	if meta.IsStatusConditionTrue(task.Status.Conditions, string(other)) {
		r.t.Errorf("task %s is Ready and Failed", name)
	}
	if task.Status.CompletionTime == nil || task.Status.Message != c.Message {
		r.t.Errorf("task %s does not say how and when it ended: %+v", name, task.Status)
	}
	return task
}

// sidecar is the handle of the node alpha.
func (r *rig) sidecar() *nodes.Node { return r.sidecars.Node(r.namespace, "alpha") }

// up brings the node alpha up and forgets what that took.
func (r *rig) up(change ...func(*v1alpha1.SeiNode)) *v1alpha1.SeiNode {
	r.t.Helper()
	r.create(r.fullNode("alpha", change...))
	return r.ready("alpha")
}

// since are the runs on alpha's sidecar that came after so many.
func (r *rig) since(before int) []string {
	r.t.Helper()
	var list []string
	for _, entry := range r.sidecar().Ledger()[before:] {
		list = append(list, fmt.Sprintf("%s#%d %s", entry.Type, entry.Run, entry.Outcome))
	}
	return list
}

// count is how many runs there are of a type on alpha's sidecar.
func (r *rig) count(taskType string) int {
	return len(slices.DeleteFunc(r.sidecar().Ledger(), func(e nodes.Entry) bool { return e.Type != taskType }))
}

// began waits until alpha's sidecar is at a run that nobody waited for before.
func (r *rig) began(taskType string) nodes.Entry {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), atMost)
	defer cancel()
	entry, err := r.sidecar().WaitCall(ctx, taskType)
	if err != nil {
		r.t.Fatal(err)
	}
	return entry
}

// witnesses gives the platform RPC servers for the chain of the tests.
func witnesses(c *operator.Config) {
	c.Platform.Witnesses = map[string][]string{"testnet-1": {"rpc-0.example.com:26657", "rpc-1.example.com:26657"}}
}

// taskGone waits until a task is no more.
func (r *rig) taskGone(name string) {
	r.t.Helper()
	cluster.Gone[*v1alpha1.SeiNodeTask](r.t, r.person, r.key(name), "the task to be gone")
}

// kubectl runs kubectl as the person, and returns what it prints.
func (r *rig) kubectl(args ...string) string {
	r.t.Helper()
	args = append([]string{"--kubeconfig", r.cluster.PersonKubeconfig(r.t), "-n", r.namespace}, args...)
	output, err := exec.CommandContext(r.t.Context(), r.cluster.Kubectl, args...).CombinedOutput()
	if err != nil {
		r.t.Errorf("kubectl %v: %v\n%s", args, err, output)
	}
	return string(output)
}

// taskEvents are the reasons of the events about a task.
func (r *rig) taskEvents(name string) (reasons []string) {
	r.t.Helper()
	var list eventsv1.EventList
	if err := r.person.List(r.t.Context(), &list, client.InNamespace(r.namespace)); err != nil {
		r.t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Regarding.Kind == "SeiNodeTask" && list.Items[i].Regarding.Name == name {
			reasons = append(reasons, list.Items[i].Reason)
		}
	}
	return reasons
}
