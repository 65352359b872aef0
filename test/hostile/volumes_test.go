package hostile_test

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/rig"
)

func sized(size, class string) func(*v1alpha1.SeiNode) {
	return func(n *v1alpha1.SeiNode) {
		n.Spec.DataVolume = &v1alpha1.DataVolumeSpec{Size: new(resource.MustParse(size)), StorageClassName: class}
	}
}

// grow asks for a larger volume.
func (s *story) grow(size string) {
	s.t.Helper()
	s.edit(func(n *v1alpha1.SeiNode) { n.Spec.DataVolume.Size = new(resource.MustParse(size)) })
}

// A volume grows under the node that runs on it.
func TestTheVolumeGrows(t *testing.T) {
	s := alone(t)
	s.up(sized("10Gi", "standard"))
	pod, claim := s.pod(), s.claim()
	s.grow("20Gi")
	cluster.Eventually(t, s.person, s.claimName(), "the claim to have grown", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Status.Capacity.Storage().String() == "20Gi"
	})
	s.until("the volume to be bound again", func(n *v1alpha1.SeiNode) bool {
		return rig.IsReady(n) && rig.Has(v1alpha1.ConditionDataVolumeReady, metav1.ConditionTrue, v1alpha1.ReasonBound)(n)
	})
	s.podStays(pod.UID)
	if now := s.claim(); now.UID != claim.UID {
		t.Error("the claim is another one")
	}
	s.clear()
}

// A volume that cannot grow does not stop the node, and is told of: the storage class
// does not allow it, or the storage itself does not.
func TestTheVolumeCannotGrow(t *testing.T) {
	for name, c := range map[string]struct {
		class string
		spoil func(*story)
	}{
		"the class does not allow it": {class: "fixed", spoil: func(*story) {}},
		"the storage fails": {class: "standard", spoil: func(s *story) {
			change(s, s.claimName(), &corev1.PersistentVolumeClaim{}, func(c *corev1.PersistentVolumeClaim) {
				c.Annotations["lab.sei.io/resize"] = "fails"
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := alone(t)
			s.up(sized("10Gi", c.class))
			pod := s.pod()
			c.spoil(s)
			s.grow("20Gi")
			node := s.says(v1alpha1.ConditionDataVolumeReady, metav1.ConditionFalse, v1alpha1.ReasonExpansionFailed, "20Gi", s.claimName().Name)
			if !rig.IsReady(node) {
				t.Errorf("the node is not ready: %s", rig.Condition(node, v1alpha1.ConditionReady).Message)
			}
			s.podStays(pod.UID)
			s.clear()
		})
	}
}

// foreignClaim is a claim that somebody made.
func (s *story) foreignClaim(name string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	s.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.name.Namespace, Name: name, Labels: map[string]string{"owner": "somebody"}}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	for _, f := range change {
		f(claim)
	}
	s.create(claim)
	return claim
}

func imports(claim string) func(*v1alpha1.SeiNode) {
	return func(n *v1alpha1.SeiNode) {
		n.Spec.DataVolume = &v1alpha1.DataVolumeSpec{Import: &v1alpha1.VolumeImport{PVCName: claim}}
	}
}

// A claim that is imported is used as it is, and is nobody else's meanwhile. It is not
// changed and not deleted.
func TestAnImportedClaimIsUsedAndLeftAsItIs(t *testing.T) {
	s := alone(t)
	s.createKeys()
	s.create(s.validator(imports("theirs")))
	s.says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonImportNotFound, "theirs", s.name.Namespace)
	claim := s.foreignClaim("theirs")
	node := s.ready()
	if node.Status.DataVolume == nil || node.Status.DataVolume.UID != claim.UID {
		t.Errorf("the volume is %+v and not %s", node.Status.DataVolume, claim.UID)
	}
	second := s.story(t, s.name.Namespace, "beta")
	second.createKeys()
	second.create(second.validator(imports("theirs")))
	second.says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonVolumeInUse, s.name.Name)
	s.delete(s.name, &v1alpha1.SeiNode{})
	s.gone()
	second.ready()
	second.delete(second.name, &v1alpha1.SeiNode{})
	second.gone()
	after := &corev1.PersistentVolumeClaim{}
	if !s.get(s.key("theirs"), after) || after.UID != claim.UID || after.DeletionTimestamp != nil {
		t.Fatalf("the claim was deleted: %+v", after.ObjectMeta)
	}
	if !maps.Equal(after.Labels, claim.Labels) || after.Annotations["sei.io/bootstrapped"] != "" || len(after.OwnerReferences) > 0 {
		t.Errorf("the claim was changed: %+v", after.ObjectMeta)
	}
	s.delete(s.key("theirs"), &corev1.PersistentVolumeClaim{})
}

