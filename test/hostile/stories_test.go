package hostile_test

import (
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/rig"
)

// alone is a story in a world of its own.
func alone(t *testing.T) *story {
	t.Helper()
	w := newWorld(t)
	return w.story(t, w.cluster.Namespace(t), "alpha")
}

// ran are the types of all tasks that the sidecar ran on the node's volume.
func (s *story) ran() []string {
	var tasks []string
	for _, entry := range s.sidecar.Ledger() {
		tasks = append(tasks, entry.Type)
	}
	return tasks
}

// says fails unless a condition of the node is as told and its message names all of
// these.
func (s *story) says(kind v1alpha1.ConditionType, status metav1.ConditionStatus, reason v1alpha1.ConditionReason, words ...string) *v1alpha1.SeiNode {
	s.t.Helper()
	node := s.until(string(kind)+" to be "+string(reason), rig.Has(kind, status, reason))
	for _, word := range words {
		if message := rig.Condition(node, kind).Message; !strings.Contains(message, word) {
			s.t.Errorf("%q is not in the message of %s: %s", word, kind, message)
		}
	}
	return node
}

// seenBy has the operator look at the node once more after everything that was on its
// way, and fails if the pod is another one than before.
func (s *story) podStays(pod types.UID) {
	s.t.Helper()
	s.looksAgain()
	if now := s.pod(); now.UID != pod || now.DeletionTimestamp != nil {
		s.t.Errorf("the pod was %s and is %s, deleted at %v", pod, now.UID, now.DeletionTimestamp)
	}
}

// looksAgain has the operator look at the node: an edit of the external address back
// and forth would roll it, but a size smaller than the volume is no change at all.
func (s *story) looksAgain() {
	s.t.Helper()
	for _, value := range []string{"one", "two"} {
		s.annotate("example.com/look", value)
		s.edit(func(n *v1alpha1.SeiNode) { n.Spec.DataVolume = withPolicy(n.Spec.DataVolume) })
		edited := s.node().Generation
		s.until("the operator to look again", func(n *v1alpha1.SeiNode) bool { return n.Status.ObservedGeneration >= edited })
	}
}

// withPolicy is the volume with the other of the two ways to say that it is retained.
func withPolicy(volume *v1alpha1.DataVolumeSpec) *v1alpha1.DataVolumeSpec {
	if volume == nil {
		return &v1alpha1.DataVolumeSpec{DeletionPolicy: v1alpha1.DeletionPolicyRetain}
	}
	changed := volume.DeepCopy()
	if changed.DeletionPolicy == v1alpha1.DeletionPolicyRetain && changed.Size == nil && changed.Import == nil && changed.StorageClassName == "" {
		return nil
	}
	changed.DeletionPolicy = v1alpha1.DeletionPolicyRetain
	return changed
}

// The claim of a running validator is deleted by mistake. Nothing of ours stops the
// pod, which alone keeps the data: no update, no pause, and no deletion of the
// SeiNode, until one of the ways is taken that the condition tells.
func TestTheClaimIsDeletedUnderALivePod(t *testing.T) {
	for name, stop := range map[string]func(*story){
		"pause":  setPaused(true),
		"delete": deleteNode,
	} {
		for way, take := range map[string]func(*story){
			"the volume is retained": retainVolume,
			"the loss is accepted": func(s *story) {
				s.annotate(v1alpha1.AnnotationAcceptVolumeLoss, string(s.claim().UID))
			},
			"the policy is Delete": func(s *story) {
				s.edit(func(n *v1alpha1.SeiNode) {
					n.Spec.DataVolume = &v1alpha1.DataVolumeSpec{DeletionPolicy: v1alpha1.DeletionPolicyDelete}
				})
			},
		} {
			if way == "the policy is Delete" && name != "delete" {
				continue // it says what becomes of the volume when the SeiNode is deleted
			}
			t.Run(name+", and "+way, func(t *testing.T) {
				s := alone(t)
				s.up()
				pod, claim := s.pod(), s.claim()
				s.delete(s.claimName(), &corev1.PersistentVolumeClaim{})
				s.says(v1alpha1.ConditionDataVolumeReady, metav1.ConditionFalse, v1alpha1.ReasonDataVolumeTerminating,
					"Retain", claim.Spec.VolumeName, v1alpha1.AnnotationAcceptVolumeLoss+"="+string(claim.UID))
				stop(s)
				s.until("the operator to look at it", func(n *v1alpha1.SeiNode) bool {
					return n.Status.ObservedGeneration == n.Generation && (n.DeletionTimestamp == nil || n.Status.StopRequestedTime != nil)
				})
				s.podStays(pod.UID)
				if now := s.claim(); now.UID != claim.UID {
					t.Errorf("the claim is another one")
				}
				take(s)
				cluster.Gone[*corev1.Pod](t, s.person, s.podName(), "it may be stopped now")
				if name == "delete" {
					s.gone()
				}
			})
		}
	}
}

