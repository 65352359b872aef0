package operator_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/test/cluster"
)

func TestDeletedServiceAndConfigMapComeBack(t *testing.T) {
	t.Parallel()
	w := &writes{}
	r := newRig(t, w.record)
	r.create(r.fullNode("alpha"))
	before := r.ready("alpha")
	service, config := &corev1.Service{}, &corev1.ConfigMap{}
	r.get("alpha", service)
	r.get("alpha-config", config)
	w.forget()
	r.delete(service)
	cluster.Eventually(t, r.person, r.key("alpha"), "the Service to come back", func(s *corev1.Service) bool { return s.UID != service.UID })
	r.delete(config)
	back := cluster.Eventually(t, r.person, r.key("alpha-config"), "the ConfigMap to come back", func(c *corev1.ConfigMap) bool { return c.UID != config.UID })
	if back.Data["config.json"] != config.Data["config.json"] {
		t.Errorf("it was %s and is %s", config.Data["config.json"], back.Data["config.json"])
	}
	r.settled("alpha")
	if services, configs := w.of("apply", "Service"), w.of("apply", "ConfigMap"); len(services) != 1 || len(configs) != 1 {
		t.Errorf("they were written %d and %d times", len(services), len(configs))
	}
	after := &v1alpha1.SeiNode{}
	r.get("alpha", after)
	if after.Status.StatefulSet.UID != before.Status.StatefulSet.UID || after.Status.LastPlan.StartTime != before.Status.LastPlan.StartTime {
		t.Error("more than that was done")
	}
}

// change edits an object as a person does.
func change[T client.Object](r *rig, object T, edit func(T)) {
	r.t.Helper()
	before := object.DeepCopyObject().(T)
	edit(object)
	if err := r.person.Patch(r.t.Context(), object, client.MergeFrom(before)); err != nil {
		r.t.Fatalf("editing %T: %v", object, err)
	}
}

func strip[T client.Object](object T) {
	object.SetLabels(nil)
	object.SetOwnerReferences(nil)
}

func TestStrippedLabelsAndOwnersAreWrittenAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	node := r.ready("alpha")
	whole := func(object client.Object) bool {
		return object.GetLabels()[v1alpha1.LabelNode] == "alpha" && metav1.IsControlledBy(object, node)
	}
	service, config, set := &corev1.Service{}, &corev1.ConfigMap{}, &appsv1.StatefulSet{}
	r.get("alpha", service)
	r.get("alpha-config", config)
	r.get("alpha", set)
	change(r, service, strip)
	cluster.Eventually(t, r.person, r.key("alpha"), "the Service to be whole", func(s *corev1.Service) bool { return whole(s) && s.UID == service.UID })
	change(r, config, strip)
	cluster.Eventually(t, r.person, r.key("alpha-config"), "the ConfigMap to be whole", func(c *corev1.ConfigMap) bool { return whole(c) && c.UID == config.UID })
	change(r, set, strip)
	r.statefulSet("alpha", "the StatefulSet to be whole", func(s *appsv1.StatefulSet) bool { return whole(s) && s.UID == set.UID })
	after := r.ready("alpha")
	if after.Status.StatefulSet.UID != set.UID {
		t.Error("the StatefulSet was replaced")
	}
}

func TestForeignEditsArePutRight(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	pod := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })

	config := &corev1.ConfigMap{}
	r.get("alpha-config", config)
	document := func(c *corev1.ConfigMap) seid.Intent {
		intent, err := seid.ParseIntent([]byte(c.Data["config.json"]))
		if err != nil {
			t.Fatal(err)
		}
		return intent
	}
	want := document(config)
	change(r, config, func(c *corev1.ConfigMap) {
		c.Data["config.json"] = `{"serial":1,"chainId":"other-1","mode":"fullNode"}`
	})
	cluster.Eventually(t, r.person, r.key("alpha-config"), "the configuration to be put right", func(c *corev1.ConfigMap) bool {
		// The serial is higher, because a pod may have seen the other one.
		return seid.Hash(document(c)) == seid.Hash(want) && document(c).Serial > want.Serial
	})

	set := &appsv1.StatefulSet{}
	r.get("alpha", set)
	change(r, set, func(s *appsv1.StatefulSet) {
		s.Spec.Replicas = new(int32(0))
		s.Labels["example.com/mine"] = "kept"
	})
	r.statefulSet("alpha", "the replicas to be put right", func(s *appsv1.StatefulSet) bool { return *s.Spec.Replicas == 1 && s.Generation > set.Generation })
	r.ready("alpha")
	r.get("alpha", set)
	if set.Labels["example.com/mine"] != "kept" {
		t.Error("a label of somebody else was removed")
	}

	service := &corev1.Service{}
	r.get("alpha", service)
	change(r, service, func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = false })
	cluster.Eventually(t, r.person, r.key("alpha"), "the Service to be put right", func(s *corev1.Service) bool { return s.Spec.PublishNotReadyAddresses })
	if now := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true }); now.UID == pod.UID {
		t.Log("the pod survived being scaled to zero for a moment")
	}
}

