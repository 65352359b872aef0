package operator_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/operator"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// The tests in this file are about how tasks begin and end: each reason once, seen
// from outside.

func TestRestartSeidIsSubmittedOnceAndTellsTheGap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	node := r.up()
	before := len(r.sidecar().Ledger())
	pod := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
	r.task("restart", v1alpha1.TaskKindRestartSeid)
	task := r.ends("restart", v1alpha1.ReasonTaskComplete, "")
	if diff := cmp.Diff([]string{"restart-seid#1 Done"}, r.since(before)); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
	entry := r.sidecar().Ledger()[before]
	if task.Status.TaskID != entry.ID.String() || task.Status.Outputs == nil || task.Status.Outputs.RestartGapSeconds == "" {
		t.Errorf("the status is %+v", task.Status)
	}
	if string(node.UID) != task.Status.TargetUID || task.Status.ExecutionStartTime == nil {
		t.Errorf("the status is %+v", task.Status)
	}
	if now := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true }); now.UID != pod.UID {
		t.Error("the pod was replaced")
	}
	// When it is over, nothing keeps it.
	r.taskUntil("restart", "it to be let go", func(task *v1alpha1.SeiNodeTask) bool { return len(task.Finalizers) == 0 })
}

func TestATaskWaitsForItsNodeInWhicheverOrderTheyCome(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.task("restart", v1alpha1.TaskKindRestartSeid)
	r.waits("restart", "SeiNode alpha to exist")
	release := r.sidecar().Block(tasks.TypeConfigureGenesis)
	r.create(r.fullNode("alpha"))
	r.waits("restart", "to be Running")
	release()
	r.ends("restart", v1alpha1.ReasonTaskComplete, "")
	if n := r.count(tasks.TypeRestartSeid); n != 1 {
		t.Errorf("seid was restarted %d times", n)
	}
}

func TestTargetNotFound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.task("restart", v1alpha1.TaskKindRestartSeid, patient(1))
	r.ends("restart", v1alpha1.ReasonTargetNotFound, "SeiNode alpha")
}

func TestTargetPhaseNotMet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.sidecar().Block(tasks.TypeConfigureGenesis)()
	r.create(r.fullNode("alpha"))
	r.task("restart", v1alpha1.TaskKindRestartSeid, patient(1))
	r.ends("restart", v1alpha1.ReasonTargetPhaseNotMet, "not Running")
	if n := r.count(tasks.TypeRestartSeid); n != 0 {
		t.Errorf("seid was restarted %d times", n)
	}
}

// The phase is asked for before a task begins, and not again while it runs.
func TestThePhaseDoesNotMatterOnceATaskRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	release := r.sidecar().Block(tasks.TypeRestartSeid)
	r.task("restart", v1alpha1.TaskKindRestartSeid, patient(0))
	r.began(tasks.TypeRestartSeid)
	node := r.ready("alpha")
	before := node.DeepCopy()
	node.Status.Phase = v1alpha1.PhaseFailed
	if err := r.cluster.Operator(t).Status().Patch(t.Context(), node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	release()
	r.ends("restart", v1alpha1.ReasonTaskComplete, "")
}

// A seid that outlives the grace is a failed task, and nobody kills it.
func TestTaskFailed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	r.sidecar().Fail(tasks.TypeRestartSeid, 1, tasks.ReasonStillRunning, "seid (pid 7) did not end within 90s", true)
	r.task("restart", v1alpha1.TaskKindRestartSeid)
	r.ends("restart", v1alpha1.ReasonTaskFailed, "StillRunning: seid (pid 7) did not end within 90s")
	r.settled("alpha")
	if n := r.count(tasks.TypeRestartSeid); n != 1 {
		t.Errorf("it was run %d times; a failure is an outcome", n)
	}
}

func TestTimeoutCountsFromTheBeginningAndEndsItOnTheNode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	before := len(r.sidecar().Ledger())
	defer r.sidecar().Block(tasks.TypeRestartSeid)()
	r.task("restart", v1alpha1.TaskKindRestartSeid, within(1))
	r.ends("restart", v1alpha1.ReasonTimeout, "within 1s")
	if diff := cmp.Diff([]string{"restart-seid#1 Deleted"}, r.since(before)); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
	// The next one is not in its way.
	r.task("peers", v1alpha1.TaskKindDiscoverPeers)
	r.ends("peers", v1alpha1.ReasonTaskComplete, "")
}

