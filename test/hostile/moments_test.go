package hostile_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/rig"
)

// moment is a step of an operation at which it can be held.
type moment struct {
	name string
	// shape changes the node before it is made.
	shape func(*story, *v1alpha1.SeiNode)
	// begin is what a person does to begin the operation, if not what is usual.
	begin func(*story)
	// hold has the operation stop there. It is called before the operation begins;
	// reached returns when it is there, and release lets it go on.
	hold func(*story) (reached, release func())
}

// The images of a node that is updated.
const (
	otherImage  = "registry.example.com/seid:v2"
	thirdImage  = "registry.example.com/seid:v3"
	brokenImage = "registry.example.com/seid:pull-fails"
)

// atTask is while the sidecar carries out a task.
func atTask(task string) moment {
	return moment{name: task, hold: func(s *story) (reached, release func()) {
		ctx, cancel := s.within()
		// Those that an earlier operation had it carry out do not count.
		for _, entry := range s.sidecar.Ledger() {
			if entry.Type == task {
				if _, err := s.sidecar.WaitCall(ctx, task); err != nil {
					s.t.Fatal(err)
				}
			}
		}
		unblock := s.sidecar.Block(task)
		return func() {
				defer cancel()
				if _, err := s.sidecar.WaitCall(ctx, task); err != nil {
					s.t.Fatal(err)
				}
			}, func() {
				cancel()
				unblock()
			}
	}}
}

// written is a write of the operator.
type written struct{ verb, kind, subresource string }

// before is when the operator is about to write something, after when it has done so
// and does not know yet.
func before(name string, w written) moment { return atWrite(name, false, w) }

func after(name string, w written) moment { return atWrite(name, true, w) }

func atWrite(name string, after bool, w written) moment {
	return moment{name: name, hold: func(s *story) (reached, release func()) {
		arrived, pass := s.turnstile.hold(after, func(got kube.Write) bool {
			return written{got.Verb, got.Kind, got.Subresource} == w && got.Key == s.objectOf(w.kind)
		})
		return func() {
			ctx, cancel := s.within()
			defer cancel()
			select {
			case <-arrived:
			case <-ctx.Done():
				s.t.Fatalf("the operator did not %s %s %s", w.verb, w.kind, w.subresource)
			}
		}, pass
	}}
}

// objectOf is the object of a kind that belongs to the node.
func (s *story) objectOf(kind string) types.NamespacedName {
	switch kind {
	case "ConfigMap":
		return s.key(s.name.Name + "-config")
	case "PersistentVolumeClaim":
		return s.claimName()
	case "Pod":
		return s.podName()
	case "Lease":
		// The one that is deleted with its node: that of a signing key stays, for what it knows.
		return s.leaseOf(v1alpha1.ReservationNodeKey, s.nodeKey.NodeID(s.t))
	default:
		return s.name
	}
}

// leaseName is where the signing key is reserved: the same for all copies of it.
func (s *story) leaseName() types.NamespacedName {
	return s.leaseOf(v1alpha1.ReservationSigningKey, s.signing.Public())
}

func (s *story) leaseOf(kind v1alpha1.ReservationKind, identity string) types.NamespacedName {
	sum := sha256.Sum256([]byte(s.chain + "\n" + string(kind) + "\n" + identity))
	return types.NamespacedName{Namespace: rig.Namespace, Name: "sei-" + strings.ToLower(string(kind)) + "-" + hex.EncodeToString(sum[:20])}
}

// when is when the node says something, which holds for as long as nobody releases it.
func when(name string, kind v1alpha1.ConditionType, reason v1alpha1.ConditionReason, release func(*story)) moment {
	return moment{name: name, hold: func(s *story) (reached, free func()) {
		return func() {
			s.until(name, rig.Has(kind, metav1.ConditionFalse, reason))
		}, func() { release(s) }
	}}
}

// unsafeToStop is while seid must not be stopped, and the operator waits. It is so from
// its start, so that the operator knows before somebody asks for a stop.
func unsafeToStop(says func(*v1alpha1.SeiNode) bool) moment {
	return moment{
		name: "waiting for a safe stop",
		shape: func(s *story, _ *v1alpha1.SeiNode) {
			s.sidecar.SetSeid(func(seid *api.Seid) { seid.SafeToStop, seid.UnsafeBecause = false, "it just started" })
		},
		hold: func(s *story) (reached, release func()) {
			return func() { s.until("the operator to wait for a safe stop", says) }, func() { s.sidecar.SetSeid(nil) }
		},
	}
}

const slowTermination = "lab.sei.io/termination"

// terminating is while the pod ends.
func terminating() moment {
	return moment{name: "pod terminating", hold: func(s *story) (reached, release func()) {
		change(s, s.podName(), &corev1.Pod{}, func(p *corev1.Pod) { p.Annotations[slowTermination] = "slow" })
		return func() {
			cluster.Eventually(s.t, s.person, s.podName(), "the pod to be ending", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
		}, s.hurry
	}}
}

// hurry has the pod end that takes its time.
func (s *story) hurry() {
	s.t.Helper()
	change(s, s.podName(), &corev1.Pod{}, func(p *corev1.Pod) { delete(p.Annotations, slowTermination) })
}

// pendingPeer is while a node waits for the id of a peer that never comes up.
func pendingPeer() moment {
	label := func(s *story) map[string]string { return map[string]string{"example.com/peers-of": s.name.Name} }
	stranger := func(s *story) types.NamespacedName { return s.key(s.name.Name + "-peer") }
	return moment{
		name: plan.TaskDiscoverPeers,
		shape: func(s *story, n *v1alpha1.SeiNode) {
			n.Spec.Peers = []v1alpha1.PeerSource{{Label: &v1alpha1.LabelPeers{
				Selector: map[string]v1alpha1.LabelValue{"example.com/peers-of": v1alpha1.LabelValue(s.name.Name)},
			}}}
		},
		hold: func(s *story) (reached, release func()) {
			peer := rig.Validator(stranger(s), s.chain) // its keys are nowhere
			peer.Labels = label(s)
			s.create(peer)
			return func() {
				s.until("the peer to be waited for", func(n *v1alpha1.SeiNode) bool { return runs(n, plan.TaskDiscoverPeers) })
			}, func() { s.delete(stranger(s), &v1alpha1.SeiNode{}) }
		},
	}
}

// runs tells whether a task of the node's plan is under way.
func runs(n *v1alpha1.SeiNode, task string) bool {
	if n.Status.Plan == nil {
		return false
	}
	for i := range n.Status.Plan.Tasks {
		if n.Status.Plan.Tasks[i].Type == task && n.Status.Plan.Tasks[i].Status == v1alpha1.PlanTaskRunning {
			return true
		}
	}
	return false
}
