package status

import (
	"fmt"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// lacks are the reasons of an unready node that a sidecar gives, and what a person can do.
// With any other one the pod is simply not ready.
var lacks = map[v1alpha1.ConditionReason]string{
	v1alpha1.ReasonNoBlocks:        "",
	v1alpha1.ReasonCatchingUp:      "",
	v1alpha1.ReasonNoSnapshotFound: " Give it peers that make snapshots (spec.fullNode.snapshotGeneration), or wait until they have one.",
	v1alpha1.ReasonNoPeers:         " Check spec.peers, and that the port 26656 of the peers can be reached.",
	v1alpha1.ReasonBlockTooOld:     " If it stays so, look into the log of seid; a SeiNodeTask of kind RestartSeid makes it connect anew.",
}

// readiness is what the sidecar says of the node's readiness; nil: it does not.
func readiness(in Input) *api.Readiness {
	told := in.Seen.Sidecar.Status.Seid.Readiness
	if !in.Seen.Sidecar.Connected || told.Reason == "" {
		return nil
	}
	return &told
}

// notReady tells what keeps a node from being ready. Both have to say that it is: the
// kubelet, whose word lets it into Services, and the sidecar. The kubelet takes half a
// minute to find out that data which was removed is gone.
func notReady(in Input) *verdict {
	pod, told := in.Seen.Pod, readiness(in)
	switch {
	case plan.PodReady(pod) && (told == nil || told.Ready):
		return nil
	case pod.DeletionTimestamp != nil:
		return because(v1alpha1.ReasonPodNotReady, "The pod %s is ending.", pod.Name)
	case told != nil && !told.Ready:
		reason := v1alpha1.ConditionReason(told.Reason)
		hint, known := lacks[reason]
		if !known {
			return because(v1alpha1.ReasonPodNotReady, "The node is not ready: %s.", told.Message)
		}
		return because(reason, "The node is not ready: %s.%s", told.Message, hint)
	case told == nil && in.Seen.Sidecar.Connected && in.Seen.Sidecar.Status.Seid.State == api.SeidRunning:
		return because(v1alpha1.ReasonCatchingUp, "seid runs and is not yet near the head of the chain.")
	}
	return because(v1alpha1.ReasonPodNotReady, "The pod %s is not ready.", pod.Name)
}

// searchesInVain is what the sidecar says of a snapshot that nobody has; nil: nothing.
func searchesInVain(in Input) *verdict {
	if told := readiness(in); told != nil && told.Reason == string(v1alpha1.ReasonNoSnapshotFound) {
		return notReady(in)
	}
	return nil
}

// whenReady sums up a node that nothing is wrong with, though perhaps with its chain.
func whenReady(in Input) verdict {
	reason, message := v1alpha1.ReasonRunning, "The pod is ready and the node follows the chain."
	if in.Node.Spec.Seed != nil {
		message = "The pod is ready and the seed takes connections from peers."
	}
	if told := readiness(in); told != nil && told.Reason == string(v1alpha1.ReasonNetworkStalled) {
		reason, message = v1alpha1.ReasonNetworkStalled, fmt.Sprintf("The node is ready, and the chain makes no blocks: %s.", told.Message)
	}
	return verdict{Gate: plan.Gate{Reason: reason, Message: message}, ready: true}
}
