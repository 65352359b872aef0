package operator_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// The tests in this file are about what each kind does to a node.

func TestDiscoverPeersWritesThemAndRestartsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	peer := strings.Repeat("ab", 20) + "@peer.example.com:26656"
	r.up(func(n *v1alpha1.SeiNode) {
		n.Spec.Peers = []v1alpha1.PeerSource{{Label: &v1alpha1.LabelPeers{Selector: map[string]v1alpha1.LabelValue{"team": "a"}}}}
	})
	before := len(r.sidecar().Ledger())
	r.create(r.fullNode("beta", func(n *v1alpha1.SeiNode) { n.Labels = map[string]string{"team": "a"} }))
	beta := r.ready("beta")
	r.task("peers", v1alpha1.TaskKindDiscoverPeers)
	task := r.ends("peers", v1alpha1.ReasonTaskComplete, "")
	if diff := cmp.Diff([]string{"discover-peers#1 Done"}, r.since(before)); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
	var sent tasks.ConfigApply
	if err := json.Unmarshal(r.sidecar().Ledger()[before].Params, &sent); err != nil {
		t.Fatal(err)
	}
	if len(sent.Peers) != 1 || !strings.HasPrefix(sent.Peers[0], beta.Status.NodeID+"@") || sent.Peers[0] == peer {
		t.Errorf("these peers were written: %v", sent.Peers)
	}
	if task.Status.Outputs == nil || task.Status.Outputs.Peers == nil || *task.Status.Outputs.Peers != 1 {
		t.Errorf("the outputs are %+v", task.Status.Outputs)
	}
	alpha := r.ready("alpha")
	if alpha.Status.ResolvedPeers == nil || !slices.Equal(alpha.Status.ResolvedPeers.Addresses, sent.Peers) {
		t.Errorf("the node says that its peers are %+v", alpha.Status.ResolvedPeers)
	}
	if alpha.Status.LastPlan.Type != v1alpha1.PlanBootstrap {
		t.Errorf("there was a plan: %+v", alpha.Status.LastPlan)
	}
}

func TestHoldMarkReadyRelease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	before := len(r.sidecar().Ledger())
	r.task("hold", v1alpha1.TaskKindHoldNode)
	r.ends("hold", v1alpha1.ReasonTaskComplete, "")
	held := r.until("alpha", "the node to be held", has(v1alpha1.ConditionHeld, metav1.ConditionTrue, v1alpha1.ReasonHeld))
	if !contains(ready(held).Message, "SeiNodeTask hold") {
		t.Errorf("the node does not say who held it: %s", ready(held).Message)
	}
	r.task("mark", v1alpha1.TaskKindMarkReady)
	r.ends("mark", v1alpha1.ReasonTaskFailed, "Held: ")
	r.task("restart", v1alpha1.TaskKindRestartSeid)
	r.ends("restart", v1alpha1.ReasonTaskFailed, "Held: ")
	r.task("release", v1alpha1.TaskKindReleaseHold)
	r.ends("release", v1alpha1.ReasonTaskComplete, "")
	r.ready("alpha")
	r.task("mark-2", v1alpha1.TaskKindMarkReady)
	r.ends("mark-2", v1alpha1.ReasonTaskComplete, "")
	want := []string{"mark-not-ready#1 Done", "stop-seid#1 Done", "mark-ready#1 Held", "restart-seid#1 Held", "release-hold#1 Done", "mark-ready#1 Done"}
	if diff := cmp.Diff(want, r.since(before)); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
}

// A validator is approved with the key in its Secret and with no other.
func TestMarkReadyApprovesTheKeyInTheSecret(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	public := r.createKeys("alpha")
	r.create(r.validator("alpha"))
	r.ready("alpha")
	before := len(r.sidecar().Ledger())
	r.task("mark", v1alpha1.TaskKindMarkReady)
	r.ends("mark", v1alpha1.ReasonTaskComplete, "")
	var sent tasks.MarkReady
	if err := json.Unmarshal(r.sidecar().Ledger()[before].Params, &sent); err != nil {
		t.Fatal(err)
	}
	if sent.PublicKey != public || sent.NodeID == "" {
		t.Errorf("it approved %+v, the key is %s", sent, public)
	}
}