// An update would need a new pod, which a claim that is being deleted does not take. So
// it waits, whatever becomes of the claim.
func TestAnUpdateDoesNotCostTheClaim(t *testing.T) {
	s := alone(t)
	s.up()
	pod, claim := s.pod(), s.claim()
	s.delete(s.claimName(), &corev1.PersistentVolumeClaim{})
	s.says(v1alpha1.ConditionDataVolumeReady, metav1.ConditionFalse, v1alpha1.ReasonDataVolumeTerminating)
	setImage(otherImage)(s)
	s.says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDataVolumeTerminating, "Retain")
	retainVolume(s)
	s.annotate(v1alpha1.AnnotationAcceptVolumeLoss, string(claim.UID))
	s.podStays(pod.UID)
	s.clear()
}

// retainVolume does what saves the data: it outlives its claim.
func retainVolume(s *story) {
	s.t.Helper()
	s.cluster.Reclaim(s.t, s.claim().Spec.VolumeName, corev1.PersistentVolumeReclaimRetain)
}

// A restore from a backup loses the status of a running validator.
func TestTheStatusOfARunningValidatorIsEmptied(t *testing.T) {
	s := alone(t)
	before := s.up()
	pod, ran := s.pod(), s.ran()
	empty := client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))
	if err := s.cluster.Operator(t).Status().Patch(t.Context(), s.node(), empty); err != nil {
		t.Fatal(err)
	}
	after := s.ready()
	s.podStays(pod.UID)
	if now := s.ran(); !slices.Equal(now, ran) {
		t.Errorf("the sidecar ran %v, and before %v", now, ran)
	}
	if after.Status.DataVolume == nil || after.Status.DataVolume.UID != before.Status.DataVolume.UID {
		t.Errorf("the volume was %+v and is %+v", before.Status.DataVolume, after.Status.DataVolume)
	}
	if !slices.Equal(sorted(after.Status.Reservations), sorted(before.Status.Reservations)) {
		t.Errorf("reserved were %v and are %v", before.Status.Reservations, after.Status.Reservations)
	}
	s.clear()
}

func sorted(reservations []v1alpha1.Reservation) []v1alpha1.Reservation {
	return slices.SortedFunc(slices.Values(reservations), func(a, b v1alpha1.Reservation) int { return strings.Compare(a.Name, b.Name) })
}

// Another key appears in the Secret of a running validator. It runs on with the old
// one, a new pod does not start with the new one, and restoring the Secret is all it
// takes.
func TestTheSigningSecretIsChangedAndRestored(t *testing.T) {
	s := alone(t)
	s.up()
	pod, other := s.pod(), rig.NewKey(t)
	s.putSigning(other)
	s.says(v1alpha1.ConditionSigningKeyReady, metav1.ConditionFalse, v1alpha1.ReasonKeyIdentityChanged,
		v1alpha1.AnnotationAcceptKey+"="+other.Public())
	s.podStays(pod.UID)
	s.delete(s.podName(), &corev1.Pod{})
	s.says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonKeyIdentityChanged, v1alpha1.AnnotationAcceptKey)
	s.putSigning(s.signing)
	s.ready()
	s.says(v1alpha1.ConditionSigningKeyReady, metav1.ConditionTrue, v1alpha1.ReasonKeyValid)
	s.clear()
}

