package plan

import (
	"slices"
	"time"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/seid"
)

// WantedDocument is the configuration that the node shall have now: what the spec
// wants, with the peers that are known. It keeps the serial of an equal one that is
// the newest, and otherwise gets a higher one than anybody has seen: an equal one
// that is older than what the sidecar applied would never be applied again.
func WantedDocument(in Input) seid.Intent {
	document := in.Want.Intent
	if peers := in.Node.Status.ResolvedPeers; peers != nil {
		document.Peers = slices.Clone(peers.Addresses)
	}
	document.Serial = highestSerial(in)
	if live, err := liveDocument(in); err != nil || live.Serial < document.Serial || !sameContent(live, document) || outranked(in, live) {
		document.Serial++
	}
	return document
}

// AssertedDocument is what the ConfigMap with the configuration has to say at any
// time, without a plan; false: nothing can be said without one.
//
// What it says is changed by a plan alone, because a pod that restarts by itself
// boots with it. So a document of ours stays, whatever the spec says by now. One
// that somebody else wrote, or that is gone, is put right when the spec still wants
// what was last admitted.
func AssertedDocument(in Input) (seid.Intent, bool) {
	if in.Node.Status.ConfigHash == "" || in.RenderProblem != "" {
		return seid.Intent{}, false
	}
	live, err := liveDocument(in)
	if err == nil && ownsDocument(in) && !NothingToRoll(in) {
		return live, true
	}
	admitted := in.Node.Status.ConfigHash == in.Want.ConfigHash
	switch {
	case !admitted && !NothingToRoll(in):
		return seid.Intent{}, false
	case admitted && in.Seen.NodeConfig == nil && highestSerial(in) == in.Node.Status.ConfigSerial:
		// It was deleted, and comes back as it was.
		document := WantedDocument(in)
		document.Serial = in.Node.Status.ConfigSerial
		return document, true
	}
	return WantedDocument(in), true
}

// Reconfigured tells whether a plan that is complete has brought its configuration to
// seid. A NodeUpdate does so by a new pod, which reads it when it starts; a pod that
// was there before has not read it.
func Reconfigured(in Input) bool {
	p, pod := in.Node.Status.Plan, in.Seen.Pod
	switch p.Type {
	case v1alpha1.PlanReapprove:
		return false
	case v1alpha1.PlanNodeUpdate:
		began := p.StartTime.Truncate(time.Second)
		// Kubernetes counts in seconds. Of a pod from the same second the sidecar says
		// what it has.
		return pod != nil && (pod.CreationTimestamp.After(began) ||
			pod.CreationTimestamp.Time.Equal(began) && in.Seen.Sidecar.Status.Config.Hash == p.ConfigHash)
	default:
		return true
	}
}

// BootsWith tells whether the next start of seid reads the ConfigMap, because there is
// no pod that has read it before.
func BootsWith(in Input) bool { return podGone(in) }

// liveDocument is the document in the ConfigMap that is there.
func liveDocument(in Input) (seid.Intent, error) {
	if in.Seen.NodeConfig == nil {
		return seid.Intent{}, errNoDocument
	}
	return render.Document(in.Seen.NodeConfig)
}

// ownsDocument tells whether the document is as we applied it: when somebody else
// changes a field, it is no longer ours.
func ownsDocument(in Input) bool {
	owns, err := in.Seen.Owned.ConfigMap(in.Seen.NodeConfig).Is("data", nil, func(owned *corev1ac.ConfigMapApplyConfiguration) bool {
		return ownsDocumentEntry(owned.Data)
	})
	return err == nil && owns
}

// outranked tells whether the sidecar has another configuration with the same serial,
// from an earlier life of the volume for example. It would take this one for applied.
func outranked(in Input, live seid.Intent) bool {
	has := in.Seen.Sidecar.Status.Config
	return has.Serial == live.Serial && has.Hash != "" && has.Hash != seid.Hash(live)
}

func sameContent(a, b seid.Intent) bool {
	return seid.Hash(a) == seid.Hash(b) && slices.Equal(a.Peers, b.Peers)
}

// highestSerial is the highest serial that anybody has seen. A lower or equal one
// would not be applied by the sidecar.
func highestSerial(in Input) int64 {
	highest := max(in.Node.Status.ConfigSerial, in.Seen.Sidecar.Status.Config.Serial)
	if live, err := liveDocument(in); err == nil {
		highest = max(highest, live.Serial)
	}
	return highest
}