var resync = []string{
	"configure-state-sync#1 Done", "mark-not-ready#1 Done", "stop-seid#1 Done", "reset-data#1 Done", "configure-state-sync#1 Done", "release-hold#1 Done",
}

func TestResyncNode(t *testing.T) {
	t.Parallel()
	r := newRig(t, witnesses)
	r.up()
	before := len(r.sidecar().Ledger())
	r.task("resync", v1alpha1.TaskKindResyncNode)
	r.ends("resync", v1alpha1.ReasonTaskComplete, "")
	if diff := cmp.Diff(resync, r.since(before)); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
	r.until("alpha", "the node to be released", has(v1alpha1.ConditionHeld, metav1.ConditionFalse, v1alpha1.ReasonNotHeld))
	var first tasks.ConfigureStateSync
	if err := json.Unmarshal(r.sidecar().Ledger()[before].Params, &first); err != nil || !first.CheckOnly || len(first.RPCServers) != 2 {
		t.Errorf("the first step is %+v, %v", first, err)
	}
}

// Whatever goes wrong before the data is removed leaves it; whatever goes wrong after
// the hold leaves the node held. Another try goes on from there.
func TestAResyncThatFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, witnesses)
	r.up()
	before := len(r.sidecar().Ledger())
	r.sidecar().Fail(tasks.TypeConfigureStateSync, 1, tasks.ReasonWitnessesDisagree, "the servers have different blocks", false)
	r.task("first", v1alpha1.TaskKindResyncNode)
	r.ends("first", v1alpha1.ReasonTaskFailed, "Nothing was changed.")
	if diff := cmp.Diff([]string{"configure-state-sync#1 WitnessesDisagree"}, r.since(before)); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
	r.ready("alpha")

	r.sidecar().Fail(tasks.TypeResetData, 1, tasks.ReasonVolumeError, "input/output error", true)
	r.task("second", v1alpha1.TaskKindResyncNode)
	r.ends("second", v1alpha1.ReasonTaskFailed, "stays held")
	r.until("alpha", "the node to be held", has(v1alpha1.ConditionHeld, metav1.ConditionTrue, v1alpha1.ReasonHeld))

	before = len(r.sidecar().Ledger())
	r.task("third", v1alpha1.TaskKindResyncNode)
	r.ends("third", v1alpha1.ReasonTaskComplete, "")
	if diff := cmp.Diff(resync, r.since(before)); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
	r.until("alpha", "the node to be released", has(v1alpha1.ConditionHeld, metav1.ConditionFalse, v1alpha1.ReasonNotHeld))
}

// A hold that somebody else placed is not ended, and the node is left as it is.
func TestAResyncOfANodeThatSomebodyHolds(t *testing.T) {
	t.Parallel()
	r := newRig(t, witnesses)
	r.up()
	r.sidecar().Hold("evidence")
	r.task("resync", v1alpha1.TaskKindResyncNode)
	r.ends("resync", v1alpha1.ReasonTaskFailed, "evidence")
	if n := r.count(tasks.TypeResetData); n != 0 {
		t.Errorf("data was removed %d times", n)
	}
	r.until("alpha", "the node to be held", has(v1alpha1.ConditionHeld, metav1.ConditionTrue, v1alpha1.ReasonHeld))
}