// The same, and a person wants the new key: it is reserved before anything runs with
// it, and the old one is let go.
func TestTheSigningSecretIsChangedAndTheNewKeyAccepted(t *testing.T) {
	for name, restarted := range map[string]bool{"while the pod runs": false, "after the pod was restarted": true} {
		t.Run(name, func(t *testing.T) {
			s := alone(t)
			node := s.up()
			old, other := s.leaseName(), rig.NewKey(t)
			s.putSigning(other)
			s.says(v1alpha1.ConditionSigningKeyReady, metav1.ConditionFalse, v1alpha1.ReasonKeyIdentityChanged)
			if restarted {
				s.delete(s.podName(), &corev1.Pod{})
				s.says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonKeyIdentityChanged)
			}
			s.annotate(v1alpha1.AnnotationAcceptKey, other.Public())
			s.signing = other
			s.says(v1alpha1.ConditionSigningKeyReady, metav1.ConditionTrue, v1alpha1.ReasonKeyValid)
			if !restarted {
				s.delete(s.podName(), &corev1.Pod{})
			}
			cluster.Eventually(t, s.person, old, "the old key to be let go", func(l *coordinationv1.Lease) bool {
				return nobodys(l) && l.Annotations[v1alpha1.AnnotationSigned] != ""
			})
			s.ready()
			held := s.leases(node.UID)
			if !slices.ContainsFunc(held, func(l coordinationv1.Lease) bool { return l.Name == s.leaseName().Name }) || len(held) != 2 {
				t.Errorf("reserved are %d keys", len(held))
			}
			s.clear()
		})
	}
}

// A validator that is made again takes its retained volume, and nothing of the
// bootstrap is done again that would touch its data.
func TestAValidatorIsMadeAgainOnItsRetainedVolume(t *testing.T) {
	s := alone(t)
	s.up(withStateSync)
	claim, before := s.claim(), len(s.ran())
	s.delete(s.name, &v1alpha1.SeiNode{})
	s.gone()
	s.create(s.validator(withStateSync))
	node := s.ready()
	if now := s.claim(); now.UID != claim.UID || node.Status.DataVolume.UID != claim.UID {
		t.Errorf("the claim was %s and is %s", claim.UID, now.UID)
	}
	for _, task := range s.ran()[before:] {
		if task == plan.TaskConfigureGenesis || task == plan.TaskConfigureStateSync {
			t.Errorf("the sidecar ran %s again", task)
		}
	}
	s.clear()
}

// A retained volume that holds the sign state of another key is not taken.
func TestAValidatorIsMadeAgainWithAnotherKey(t *testing.T) {
	s := alone(t)
	s.up()
	s.delete(s.name, &v1alpha1.SeiNode{})
	s.gone()
	s.putSigning(rig.NewKey(t))
	s.create(s.validator())
	s.says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRetainedVolumeMismatch, "sign state")
	s.putSigning(s.signing)
	s.ready()
	s.clear()
}

// A SeiNode that is made again while its old claim is going waits until it is gone.
func TestAValidatorIsMadeAgainWhileItsOldClaimIsGoing(t *testing.T) {
	s := alone(t)
	s.up(func(n *v1alpha1.SeiNode) {
		n.Spec.DataVolume = &v1alpha1.DataVolumeSpec{DeletionPolicy: v1alpha1.DeletionPolicyDelete}
	})
	claim := s.claim()
	s.witness.askedFor(claim.UID)
	change(s, s.claimName(), claim, func(c *corev1.PersistentVolumeClaim) { c.Finalizers = append(c.Finalizers, "example.com/keep") })
	s.delete(s.name, &v1alpha1.SeiNode{})
	s.gone()
	s.create(s.validator())
	s.says(v1alpha1.ConditionDataVolumeReady, metav1.ConditionFalse, v1alpha1.ReasonDataVolumeTerminating, s.claimName().Name)
	if s.get(s.podName(), &corev1.Pod{}) {
		t.Error("there is a pod on a claim that is being deleted")
	}
	change(s, s.claimName(), &corev1.PersistentVolumeClaim{}, func(c *corev1.PersistentVolumeClaim) {
		c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == "example.com/keep" })
	})
	s.ready()
	if now := s.claim(); now.UID == claim.UID {
		t.Error("the claim is the old one")
	}
	s.clear()
}