// A claim that cannot be used is not, and it is told why.
func TestAClaimThatCannotBeImported(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*story, *corev1.PersistentVolumeClaim)
		reason v1alpha1.ConditionReason
		says   string
	}{
		"it is a block device": {func(_ *story, c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
		}, v1alpha1.ReasonImportInvalid, "block"},
		"it can only be read": {func(_ *story, c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
		}, v1alpha1.ReasonImportInvalid, "read"},
		"it is the volume of another node": {func(s *story, c *corev1.PersistentVolumeClaim) {
			owner := s.story(s.t, s.name.Namespace, "owner")
			owner.createKeys()
			owner.create(owner.validator(func(n *v1alpha1.SeiNode) { n.Spec.Paused = true }))
			c.Labels = map[string]string{v1alpha1.LabelNode: "owner"}
		}, v1alpha1.ReasonImportInvalid, "owner"},
	} {
		t.Run(name, func(t *testing.T) {
			s := alone(t)
			s.createKeys()
			s.foreignClaim("theirs", func(claim *corev1.PersistentVolumeClaim) { c.change(s, claim) })
			s.create(s.validator(imports("theirs")))
			s.says(v1alpha1.ConditionReady, metav1.ConditionFalse, c.reason, c.says)
			if s.get(s.podName(), &corev1.Pod{}) {
				t.Error("there is a pod all the same")
			}
		})
	}
}

// A claim that a pod uses is imported when that pod is gone.
func TestAnImportWaitsForThePodThatUsesTheClaim(t *testing.T) {
	s := alone(t)
	s.createKeys()
	s.foreignClaim("theirs")
	s.create(podOn(s.key("somebody"), "theirs"))
	cluster.Eventually(t, s.person, s.key("somebody"), "the pod to run", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	s.create(s.validator(imports("theirs")))
	s.says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonVolumeInUse, "somebody")
	s.delete(s.key("somebody"), &corev1.Pod{})
	s.ready()
	s.clear()
	s.delete(s.key("theirs"), &corev1.PersistentVolumeClaim{})
}

// podOn is a pod of somebody else that mounts a claim.
func podOn(name types.NamespacedName, claim string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "use", Image: "registry.example.com/use:v1"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
	}
}

// The claim of a paused validator is deleted. No other is made until a person says so,
// naming the one that is lost.
func TestALostVolumeIsReplacedOnlyWhenAPersonSaysSo(t *testing.T) {
	s := alone(t)
	s.up()
	claim := s.claim()
	setPaused(true)(s)
	s.until("the node to be paused", isPaused)
	s.delete(s.claimName(), &corev1.PersistentVolumeClaim{})
	s.says(v1alpha1.ConditionDataVolumeReady, metav1.ConditionFalse, v1alpha1.ReasonDataVolumeLost)
	setPaused(false)(s)
	node := s.says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDataVolumeLost, v1alpha1.AnnotationAcceptNewVolume+"="+string(claim.UID))
	if rig.Condition(node, v1alpha1.ConditionStalled).Status != metav1.ConditionTrue {
		t.Error("it is not stalled")
	}
	s.annotate(v1alpha1.AnnotationAcceptNewVolume, "another uid")
	s.looksAgain()
	if s.get(s.claimName(), &corev1.PersistentVolumeClaim{}) {
		t.Error("a claim was made that nobody asked for")
	}
	s.annotate(v1alpha1.AnnotationAcceptNewVolume, string(claim.UID))
	s.ready()
	if now := s.claim(); now.UID == claim.UID {
		t.Error("the claim is the old one")
	}
	s.clear()
}
