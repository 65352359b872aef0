package plan

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Gate is something that a node needs and that is not there. Gates hold the creation
// of plans and of the StatefulSet, never the reconcile.
type Gate struct {
	Reason  v1alpha1.ConditionReason
	Message string
	// Stalled: only a person can open it.
	Stalled bool
	// After is when to look again, where nothing wakes us.
	After time.Duration
	// Aside: what runs is not affected by it.
	Aside bool
}

// gateInterval is how often a gate is looked at again that opens without a watch.
const gateInterval = 10 * time.Second

// gatesOf are the gates of each plan. They are asked in this order, so that the first
// that is shut is the one to be told about. A configuration needs none: it reaches the
// pod that is there. A volume that somebody else uses holds no update: the pod that is
// there has it.
var gatesOf = map[v1alpha1.PlanType][]func(Input) *Gate{
	v1alpha1.PlanBootstrap:  {foreignGate, volumeGate, keyGate, accessGate, witnessGate},
	v1alpha1.PlanNodeUpdate: {foreignGate, holdsPod, accessGate},
	v1alpha1.PlanReapprove:  {keyGate},
}

// ShutGate is the first gate that holds a plan of this type; nil when all are open.
func ShutGate(in Input, kind v1alpha1.PlanType) *Gate {
	for _, gate := range gatesOf[kind] {
		if shut := gate(in); shut != nil {
			return shut
		}
	}
	return nil
}

// foreignGate is shut while an object of a name that this node needs belongs to
// someone else.
func foreignGate(in Input) *Gate {
	if step := StatefulSet(in); step.Action == LeaveForeign {
		return step.Gate
	}
	for _, derived := range []struct {
		kind   string
		object metav1.Object
	}{
		{"Service", orNil(in.Seen.Service)}, {"ConfigMap", orNil(in.Seen.NodeConfig)}, {"ConfigMap", orNil(in.Seen.ProxyConfig)},
	} {
		if foreign := Foreign(in.Node, derived.kind, derived.object); foreign != nil {
			return foreign
		}
	}
	return nil
}

// MinWitnesses is how many RPC servers seid verifies a snapshot against, at least.
const MinWitnesses = 2

// witnessGate is shut while a node that starts from a snapshot has nobody to verify
// it against. It never falls back to peers: they serve no RPC.
func witnessGate(in Input) *Gate {
	if in.Node.Spec.Snapshot() == nil || retained(in) || len(in.Want.Witnesses) >= MinWitnesses {
		return nil
	}
	return &Gate{
		Reason: v1alpha1.ReasonTooFewWitnesses, Stalled: true,
		Message: fmt.Sprintf("State sync needs at least %d RPC servers and has %d: set snapshot.rpcServers, or give the platform witnesses for the chain %s.",
			MinWitnesses, len(in.Want.Witnesses), in.Node.Spec.ChainID),
	}
}
