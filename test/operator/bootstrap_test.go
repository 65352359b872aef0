package operator_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// brought are the tasks by which a node is brought up that has nothing special.
var brought = []string{"configure-genesis#1", "config-apply#1", "config-validate#1", "mark-ready#1"}

func TestANodeIsBroughtUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	node := r.ready("alpha")
	if diff := cmp.Diff(brought, r.ran("alpha")); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
	status := node.Status
	claim := r.claim("alpha")
	if status.Phase != v1alpha1.PhaseRunning || status.CurrentImage != image || status.CurrentSidecarImage != r.config.Platform.SidecarImage ||
		status.NodeID == "" || status.ConfigSerial != 1 || status.DataVolume.UID != claim.UID || status.Endpoint == nil {
		t.Errorf("the status is %+v", status)
	}
	if claim.Annotations[v1alpha1.AnnotationBootstrapped] != string(node.UID) || len(claim.OwnerReferences) != 0 {
		t.Errorf("the claim is marked %v and owned by %v", claim.Annotations, claim.OwnerReferences)
	}
	pod := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
	if hash := pod.Annotations[v1alpha1.AnnotationTemplateHash]; hash == "" || hash != status.PodTemplateHash {
		t.Errorf("the pod has the hash %q and the status %q", hash, status.PodTemplateHash)
	}
	if reasons := r.events("alpha"); !slices.Equal(reasons, []string{"PlanComplete", "PlanStarted", "Ready"}) {
		t.Errorf("the events are %v", reasons)
	}
}

func TestEveryModeIsBroughtUp(t *testing.T) {
	t.Parallel()
	witnesses := []string{"one.example.com:26657", "two.example.com:26657"}
	synced := []string{"configure-genesis#1", "config-apply#1", "configure-state-sync#1", "config-validate#1", "mark-ready#1"}
	for name, c := range map[string]struct {
		spec v1alpha1.SeiNodeSpec
		want []string
	}{
		"a full node that starts from a snapshot": {
			v1alpha1.SeiNodeSpec{FullNode: &v1alpha1.FullNodeSpec{Snapshot: &v1alpha1.SnapshotSource{StateSync: &v1alpha1.StateSyncSource{}, RPCServers: witnesses}}}, synced,
		},
		"a validator with keys of its own": {v1alpha1.SeiNodeSpec{Validator: &v1alpha1.ValidatorSpec{}}, brought},
		"an archive":                       {v1alpha1.SeiNodeSpec{Archive: &v1alpha1.ArchiveSpec{}}, brought},
		"a seed": {
			v1alpha1.SeiNodeSpec{Seed: &v1alpha1.SeedSpec{NodeKey: v1alpha1.KeySource{Secret: &v1alpha1.KeySecret{SecretName: "alpha-node"}}}}, brought,
		},
		"a replayer": {
			v1alpha1.SeiNodeSpec{Replayer: &v1alpha1.ReplayerSpec{Snapshot: &v1alpha1.SnapshotSource{StateSync: &v1alpha1.StateSyncSource{}, RPCServers: witnesses}}}, synced,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.createKeys("alpha")
			r.create(r.fullNode("alpha", func(n *v1alpha1.SeiNode) {
				c.spec.ChainID, c.spec.Image = n.Spec.ChainID, n.Spec.Image
				n.Spec = c.spec
			}))
			r.ready("alpha")
			if diff := cmp.Diff(c.want, r.ran("alpha")); diff != "" {
				t.Errorf("the sidecar ran (-want +got):\n%s", diff)
			}
		})
	}
}

// A validator's approval names the keys of its Secrets, and no pod exists before
// they are there.
func TestAValidatorWaitsForItsKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.validator("alpha"))
	r.until("alpha", "the node to wait for its key", has(v1alpha1.ConditionSigningKeyReady, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound))
	r.noPod("alpha")
	public := r.createKeys("alpha")
	r.ready("alpha")
	ledger := r.sidecars.Node(r.namespace, "alpha").Ledger()
	approved := string(ledger[len(ledger)-1].Params)
	if !contains(approved, public) || !contains(approved, "nodeId") {
		t.Errorf("approved was %s, the key is %s", approved, public)
	}
}

