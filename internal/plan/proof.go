package plan

import (
	"fmt"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// Proof is how far it is known that the seid of a new pod works.
type Proof struct {
	// Known: there is nothing more to wait for.
	Known bool
	// Refused is why seid cannot run with the image that a person set; empty: it is not
	// known that it cannot.
	Refused v1alpha1.ConditionReason
	// Message is what is waited for, or what is remarkable.
	Message string
}

// refusals are why a binary does not go on from the data that is there.
var refusals = map[string]v1alpha1.ConditionReason{
	string(supervisor.ParkedUpgrade):    v1alpha1.ReasonUpgradeNeeded,
	string(v1alpha1.ReasonBinaryTooNew): v1alpha1.ReasonBinaryTooNew,
	string(v1alpha1.ReasonBinaryTooOld): v1alpha1.ReasonBinaryTooOld,
}

// Proven tells whether the seid of the pod that is there works: it answers and has
// executed a block. One that answers may still fail at its first block, and an update
// that is called complete before that is believed by whoever goes on to the next node.
//
// A node that executes none for a good reason must not wait for ever. It is held, or
// parked: then Ready says so. Its chain stands still, or no peer has a block for it: the
// sidecar tells that after a minute. It restores a snapshot, which takes hours: then it
// is known to run. It finds no snapshot: that may last for days, and
// the update did not cause it. A seed has no blocks, and an older sidecar does not know.
func Proven(in Input) Proof {
	sidecar := in.Seen.Sidecar
	seid := sidecar.Status.Seid
	switch {
	case !sidecar.Connected:
		return Proof{Message: "Waits for the sidecar to tell of the new seid."}
	case sidecar.Status.Held:
		return Proof{Known: true, Message: "The node is held; seid starts when it is released."}
	case !sidecar.Status.Approved:
		return Proof{Known: true, Message: "The node is not approved to run; seid starts when it is."}
	case seid.State == api.SeidParked:
		return parkedProof(in)
	case seid.State == api.SeidStarting && seid.UnsafeBecause == string(supervisor.StateSyncing):
		return Proof{Known: true, Message: "seid restores a snapshot."}
	case seid.Readiness.Reason == string(v1alpha1.ReasonNoSnapshotFound):
		return Proof{Known: true, Message: "seid runs and finds no snapshot to restore."}
	case seid.State != api.SeidRunning:
		return Proof{Message: "Waits for seid to answer."}
	case in.Node.Spec.Seed != nil, seid.Progress == api.ProgressExecuted, seid.Progress == "" && seid.RPC:
		return Proof{Known: true}
	case seid.Progress == api.ProgressIdle, seid.Readiness.Reason == string(v1alpha1.ReasonNetworkStalled):
		return Proof{Known: true, Message: "seid answers, and no block came to it: the chain stands still, or no peer has the next block."}
	}
	return Proof{Message: "Waits for seid to execute a block."}
}

// parkedProof is about a seid that is not started. An image that a person has just set
// and that cannot go on is a failure of the update. Where the image is the one of before,
// the update has nothing to do with it, and must not hold up those of other nodes.
func parkedProof(in Input) Proof {
	seid := in.Seen.Sidecar.Status.Seid
	why, refused := refusals[seid.ParkedBecause]
	if p := in.Node.Status.Plan; !refused || p == nil || p.Reason != string(v1alpha1.ReasonImageChanged) || seid.Progress == api.ProgressExecuted {
		return Proof{Known: true, Message: "seid is not started: " + seid.Message}
	}
	return Proof{Refused: why, Message: fmt.Sprintf("seid cannot go on with the image %s: %s", in.Want.SeidImage, seid.Message)}
}
