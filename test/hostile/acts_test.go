package hostile_test

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/rig"
)

// act is what somebody does to a node in the middle of an operation.
type act struct {
	name string
	// do does it, and tells whether there was something to do it to.
	do func(*story) bool
	// explained is how the node may explain itself until somebody repairs it; nil: it
	// needs nobody.
	explained *explanation
	// repair undoes it.
	repair func(*story)
	// check looks whether it was put right, when a node runs again.
	check func(*story)
	// goal is the end that it has, if not that of the operation.
	goal goal
	// loses: it is the end of the volume.
	loses bool
	// steals: another node is after the key.
	steals bool
}

// explanation is what a condition says, and that it says what to do.
type explanation struct {
	condition v1alpha1.ConditionType
	reasons   []v1alpha1.ConditionReason
	says      []string // one of these is what to do
}

// given tells whether a node explains itself so.
func (e *explanation) given(n *v1alpha1.SeiNode) bool {
	c := rig.Condition(n, e.condition)
	return c.Status != metav1.ConditionTrue && c.ObservedGeneration == n.Generation &&
		slices.Contains(e.reasons, v1alpha1.ConditionReason(c.Reason)) &&
		slices.ContainsFunc(e.says, func(word string) bool { return strings.Contains(c.Message, word) })
}

// secretGone and keyChanged are how a node explains what is wrong with a key.
func secretGone(kind v1alpha1.ConditionType) *explanation {
	return &explanation{kind, []v1alpha1.ConditionReason{v1alpha1.ReasonSecretNotFound}, []string{"create it"}}
}

func keyChanged(kind v1alpha1.ConditionType) *explanation {
	return &explanation{kind, []v1alpha1.ConditionReason{v1alpha1.ReasonKeyIdentityChanged}, []string{v1alpha1.AnnotationAcceptKey}}
}

// volumeGone is how a node explains that its volume is gone or about to go.
var volumeGone = &explanation{
	v1alpha1.ConditionDataVolumeReady,
	[]v1alpha1.ConditionReason{v1alpha1.ReasonDataVolumeLost, v1alpha1.ReasonDataVolumeTerminating},
	[]string{v1alpha1.AnnotationAcceptNewVolume, v1alpha1.AnnotationAcceptVolumeLoss},
}

func acts() []act {
	return []act{
		{name: "delete SeiNode", goal: deleted, do: func(s *story) bool { return s.delete(s.name, &v1alpha1.SeiNode{}) }},
		{
			name: "edit SeiNode",
			do: func(s *story) bool {
				return s.edit(func(n *v1alpha1.SeiNode) { n.Spec.Image = thirdImage })
			},
			check: func(s *story) {
				s.until("the node to run the image of the edit", func(n *v1alpha1.SeiNode) bool {
					return rig.IsReady(n) && n.Status.CurrentImage == thirdImage
				})
			},
		},
		{name: "delete StatefulSet", do: func(s *story) bool { return s.delete(s.name, &appsv1.StatefulSet{}) }, check: tracked},
		{
			name: "edit StatefulSet",
			do: func(s *story) bool {
				return change(s, s.name, &appsv1.StatefulSet{}, func(set *appsv1.StatefulSet) {
					set.Spec.Template.Spec.Containers[0].Image = "registry.example.com/evil:v1"
				})
			},
			check: func(s *story) {
				cluster.Eventually(s.t, s.person, s.name, "the template to be put right", func(set *appsv1.StatefulSet) bool {
					return set.Spec.Template.Spec.Containers[0].Image == s.node().Spec.Image
				})
			},
		},
		{name: "delete pod", do: func(s *story) bool { return s.delete(s.podName(), &corev1.Pod{}) }, check: tracked},
		{
			name: "edit pod",
			do: func(s *story) bool {
				return change(s, s.podName(), &corev1.Pod{}, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "registry.example.com/evil:v1" })
			},
			check: func(s *story) {
				cluster.Eventually(s.t, s.person, s.podName(), "a pod with the image of the spec", func(p *corev1.Pod) bool {
					return p.Spec.Containers[0].Image == s.node().Spec.Image
				})
			},
		},
		{
			name: "edit annotation of pod",
			do: func(s *story) bool {
				return change(s, s.podName(), &corev1.Pod{}, func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationTemplateHash] = "edited" })
			},
		},
		{name: "delete claim", loses: true, do: func(s *story) bool { return s.delete(s.claimName(), &corev1.PersistentVolumeClaim{}) }},
		{
			name: "edit claim",
			do: func(s *story) bool {
				return change(s, s.claimName(), &corev1.PersistentVolumeClaim{}, func(c *corev1.PersistentVolumeClaim) {
					c.Labels[v1alpha1.LabelNode] = "somebody-else"
				})
			},
			explained: &explanation{
				v1alpha1.ConditionDataVolumeReady, []v1alpha1.ConditionReason{v1alpha1.ReasonRetainedVolumeMismatch}, []string{v1alpha1.LabelNode},
			},
			repair: func(s *story) {
				change(s, s.claimName(), &corev1.PersistentVolumeClaim{}, func(c *corev1.PersistentVolumeClaim) {
					c.Labels[v1alpha1.LabelNode] = s.name.Name
				})
			},
		},
		{
			name: "delete signing Secret", do: func(s *story) bool { return s.delete(s.signingSecret(), &corev1.Secret{}) },
			explained: secretGone(v1alpha1.ConditionSigningKeyReady),
			repair:    func(s *story) { s.create(rig.SigningSecret(s.t, s.signingSecret(), s.signing)) },
		},
		{
			name: "edit signing Secret", explained: keyChanged(v1alpha1.ConditionSigningKeyReady),
			do: func(s *story) bool { return s.putSigning(rig.NewKey(s.t)) },
			repair: func(s *story) {
				s.putSigning(s.signing)
				s.accept(s.signing.Public())
			},
		},
		{
			name: "delete node Secret", do: func(s *story) bool { return s.delete(s.nodeSecret(), &corev1.Secret{}) },
			explained: secretGone(v1alpha1.ConditionNodeKeyReady),
			repair:    func(s *story) { s.create(rig.NodeSecret(s.t, s.nodeSecret(), s.nodeKey)) },
		},
		{
			name: "edit node Secret", explained: keyChanged(v1alpha1.ConditionNodeKeyReady),
			do: func(s *story) bool { return s.putNodeKey(rig.NewKey(s.t)) },
			repair: func(s *story) {
				s.putNodeKey(s.nodeKey)
				s.accept(s.nodeKey.NodeID(s.t))
			},
		},
		{
			name: "delete Lease", steals: true,
			do: func(s *story) bool { return s.delete(s.leaseName(), &coordinationv1.Lease{}) },
		},
		{
			name: "edit Lease", steals: true,
			do: func(s *story) bool {
				thief := &v1alpha1.SeiNode{}
				s.get(s.thief(), thief)
				return change(s, s.leaseName(), &coordinationv1.Lease{}, func(l *coordinationv1.Lease) {
					l.Spec.HolderIdentity = new(string(thief.UID))
				})
			},
			check: func(s *story) {
				holder := string(s.node().UID)
				cluster.Eventually(s.t, s.person, s.leaseName(), "the holder to be put right", func(l *coordinationv1.Lease) bool {
					return l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == holder
				})
			},
		},
	}
}