// A hold that is asked for in the middle of a resync waits for nobody and stays.
func TestAHoldInTheMiddleOfAResyncStays(t *testing.T) {
	t.Parallel()
	r := newRig(t, witnesses)
	r.up()
	release := r.sidecar().Block(tasks.TypeResetData)
	r.task("resync", v1alpha1.TaskKindResyncNode)
	r.began(tasks.TypeResetData)
	stop := r.sidecar().Block(tasks.TypeStopSeid)
	r.task("hold", v1alpha1.TaskKindHoldNode)
	r.began(tasks.TypeMarkNotReady)
	r.began(tasks.TypeMarkNotReady)
	r.taskUntil("hold", "the hold to be placed", func(task *v1alpha1.SeiNodeTask) bool { return task.Status.Step == "stop-seid" })
	release()
	stop()
	r.ends("resync", v1alpha1.ReasonSuperseded, "stays held")
	r.ends("hold", v1alpha1.ReasonTaskComplete, "")
	r.until("alpha", "the node to be held", has(v1alpha1.ConditionHeld, metav1.ConditionTrue, v1alpha1.ReasonHeld))
}

func TestResyncNodeIsForFullNodesWithWitnesses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.createKeys("alpha")
	r.create(r.validator("alpha"))
	r.ready("alpha")
	before := len(r.sidecar().Ledger())
	r.task("resync", v1alpha1.TaskKindResyncNode)
	r.ends("resync", v1alpha1.ReasonInvalidPayload, "not a full node")
	r.create(r.fullNode("beta"))
	r.task("resync-beta", v1alpha1.TaskKindResyncNode, func(task *v1alpha1.SeiNodeTask) { task.Spec.Target.NodeRef.Name = "beta" })
	r.ends("resync-beta", v1alpha1.ReasonInvalidPayload, "at least 2 RPC servers")
	if ran := r.since(before); len(ran) != 0 {
		t.Errorf("the sidecar ran %v", ran)
	}
}

func TestUpdateNodeImage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	r.task("update", v1alpha1.TaskKindUpdateNodeImage)
	task := r.ends("update", v1alpha1.ReasonTaskComplete, otherImage)
	node := r.ready("alpha")
	if node.Spec.Image != otherImage || node.Status.CurrentImage != otherImage || task.Status.Outputs.Image != otherImage {
		t.Errorf("the node runs %s, its spec says %s, the task %+v", node.Status.CurrentImage, node.Spec.Image, task.Status.Outputs)
	}
}

func TestUpdateNodeImageIsSupersededByAnEdit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	safe := r.unsafe("alpha")
	r.task("update", v1alpha1.TaskKindUpdateNodeImage)
	r.taskUntil("update", "it to say why it takes so long", func(task *v1alpha1.SeiNodeTask) bool {
		return contains(task.Status.Message, "state sync")
	})
	r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Image = "registry.example.com/seid:v3" })
	r.ends("update", v1alpha1.ReasonSuperseded, "seid:v3")
	safe()
}

// A fleet would take the image of its node back. One that it left behind is nobody's.
func TestUpdateNodeImageOfANodeThatAFleetOwns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fleet := r.deployment("fleet", 1)
	r.create(fleet)
	r.fleetReady("fleet")
	ofFleet := func(task *v1alpha1.SeiNodeTask) { task.Spec.Target.NodeRef.Name = "fleet-0" }
	r.task("refused", v1alpha1.TaskKindUpdateNodeImage, ofFleet)
	r.ends("refused", v1alpha1.ReasonInvalidPayload, "SeiNodeDeployment fleet")
	node := &v1alpha1.SeiNode{}
	r.get("fleet-0", node)
	if node.Spec.Image != image {
		t.Errorf("the image is %s", node.Spec.Image)
	}
	r.delete(fleet)
	cluster.Gone[*v1alpha1.SeiNodeDeployment](t, r.person, r.key("fleet"), "the fleet is deleted")
	r.task("update", v1alpha1.TaskKindUpdateNodeImage, ofFleet)
	r.ends("update", v1alpha1.ReasonTaskComplete, "")
	r.get("fleet-0", node)
	if wanted := "registry.example.com/seid:v2"; node.Status.CurrentImage != wanted {
		t.Errorf("the node runs %s", node.Status.CurrentImage)
	}
}

