package hostile_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/rig"
)

// The witness is worth something: it sees what nobody should do, also when it lasts
// for a moment only and is over when somebody looks.
func TestTheWitnessSeesWhatMustNeverBe(t *testing.T) {
	c := cluster.Get(t)
	s := &story{world: &world{cluster: c, person: c.Person(t)}, t: t, name: named(c.Namespace(t), "alpha"), signing: rig.NewKey(t)}
	elsewhere := c.Namespace(t)
	s.witness = callWitness(t, s.person)
	s.foreignClaim("data")
	s.create(rig.SigningSecret(t, s.key("signing"), s.signing))
	s.create(rig.SigningSecret(t, named(elsewhere, "copy"), s.signing))
	none := s.witness.verdict()
	if len(none) > 0 {
		t.Fatalf("it saw %v", none)
	}

	first, second := podOn(s.key("one"), "data"), podOn(s.key("two"), "data")
	third, fourth := withKey(podOn(s.key("three"), "none"), "signing"), withKey(podOn(named(elsewhere, "four"), "none"), "copy")
	for _, pod := range []*corev1.Pod{first, second, third, fourth} {
		s.create(pod)
	}
	for _, pod := range []*corev1.Pod{first, second, third, fourth} {
		s.delete(named(pod.Namespace, pod.Name), &corev1.Pod{})
		cluster.Gone[*corev1.Pod](t, s.person, named(pod.Namespace, pod.Name), "it was deleted")
	}
	claim := &corev1.PersistentVolumeClaim{}
	s.get(s.key("data"), claim)
	if err := s.person.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	cluster.Gone[*corev1.PersistentVolumeClaim](t, s.person, s.key("data"), "it was deleted")
	s.foreignClaim("data")

	seen := s.witness.verdict()
	for _, want := range []string{
		"two living pods have the claim " + s.key("data").String(),
		"two living pods have the signing key " + s.signing.Public(),
		s.key("data").String() + " was deleted, and nobody asked for that",
		s.key("data").String() + " is another one, and nobody asked for that",
	} {
		if !slices.ContainsFunc(seen, func(violation string) bool { return strings.Contains(violation, want) }) {
			t.Errorf("it did not see that %s; it saw %v", want, seen)
		}
	}
}

// withKey mounts the signing key of a Secret as a node's pod does.
func withKey(pod *corev1.Pod, secret string) *corev1.Pod {
	pod.ObjectMeta = metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}
	pod.Spec.Volumes = []corev1.Volume{{Name: "key", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "key", MountPath: "/config/" + rig.SigningKeyEntry, SubPath: rig.SigningKeyEntry}}
	return pod
}