func TestStateSyncWaitsForWitnesses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha", func(n *v1alpha1.SeiNode) {
		n.Spec.FullNode.Snapshot = &v1alpha1.SnapshotSource{StateSync: &v1alpha1.StateSyncSource{}}
	}))
	node := r.until("alpha", "the node to miss witnesses", has(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonTooFewWitnesses))
	if node.Status.Phase != v1alpha1.PhasePending || node.Status.Plan != nil {
		t.Errorf("the phase is %s and the plan %+v", node.Status.Phase, node.Status.Plan)
	}
	r.edit("alpha", func(n *v1alpha1.SeiNode) {
		n.Spec.FullNode.Snapshot.RPCServers = []string{"one.example.com:26657", "two.example.com:26657"}
	})
	r.ready("alpha")
}

// Nothing that is wrong with a pod during Bootstrap needs more than an edit.
func TestWrongDuringBootstrapAndCorrectedByAnEdit(t *testing.T) {
	t.Parallel()
	w := &writes{}
	r := newRig(t, w.record)
	r.create(r.fullNode("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Image = "registry.example.com/seid:pull-fails" }))
	node := r.until("alpha", "the image to be told of", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonImagePullBackOff))
	if !contains(ready(node).Message, "pull-fails") {
		t.Errorf("the message does not name the image: %s", ready(node).Message)
	}
	claim := r.claim("alpha")
	r.edit("alpha", func(n *v1alpha1.SeiNode) {
		n.Spec.Image = image
		n.Spec.Scheduling = &v1alpha1.SchedulingSpec{NodeSelector: map[string]string{"example.com/nowhere": "true"}}
	})
	r.until("alpha", "the selector to be told of", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable))
	r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Scheduling = nil })
	node = r.ready("alpha")
	if node.Status.CurrentImage != image || node.Status.DataVolume.UID != claim.UID {
		t.Errorf("the image is %s; the claim was %s and is %s", node.Status.CurrentImage, claim.UID, node.Status.DataVolume.UID)
	}
	if deleted := w.of("delete", "Pod"); len(deleted) != 2 {
		t.Errorf("pods were deleted %d times", len(deleted))
	}
	if diff := cmp.Diff(brought, r.ran("alpha")); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
}

func TestAFailedBootstrapIsTriedAgain(t *testing.T) {
	t.Parallel()
	failing := func(t *testing.T) (*rig, *v1alpha1.SeiNode) {
		t.Helper()
		r := newRig(t)
		r.sidecars.Node(r.namespace, "alpha").Fail("configure-genesis", 1, "ChainIDMismatch", "it belongs to another chain", false)
		r.create(r.fullNode("alpha"))
		node := r.until("alpha", "the node to have failed", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPlanFailed))
		if node.Status.Phase != v1alpha1.PhaseFailed || !contains(ready(node).Message, "it belongs to another chain") {
			t.Errorf("the phase is %s and Ready says %s", node.Status.Phase, ready(node).Message)
		}
		return r, node
	}
	t.Run("when it is asked for", func(t *testing.T) {
		t.Parallel()
		r, _ := failing(t)
		r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Annotations = map[string]string{v1alpha1.AnnotationRetry: "now"} })
		r.ready("alpha")
	})
	t.Run("after an edit", func(t *testing.T) {
		t.Parallel()
		r, _ := failing(t)
		r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Image = "registry.example.com/seid:v2" })
		r.ready("alpha")
	})
	t.Run("by itself", func(t *testing.T) {
		t.Parallel()
		r, failed := failing(t)
		node := r.ready("alpha")
		if again := node.Status.LastPlan.StartTime.Sub(failed.Status.LastPlan.CompletionTime.Time); again < 0 {
			t.Errorf("the next plan began %s after the first failed", again)
		}
	})
}