func TestAwaitCondition(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	r.task("height", v1alpha1.TaskKindAwaitCondition)
	task := r.ends("height", v1alpha1.ReasonTaskComplete, "")
	if task.Status.Outputs == nil || task.Status.Outputs.Height != 1234 {
		t.Errorf("the outputs are %+v", task.Status.Outputs)
	}
	r.task("caught-up", v1alpha1.TaskKindAwaitCondition, func(task *v1alpha1.SeiNodeTask) {
		task.Spec.AwaitCondition = &v1alpha1.AwaitConditionPayload{CaughtUp: &v1alpha1.AwaitCaughtUp{}}
	})
	r.ends("caught-up", v1alpha1.ReasonTaskComplete, "")
	r.sidecar().Fail(tasks.TypeAwaitCondition, 1, tasks.ReasonDeadlineExceeded, "the node is at height 7 of 1234", false)
	r.task("late", v1alpha1.TaskKindAwaitCondition)
	r.ends("late", v1alpha1.ReasonTimeout, "the node is at height 7 of 1234")
}

func TestAwaitNodesAtHeightWaitsForAll(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	team := func(n *v1alpha1.SeiNode) { n.Labels = map[string]string{"team": "a"} }
	r.create(r.fullNode("beta", team))
	r.create(r.fullNode("gamma", team))
	r.create(r.fullNode("stranger"))
	r.up()
	r.ready("beta")
	r.ready("gamma")
	release := r.sidecars.Node(r.namespace, "gamma").Block(tasks.TypeAwaitCondition)
	r.task("all", v1alpha1.TaskKindAwaitNodesAtHeight, func(task *v1alpha1.SeiNodeTask) {
		task.Spec.AwaitNodesAtHeight.Selector = map[string]v1alpha1.LabelValue{"team": "a"}
	})
	r.taskUntil("all", "two of three", func(task *v1alpha1.SeiNodeTask) bool { return contains(task.Status.Message, "2 of 3") })
	release()
	task := r.ends("all", v1alpha1.ReasonTaskComplete, "All of 3 nodes")
	want := &v1alpha1.TaskOutputs{Height: 1234, Nodes: []v1alpha1.NodeHeight{{Name: "alpha", Height: 1234}, {Name: "beta", Height: 1234}, {Name: "gamma", Height: 1234}}}
	if diff := cmp.Diff(want, task.Status.Outputs); diff != "" {
		t.Errorf("the outputs are (-want +got):\n%s", diff)
	}
}

// Seed 000: the StatefulSet goes away while a task runs. The pod that comes back has
// the same volume, and with it the task.
func TestSeed000TheStatefulSetIsDeletedDuringATask(t *testing.T) {
	t.Parallel()
	for _, kind := range []v1alpha1.SeiNodeTaskKind{v1alpha1.TaskKindDiscoverPeers, v1alpha1.TaskKindRestartSeid} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.up()
			claim, before := r.claim("alpha"), len(r.sidecar().Ledger())
			taskType := map[v1alpha1.SeiNodeTaskKind]string{
				v1alpha1.TaskKindDiscoverPeers: plan.TaskDiscoverPeers, v1alpha1.TaskKindRestartSeid: tasks.TypeRestartSeid,
			}[kind]
			release := r.sidecar().Block(taskType)
			r.task("task", kind)
			r.began(taskType)
			set := &appsv1.StatefulSet{}
			r.get("alpha", set)
			r.delete(set)
			r.statefulSet("alpha", "another StatefulSet", func(s *appsv1.StatefulSet) bool { return s.UID != set.UID })
			release()
			r.ends("task", v1alpha1.ReasonTaskComplete, "")
			r.tracked("alpha", set.UID)
			if diff := cmp.Diff([]string{taskType + "#1 Done"}, r.since(before)); diff != "" {
				t.Errorf("the sidecar ran (-want +got):\n%s", diff)
			}
			if r.claim("alpha").UID != claim.UID {
				t.Error("the claim was replaced")
			}
		})
	}
}