// A sidecar that does not answer is waited for as long as the task may take.
func TestTimeoutOfATaskWhoseSidecarIsSilent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	undo := r.sidecar().BlackHole()
	r.until("alpha", "the sidecar to be missed", has(v1alpha1.ConditionSidecarReady, metav1.ConditionUnknown, v1alpha1.ReasonUnreachable))
	r.task("restart", v1alpha1.TaskKindRestartSeid, within(1))
	r.ends("restart", v1alpha1.ReasonTimeout, "Waits for the sidecar")
	undo()
	r.until("alpha", "the sidecar to be back", has(v1alpha1.ConditionSidecarReady, metav1.ConditionTrue, v1alpha1.ReasonApproved))
	if n := r.count(tasks.TypeRestartSeid); n != 0 {
		t.Errorf("seid was restarted %d times", n)
	}
}

// An API with a kind that this operator does not know fails closed.
func TestUnsupportedKind(t *testing.T) {
	r := newRig(t)
	r.up()
	before := len(r.sidecar().Ledger())
	r.cluster.AllowTaskKind(t, "PaintNode")
	each(t, "the API server to take the kind", func() bool {
		return r.person.Create(t.Context(), r.newTask("paint", "PaintNode")) == nil
	})
	r.ends("paint", v1alpha1.ReasonUnsupportedKind, "PaintNode")
	if ran := r.since(before); len(ran) != 0 {
		t.Errorf("the sidecar ran %v", ran)
	}
}

// What the operator takes for two servers is one for the sidecar, which says no.
func TestInvalidPayloadOfATaskThatTheNodeRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *operator.Config) {
		c.Platform.Witnesses = map[string][]string{"testnet-1": {"rpc-0.example.com:26657", "http://rpc-0.example.com:26657"}}
	})
	r.up()
	before := len(r.sidecar().Ledger())
	r.task("resync", v1alpha1.TaskKindResyncNode)
	r.ends("resync", v1alpha1.ReasonInvalidPayload, "two that check each other")
	if ran := r.since(before); len(ran) != 0 {
		t.Errorf("the sidecar ran %v", ran)
	}
}

func TestTargetDeletedWhileATaskRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	node := r.up()
	defer r.sidecar().Block(tasks.TypeRestartSeid)()
	r.task("restart", v1alpha1.TaskKindRestartSeid)
	r.began(tasks.TypeRestartSeid)
	r.delete(node)
	r.ends("restart", v1alpha1.ReasonTargetDeleted, "node alpha")
}

// A node of the same name is another node.
func TestTargetRecreatedWhileATaskRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	defer r.sidecar().Block(tasks.TypeRestartSeid)()
	r.task("restart", v1alpha1.TaskKindRestartSeid)
	r.began(tasks.TypeRestartSeid)
	r.stop()
	node := r.ready("alpha")
	before := node.DeepCopy()
	node.Finalizers = nil
	if err := r.person.Patch(t.Context(), node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	r.delete(node)
	cluster.Gone[*v1alpha1.SeiNode](t, r.person, r.key("alpha"), "the first node to be gone")
	again := r.fullNode("alpha")
	r.create(again)
	r.start()
	task := r.ends("restart", v1alpha1.ReasonTargetDeleted, string(before.UID))
	if task.Status.TargetUID == string(again.UID) {
		t.Error("the task moved to another node")
	}
}

func TestSupersededRelease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	r.sidecar().Fail(tasks.TypeReleaseHold, 1, tasks.ReasonSuperseded, "the node was held again", false)
	r.task("release", v1alpha1.TaskKindReleaseHold)
	r.ends("release", v1alpha1.ReasonSuperseded, "held again")
}

// A hiccup of the API server is no outcome.
func TestAnAPIHiccupIsRetried(t *testing.T) {
	t.Parallel()
	var hiccups atomic.Int32
	r := newRig(t, func(c *operator.Config) {
		c.Kubernetes.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(request *http.Request) (*http.Response, error) {
				// The one read of a node that is not answered by a cache.
				if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/seinodes/alpha") && hiccups.Add(1) <= 3 {
					return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody, Request: request, Header: http.Header{}}, nil
				}
				return next.RoundTrip(request)
			})
		}
	})
	r.up()
	r.task("restart", v1alpha1.TaskKindRestartSeid)
	r.ends("restart", v1alpha1.ReasonTaskComplete, "")
	if hiccups.Load() <= 3 {
		t.Errorf("there were %d reads; the test tests nothing", hiccups.Load())
	}
	if n := r.count(tasks.TypeRestartSeid); n != 1 {
		t.Errorf("seid was restarted %d times", n)
	}
}