// A task that fails and may succeed is tried again under the same id, and each
// failure counts once.
func TestAFailedTaskIsTriedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sidecars.Node(r.namespace, "alpha").Fail("config-apply", 1, "VolumeError", "the disk is busy", true)
	r.create(r.fullNode("alpha"))
	r.until("alpha", "the failure to be counted", func(n *v1alpha1.SeiNode) bool {
		if n.Status.Plan == nil {
			return false
		}
		for _, task := range n.Status.Plan.Tasks {
			if task.Type == "config-apply" {
				return task.Retries == 1 && task.RetryTime != nil && contains(task.Message, "the disk is busy")
			}
		}
		return false
	})
	r.ready("alpha")
	want := []string{"configure-genesis#1", "config-apply#1", "config-apply#2", "config-validate#1", "mark-ready#1"}
	if diff := cmp.Diff(want, r.ran("alpha")); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
}

func TestALostApprovalIsGivenAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	r.sidecars.Node(r.namespace, "alpha").Unapprove()
	r.until("alpha", "the approval to be given again", func(n *v1alpha1.SeiNode) bool {
		return isReady(n) && n.Status.LastPlan.Type == v1alpha1.PlanReapprove && n.Status.LastPlan.Outcome == v1alpha1.PlanOutcomeComplete
	})
	if diff := cmp.Diff(append(slices.Clone(brought), "mark-ready#1"), r.ran("alpha")); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
}

// A hold is a person's decision, and no plan undoes it.
func TestAHeldNodeIsNotApprovedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	ledger := len(r.ran("alpha"))
	r.sidecars.Node(r.namespace, "alpha").Hold("somebody looks into it")
	node := r.until("alpha", "the hold to be told of", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHeld))
	if !contains(ready(node).Message, "somebody looks into it") {
		t.Errorf("Ready says %s", ready(node).Message)
	}
	r.settled("alpha")
	if len(r.ran("alpha")) != ledger {
		t.Errorf("the sidecar ran %v", r.ran("alpha"))
	}
	r.sidecars.Node(r.namespace, "alpha").Release()
	r.ready("alpha")
}

// Peers that are declared at the same moment find each other.
func TestPeersOfOneChainFindEachOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	names := []string{"alpha", "beta", "gamma"}
	for _, name := range names {
		r.create(r.fullNode(name, func(n *v1alpha1.SeiNode) {
			n.Labels = map[string]string{"example.com/chain": "one"}
			n.Spec.Peers = []v1alpha1.PeerSource{{Label: &v1alpha1.LabelPeers{Selector: map[string]v1alpha1.LabelValue{"example.com/chain": "one"}}}}
		}))
	}
	for _, name := range names {
		node := r.ready(name)
		if peers := node.Status.ResolvedPeers; peers == nil || peers.Count != 2 {
			t.Errorf("%s knows %+v", name, peers)
		}
		config := &corev1.ConfigMap{}
		r.get(name+"-config", config)
		for _, peer := range node.Status.ResolvedPeers.Addresses {
			if !contains(config.Data["config.json"], peer) {
				t.Errorf("the configuration of %s lacks %s: %s", name, peer, config.Data["config.json"])
			}
		}
	}
}

func TestADeletedNodeLeavesItsVolume(t *testing.T) {
	t.Parallel()
	for policy, remains := range map[v1alpha1.DeletionPolicy]bool{v1alpha1.DeletionPolicyRetain: true, v1alpha1.DeletionPolicyDelete: false} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.create(r.fullNode("alpha", func(n *v1alpha1.SeiNode) { n.Spec.DataVolume = &v1alpha1.DataVolumeSpec{DeletionPolicy: policy} }))
			node := r.ready("alpha")
			claim := r.claim("alpha")
			if series := r.series("alpha"); series == 0 {
				t.Error("there are no metrics of the node")
			}
			r.delete(node)
			cluster.Gone[*v1alpha1.SeiNode](t, r.person, r.key("alpha"), "the node to be gone")
			r.noPod("alpha")
			if remains {
				if now := r.claim("alpha"); now.UID != claim.UID || now.DeletionTimestamp != nil {
					t.Errorf("the claim was %s and is %s, deleted at %v", claim.UID, now.UID, now.DeletionTimestamp)
				}
			} else {
				cluster.Gone[*corev1.PersistentVolumeClaim](t, r.person, r.key("data-alpha"), "the claim to be gone")
			}
			r.seriesGone("alpha")
		})
	}
}
