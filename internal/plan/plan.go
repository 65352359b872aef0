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
	"github.com/sei-operator/sei-operator/internal/owned"
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
	// ExpansionRefused is what the API server said when the claim was to grow in this
	// reconcile.
	ExpansionRefused string
}

// Observation is the world of one node, read once.
type Observation struct {
	Now         time.Time
	StatefulSet *appsv1.StatefulSet
	Service     *corev1.Service
	NodeConfig  *corev1.ConfigMap
	ProxyConfig *corev1.ConfigMap
	Claim       *corev1.PersistentVolumeClaim
	// ReclaimPolicy says what becomes of the volume when its claim goes. It is looked
	// for only while the claim is being deleted.
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy
	// ClaimOwner is the name of another SeiNode, which exists, that the labels of the
	// claim name.
	ClaimOwner string
	// Pod is the one with the name that the StatefulSet gives.
	Pod *corev1.Pod
	// OtherPods are the names of living pods, other than Pod, that mount the claim.
	OtherPods []string
	Sidecar   Sidecar
	// Owned tells what is ours of the objects above.
	Owned *owned.Look
	// Keys are what is known of the Secrets that the spec names; one that nobody
	// looked at in this reconcile is absent.
	Keys map[KeyKind]Key
	// Access is how it stands with the way in; nil: access control is off.
	Access *Access
	// Task is the SeiNodeTask that works on the node; nil: none does.
	Task *RunningTask
	// Leases are the reservations that the node holds or wishes to, by name. One that
	// is absent does not exist.
	Leases map[string]Lease
	// Tip is a height that the chain is known to have reached, by nodes of our own that
	// verified it, and Witnesses are RPC servers of ours. They are looked for where a
	// node signs.
	Tip       int64
	Witnesses []string
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

// Bootstrapped tells whether this node, and no other of its name, finished its
// bootstrap on the volume that is there. The mark is on the claim; an imported claim
// is never written, and its mark is on the Lease that reserves it.
func Bootstrapped(in Input) bool {
	return bootstrappedBy(in) == string(in.Node.UID)
}

// bootstrappedBy is the uid of the SeiNode that was brought up on the volume; empty:
// none was.
func bootstrappedBy(in Input) string {
	claim := in.Seen.Claim
	switch {
	case claim == nil:
		return ""
	case imported(in.Node):
		return string(in.Seen.Leases[VolumeWish(in).Name].Bootstrapped)
	}
	return claim.Annotations[v1alpha1.AnnotationBootstrapped]
}