func TestDeletingATaskThatRunsCancelsItOnTheNode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	before := len(r.sidecar().Ledger())
	defer r.sidecar().Block(tasks.TypeRestartSeid)()
	task := r.task("restart", v1alpha1.TaskKindRestartSeid)
	r.began(tasks.TypeRestartSeid)
	r.delete(task)
	r.taskGone(task.Name)
	if diff := cmp.Diff([]string{"restart-seid#1 Deleted"}, r.since(before)); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
}

// A task that waits has nothing to cancel.
func TestDeletingATaskThatWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	task := r.task("restart", v1alpha1.TaskKindRestartSeid)
	r.waits("restart", "SeiNode alpha to exist")
	r.delete(task)
	r.taskGone(task.Name)
}

func TestTimeToLive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	task := r.task("restart", v1alpha1.TaskKindRestartSeid, func(task *v1alpha1.SeiNodeTask) { task.Spec.TTLSecondsAfterFinished = new(int32(1)) })
	r.ends("restart", v1alpha1.ReasonTaskComplete, "")
	r.taskGone(task.Name)
	r.task("other", v1alpha1.TaskKindRestartSeid, func(task *v1alpha1.SeiNodeTask) {
		task.Spec.Target.NodeRef.Name = "nobody"
		task.Spec.Target.RequirePhaseTimeoutSeconds = new(int32(0))
		task.Spec.TTLSecondsAfterFinished = new(int32(0))
	})
	r.taskGone("other")
}

// kubectl wait ends on the right tasks, and events tell what happened.
func TestKubectlWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	r.sidecar().Fail(plan.TaskDiscoverPeers, 1, tasks.ReasonVolumeError, "the disk is full", true)
	r.task("good", v1alpha1.TaskKindRestartSeid)
	r.task("bad", v1alpha1.TaskKindDiscoverPeers)
	r.kubectl("wait", "--for=condition=Ready", "snt/good", "--timeout=60s")
	r.kubectl("wait", "--for=condition=Failed", "snt/bad", "--timeout=60s")
	for name, other := range map[string]v1alpha1.ConditionType{"good": v1alpha1.ConditionFailed, "bad": v1alpha1.ConditionReady} {
		task := &v1alpha1.SeiNodeTask{}
		r.get(name, task)
		if meta.IsStatusConditionTrue(task.Status.Conditions, string(other)) {
			t.Errorf("%s: %+v", name, task.Status.Conditions)
		}
	}
	if out := r.kubectl("get", "snt", "--field-selector", "spec.target.nodeRef.name=alpha"); !strings.Contains(out, "Complete") || !strings.Contains(out, "Failed") {
		t.Errorf("kubectl get says\n%s", out)
	}
	each(t, "the events", func() bool {
		return slicesContains(r.taskEvents("good"), "TaskStarted") && slicesContains(r.taskEvents("good"), "TaskComplete") && slicesContains(r.taskEvents("bad"), "TaskFailed")
	})
}

func TestATaskOfAPausedNodeWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Paused = true })
	r.until("alpha", "the node to be paused", has(v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPaused))
	r.task("restart", v1alpha1.TaskKindRestartSeid)
	r.waits("restart", "paused")
	r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Paused = false })
	r.ends("restart", v1alpha1.ReasonTaskComplete, "")
}

// A pause in the middle is the person's decision; the task goes on afterwards.
func TestANodeIsPausedWhileATaskRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	release := r.sidecar().Block(plan.TaskDiscoverPeers)
	r.task("peers", v1alpha1.TaskKindDiscoverPeers)
	r.began(plan.TaskDiscoverPeers)
	r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Paused = true })
	r.until("alpha", "the node to be paused", has(v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPaused))
	r.taskUntil("peers", "it to say so", func(task *v1alpha1.SeiNodeTask) bool { return strings.Contains(task.Status.Message, "paused") })
	release()
	r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Paused = false })
	r.ends("peers", v1alpha1.ReasonTaskComplete, "")
	if n := r.count(plan.TaskDiscoverPeers); n != 1 {
		t.Errorf("it was run %d times", n)
	}
}