// tracked looks whether the node has the StatefulSet and the pod that are there.
func tracked(s *story) {
	s.t.Helper()
	s.until("the node to have what is there", func(n *v1alpha1.SeiNode) bool {
		set, pod := &appsv1.StatefulSet{}, &corev1.Pod{}
		return rig.IsReady(n) && s.get(s.name, set) && n.Status.StatefulSet != nil && n.Status.StatefulSet.UID == set.UID &&
			s.get(s.podName(), pod) && metav1.IsControlledBy(pod, set)
	})
}

func (s *story) putSigning(key rig.Key) bool {
	s.t.Helper()
	return change(s, s.signingSecret(), &corev1.Secret{}, func(secret *corev1.Secret) {
		secret.Data = rig.SigningSecret(s.t, s.signingSecret(), key).Data
	})
}

func (s *story) putNodeKey(key rig.Key) bool {
	s.t.Helper()
	return change(s, s.nodeSecret(), &corev1.Secret{}, func(secret *corev1.Secret) {
		secret.Data = rig.NodeSecret(s.t, s.nodeSecret(), key).Data
	})
}

// accept accepts a key, and has what failed tried again.
func (s *story) accept(identity string) {
	s.t.Helper()
	s.annotate(v1alpha1.AnnotationAcceptKey, identity)
	s.annotate(v1alpha1.AnnotationRetry, "now")
}

// thief is the name of the node that is after the key.
func (s *story) thief() types.NamespacedName { return s.key(s.name.Name + "-thief") }

// enterThief makes a node that has a copy of the signing key.
func (s *story) enterThief() {
	s.t.Helper()
	name := s.thief()
	s.create(rig.SigningSecret(s.t, s.key(name.Name+"-signing"), s.signing))
	s.create(rig.NodeSecret(s.t, s.key(name.Name+"-node"), rig.NewKey(s.t)))
	s.create(rig.Validator(name, s.chain))
}

// thiefFails looks whether the other node did not get the key, or got it only after
// the first was gone. The witness has seen whether they ever ran at once.
func (s *story) thiefFails(first goal) {
	s.t.Helper()
	if first == deleted {
		cluster.Eventually(s.t, s.person, s.thief(), "the next node to run with the key", rig.IsReady)
	} else {
		cluster.Eventually(s.t, s.person, s.thief(), "the other node to say who has the key", func(n *v1alpha1.SeiNode) bool {
			c := rig.Condition(n, v1alpha1.ConditionSigningKeyReady)
			return c.Reason == string(v1alpha1.ReasonKeyInUse) && strings.Contains(c.Message, s.name.Name)
		})
	}
	other := *s
	other.name = s.thief()
	other.clear()
}
