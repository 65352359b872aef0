package status

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// tells is what a sidecar says of the node's readiness.
func tells(ready bool, reason, message string) edit {
	return sidecar(func(s *plan.Sidecar) {
		s.Status.Seid.Readiness = api.Readiness{Ready: ready, Reason: reason, Message: message}
	})
}

func TestReadyNeedsTheSidecarToo(t *testing.T) {
	removed := tells(false, "NoBlocks", "height 0: seid has no block yet")
	lonely := tells(false, "NoPeers", "no connection to a peer; 3 addresses known")
	stalled := tells(true, "NetworkStalled", "the last block is 7m12s old")
	for what, c := range map[string]struct {
		edits  []edit
		ready  bool
		reason v1alpha1.ConditionReason
		says   string
	}{
		"both say so":                             {[]edit{tells(true, "Following", "")}, true, v1alpha1.ReasonRunning, "follows the chain"},
		"the pod's word is of before a reset":     {[]edit{removed}, false, v1alpha1.ReasonNoBlocks, "height 0"},
		"it is held, and the pod's word is older": {[]edit{holds, tells(false, "NotRunning", "seid does not run")}, false, v1alpha1.ReasonHeld, "hold"},
		"it was held a moment ago":                {[]edit{tells(false, "NotRunning", "seid does not run")}, false, v1alpha1.ReasonPodNotReady, "seid does not run"},
		"nobody is connected":                     {[]edit{lonely, notReadyPod}, false, v1alpha1.ReasonNoPeers, "3 addresses known"},
		"others have newer blocks":                {[]edit{tells(false, "BlockTooOld", "peer height 1234, own 1200"), notReadyPod}, false, v1alpha1.ReasonBlockTooOld, "own 1200"},
		"it catches up":                           {[]edit{tells(false, "CatchingUp", "900 blocks behind"), notReadyPod}, false, v1alpha1.ReasonCatchingUp, "900 blocks behind"},
		"a reason that nobody here knows":         {[]edit{tells(false, "Sleepy", "it sleeps"), notReadyPod}, false, v1alpha1.ReasonPodNotReady, "it sleeps"},
		"the kubelet is not convinced yet":        {[]edit{tells(true, "Following", ""), notReadyPod}, false, v1alpha1.ReasonPodNotReady, "node-0"},
		"the chain stands still":                  {[]edit{stalled}, true, v1alpha1.ReasonNetworkStalled, "7m12s"},
		"the chain stands still for an upgrade":   {[]edit{stalled, upgrade(true)}, false, v1alpha1.ReasonUpgradeHalted, "v7"},
		"the sidecar is silent":                   {[]edit{removed, silent}, true, v1alpha1.ReasonRunning, ""},
	} {
		in := running(c.edits...)
		Set(in)
		got := find(t, in, v1alpha1.ConditionReady)
		if got.Status != isTrue(c.ready) || got.Reason != string(c.reason) {
			t.Errorf("%s: %s %s: %s", what, got.Status, got.Reason, got.Message)
		}
		says(t, got.Message, c.says)
	}
}

// TestASeedFollowsNoChain: it only tells peers of each other.
func TestASeedFollowsNoChain(t *testing.T) {
	seed := running(func(in *Input) { in.Node.Spec.FullNode, in.Node.Spec.Seed = nil, &v1alpha1.SeedSpec{} })
	if says := whenReady(seed).Message; !strings.Contains(says, "the seed takes connections") || strings.Contains(says, "follows the chain") {
		t.Errorf("it says %q", says)
	}
}

// TestAStateSyncThatFindsNoSnapshot says so, where people look for it.
func TestAStateSyncThatFindsNoSnapshot(t *testing.T) {
	vain := tells(false, "NoSnapshotFound", "no peer offered a snapshot for 1m0s")
	in := running(stateSynced(2), vain, notReadyPod)
	Set(in)
	for _, kind := range []v1alpha1.ConditionType{v1alpha1.ConditionReady, v1alpha1.ConditionStateSyncReady} {
		got := find(t, in, kind)
		if got.Status != metav1.ConditionFalse || got.Reason != string(v1alpha1.ReasonNoSnapshotFound) {
			t.Errorf("%s: %+v", kind, got)
		}
		says(t, got.Message, "no peer offered a snapshot", "snapshotGeneration")
	}
	for what, edits := range map[string][]edit{"it found one": {stateSynced(2)}, "the pod is gone": {stateSynced(2), vain, noPod}} {
		in := running(edits...)
		Set(in)
		if got := find(t, in, v1alpha1.ConditionStateSyncReady); got.Status != metav1.ConditionTrue {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestAChainThatStandsStillIsAWarning: the node is ready all the time.
func TestAChainThatStandsStillIsAWarning(t *testing.T) {
	before := running(said(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning))
	after := running(tells(true, "NetworkStalled", "the last block is 7m12s old"))
	Set(after)
	for _, event := range Transitions(before.Persisted, &after.Node.Status) {
		if event.Reason == string(v1alpha1.ReasonNetworkStalled) && event.Warning {
			return
		}
	}
	t.Error("nobody is told")
}