// What somebody adds takes nothing from us, and would be in the next pod. It goes, and
// no pod with it. What comes back is told of and left, until a plan comes by.
func TestWhatIsAddedToTheTemplateIsRemovedOnce(t *testing.T) {
	t.Parallel()
	w := &writes{}
	r := newRig(t, w.record)
	r.create(r.fullNode("alpha"))
	node := r.ready("alpha")
	pod := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
	before, set := &appsv1.StatefulSet{}, &appsv1.StatefulSet{}
	r.get("alpha", before)
	tamper := func() {
		r.get("alpha", set)
		change(r, set, func(s *appsv1.StatefulSet) {
			seid := &s.Spec.Template.Spec.Containers[0]
			seid.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"false"}}}}
			s.Spec.Template.Spec.Containers = append(s.Spec.Template.Spec.Containers, corev1.Container{Name: "theirs", Image: image})
			s.Spec.Template.Spec.DNSPolicy = corev1.DNSDefault
			metav1.SetMetaDataAnnotation(&s.Spec.Template.ObjectMeta, "example.com/mine", "kept")
		})
	}
	w.forget()
	tamper()
	clean := r.statefulSet("alpha", "what was added to be removed", func(s *appsv1.StatefulSet) bool {
		return s.Generation > set.Generation && equality.Semantic.DeepEqual(s.Spec.Template.Spec, before.Spec.Template.Spec)
	})
	if note := clean.Annotations[v1alpha1.AnnotationRemovedFromTemplate]; !contains(note, "livenessProbe") || !contains(note, "theirs") || !contains(note, "dnsPolicy") {
		t.Errorf("it says that it removed %q", note)
	}
	if clean.Spec.Template.Annotations["example.com/mine"] != "kept" {
		t.Error("an annotation of somebody else was removed")
	}

	tamper()
	r.until("alpha", "the node to tell", func(n *v1alpha1.SeiNode) bool {
		c := meta.FindStatusCondition(n.Status.Conditions, string(v1alpha1.ConditionNodeUpdateInProgress))
		return has(v1alpha1.ConditionNodeUpdateInProgress, metav1.ConditionFalse, v1alpha1.ReasonForeignTemplate)(n) && contains(c.Message, "livenessProbe")
	})
	r.settled("alpha")
	if r.get("alpha", clean); clean.Generation != set.Generation || len(w.of("apply", "StatefulSet")) != 0 {
		t.Errorf("it changed the StatefulSet again: %v", w.all())
	}
	after := r.ready("alpha")
	if same := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true }); same.UID != pod.UID || after.Status.LastPlan.StartTime != node.Status.LastPlan.StartTime {
		t.Error("more than that was done")
	}

	r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Image = image + ".1" })
	fresh := r.pod("alpha", "a new pod", func(p *corev1.Pod) bool { return p.UID != pod.UID })
	if len(fresh.Spec.Containers) != 1 || fresh.Spec.Containers[0].LivenessProbe != nil {
		t.Errorf("the new pod has %+v", fresh.Spec.Containers)
	}
	r.until("alpha", "nothing to be told any more", has(v1alpha1.ConditionNodeUpdateInProgress, metav1.ConditionFalse, v1alpha1.ReasonUpToDate))
}

func TestARestartOverAConvergedFleetWritesNothing(t *testing.T) {
	t.Parallel()
	w := &writes{}
	r := newRig(t, w.record)
	names := []string{"alpha", "beta", "gamma", "delta", "epsilon"}
	for _, name := range names {
		r.create(r.fullNode(name))
	}
	for _, name := range names {
		r.ready(name)
	}
	r.stop()
	w.forget()
	r.start()
	for _, name := range names {
		r.settled(name)
	}
	// The two edits that make sure that it has looked are written to the status.
	for _, write := range w.all() {
		if write.Subresource != "status" {
			t.Errorf("it wrote: %s", write)
		}
	}
	if count := len(w.all()); count != 2*len(names) {
		t.Errorf("there were %d writes to %d nodes that were edited twice", count, len(names))
	}
}

// A restore from a backup loses the status. Nothing of it is needed.
func TestAnEmptiedStatusIsRebuilt(t *testing.T) {
	t.Parallel()
	w := &writes{}
	r := newRig(t, w.record)
	r.create(r.fullNode("alpha"))
	before := r.ready("alpha")
	pod := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
	ledger := r.ran("alpha")
	w.forget()
	emptied := before.DeepCopy()
	emptied.Status = v1alpha1.SeiNodeStatus{}
	if err := r.cluster.Operator(t).Status().Patch(t.Context(), emptied, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	after := r.until("alpha", "the status to be rebuilt", func(n *v1alpha1.SeiNode) bool { return isReady(n) && n.ResourceVersion != emptied.ResourceVersion })
	if after.Status.Phase != v1alpha1.PhaseRunning || after.Status.StatefulSet.UID != before.Status.StatefulSet.UID || after.Status.DataVolume.UID != before.Status.DataVolume.UID ||
		after.Status.ConfigHash != before.Status.ConfigHash || after.Status.ConfigSerial != before.Status.ConfigSerial || after.Status.LastPlan != nil {
		t.Errorf("it was %+v and is %+v", before.Status, after.Status)
	}
	same := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
	if same.UID != pod.UID || !equal(r.ran("alpha"), ledger) {
		t.Error("something was done to the node")
	}
	for _, write := range w.all() {
		if write.Subresource != "status" {
			t.Errorf("it wrote: %s", write)
		}
	}
}
