// Package plan decides what to do next about a node. Every function in it is pure:
// the same node, observation and settings give the same decision, and there is no
// client, no clock and no I/O. What it decides is carried out by the packages
// derived and task, and every decision has a reason that a person can read.
package plan

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// Input is all that a decision is made from.
type Input struct {
	// Node is the node with its status as this reconcile has it so far.
	Node *v1alpha1.SeiNode
	// Persisted is its status as the API server has it.
	Persisted *v1alpha1.SeiNodeStatus
	Seen      Observation
	Want      render.Desired
	// RenderProblem says why the spec cannot be rendered into a safe pod; Want is
	// then empty.
	RenderProblem string
}

// Observation is the world of one node, read once.
type Observation struct {
	Now         time.Time
	StatefulSet *appsv1.StatefulSet
	Service     *corev1.Service
	NodeConfig  *corev1.ConfigMap
	ProxyConfig *corev1.ConfigMap
	Claim       *corev1.PersistentVolumeClaim
	// Pod is the one with the name that the StatefulSet gives.
	Pod *corev1.Pod
	// OtherPods are the names of living pods, other than Pod, that mount the claim.
	OtherPods []string
	Sidecar   Sidecar
	// Keys are what is known of the Secrets that the spec names; one that nobody
	// looked at in this reconcile is absent.
	Keys map[KeyKind]Key
	// Task is the SeiNodeTask that works on the node; nil: none does.
	Task *RunningTask
}

// Sidecar is what is known of the sidecar in Pod.
type Sidecar struct {
	// New: it was not heard of yet, because this operator has only just begun to
	// listen. That says nothing about the sidecar.
	New bool
	// Lost is when it was last connected, if it was and is no longer.
	Lost time.Time
	// Connected: it answers, and Status is up to date.
	Connected bool
	// Problem says why it is not connected.
	Problem string
	Status  api.Status
}

// KeyKind is one of the keys that a spec may name.
type KeyKind string

// The kinds of keys.
const (
	SigningKey      KeyKind = "signing key"
	NodeKey         KeyKind = "node key"
	OperatorKeyring KeyKind = "operator keyring"
)

// Key is what was found in the Secret of a key.
type Key struct {
	// Problem is empty when the key can be used.
	Problem v1alpha1.ConditionReason
	Message string
	// PublicKey and Address are those of a signing key, NodeID that of a node key.
	PublicKey, Address, NodeID string
}

// KeysOf are the kinds of keys that a spec names, in the order in which they are
// checked.
func KeysOf(spec *v1alpha1.SeiNodeSpec) []KeyKind {
	var kinds []KeyKind
	if v := spec.Validator; v != nil {
		if v.SigningKey != nil {
			kinds = append(kinds, SigningKey)
		}
		if v.NodeKey != nil {
			kinds = append(kinds, NodeKey)
		}
		if v.OperatorKeyring != nil {
			kinds = append(kinds, OperatorKeyring)
		}
	}
	if spec.Seed != nil {
		kinds = append(kinds, NodeKey)
	}
	return kinds
}

// Bootstrapped tells whether this node, and no other of its name, finished its
// bootstrap on this claim.
func Bootstrapped(node *v1alpha1.SeiNode, claim *corev1.PersistentVolumeClaim) bool {
	return claim != nil && claim.Annotations[v1alpha1.AnnotationBootstrapped] == string(node.UID)
}

// NeedsKeys tells whether the Secrets with keys have to be looked at: a pod may come
// to be that mounts them.
func NeedsKeys(in Input) bool {
	if len(KeysOf(&in.Node.Spec)) == 0 || in.Node.DeletionTimestamp != nil {
		return false
	}
	return in.Node.Status.Plan != nil || in.Node.Status.Phase != v1alpha1.PhaseRunning ||
		!keepsPod(in.Seen.StatefulSet) || in.RenderProblem == "" && FindDrift(in) != nil
}
