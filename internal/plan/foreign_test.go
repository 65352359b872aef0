package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
)

// editedBy changes the StatefulSet as the API server remembers it of somebody.
func editedBy(manager string, change func(*corev1.PodTemplateSpec)) edit {
	return func(in *Input) {
		kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
		fields := managedfieldstest.NewTestFieldManager(converter(), kind)
		text, err := json.Marshal(in.Want.StatefulSet)
		must(err)
		object := &unstructured.Unstructured{}
		must(object.UnmarshalJSON(text))
		must(fields.Apply(object, render.FieldManager, false))
		set := &appsv1.StatefulSet{}
		must(runtime.DefaultUnstructuredConverter.FromUnstructured(fields.Live().(*unstructured.Unstructured).Object, set))
		change(&set.Spec.Template)
		must(fields.Update(set, manager))
		hasSetKeepingPod(func(s *appsv1.StatefulSet) {
			s.Spec.Template, s.ManagedFields = set.Spec.Template, fields.ManagedFields()
		})(in)
	}
}

func probed(t *corev1.PodTemplateSpec) {
	t.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}, PeriodSeconds: 5}
}

func onHostNetwork(t *corev1.PodTemplateSpec) { t.Spec.HostNetwork = true }

// silently changes the template as admission does, which is not remembered.
func silently(change func(*corev1.PodTemplateSpec)) edit {
	return hasSetKeepingPod(func(s *appsv1.StatefulSet) { change(&s.Spec.Template) })
}

// managed puts an entry there that the API server may have written.
func managed(entry metav1.ManagedFieldsEntry, fields string) edit {
	return hasSetKeepingPod(func(s *appsv1.StatefulSet) {
		if fields != "" {
			entry.FieldsV1 = &metav1.FieldsV1{}
			entry.FieldsV1.SetRawBytes([]byte(fields))
		}
		s.ManagedFields = append(slices.Clone(s.ManagedFields), entry)
	})
}

const ofHostNetwork = `{"f:spec":{"f:template":{"f:spec":{"f:hostNetwork":{}}}}}`

func TestInTemplate(t *testing.T) {
	t.Parallel()
	const probe = `spec.template.spec.containers[name="seid"].livenessProbe`
	for name, test := range map[string]struct {
		in Input
		// note is who put what there; says is what a person is told. Both empty: nothing.
		note    string
		says    []string
		again   bool
		unnamed bool
	}{
		"nothing":                 {in: running()},
		"there is no StatefulSet": {in: running(noSet)},
		"nobody can tell what is wanted": {
			in: running(editedBy("kubectl-edit", probed), unrenderable),
		},
		"the StatefulSet is being deleted": {
			in: running(editedBy("kubectl-edit", probed), hasSetKeepingPod(terminatingSet)),
		},
		"the template is an old one": {in: running(editedBy("kubectl-edit", probed), newTemplate)},
		"a liveness probe": {
			in: running(editedBy("kubectl-edit", probed)), note: "kubectl-edit: " + probe,
			says: []string{"StatefulSet node", "next pod", probe},
		},
		"the network of the machine": {
			in: running(editedBy("kubectl-edit", onHostNetwork)), note: "kubectl-edit: spec.template.spec.hostNetwork",
		},
		"a container": {
			in: running(editedBy("kubectl-edit", func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "theirs", Image: "x"})
			})), note: `kubectl-edit: spec.template.spec.containers[name="theirs"]`,
		},
		"the same again": {
			in: running(editedBy("kubectl-edit", probed), hasSetKeepingPod(func(s *appsv1.StatefulSet) {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.AnnotationRemovedFromTemplate, "kubectl-edit: "+probe)
			})), note: "kubectl-edit: " + probe, again: true, says: []string{"came back", v1alpha1.AnnotationRemovedFromTemplate},
		},
		"something else than the last time": {
			in: running(editedBy("kubectl-edit", probed), hasSetKeepingPod(func(s *appsv1.StatefulSet) {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.AnnotationRemovedFromTemplate, "kubectl-edit: spec.template.spec.hostNetwork")
			})), note: "kubectl-edit: " + probe,
		},
		"by two, in two ways": {
			in: running(editedBy("kubectl-edit", probed), managed(metav1.ManagedFieldsEntry{Manager: "injector"}, ofHostNetwork),
				managed(metav1.ManagedFieldsEntry{Manager: "injector", Operation: metav1.ManagedFieldsOperationApply}, `{"f:spec":{"f:template":{"f:spec":{"f:hostPID":{}}}}}`)),
			note: "injector, kubectl-edit: " + probe + ", spec.template.spec.hostNetwork, spec.template.spec.hostPID",
		},
		"a label of somebody else": {
			in: running(editedBy("kubectl-label", func(t *corev1.PodTemplateSpec) { t.Labels["example.com/mine"] = "x" })),
		},
		"somebody wants what we want": {
			in: running(managed(metav1.ManagedFieldsEntry{Manager: "kubectl"}, `{"f:spec":{"f:template":{"f:spec":{"f:terminationGracePeriodSeconds":{}}}}}`)),
		},
		"the status is of others":       {in: running(managed(metav1.ManagedFieldsEntry{Manager: "kube-controller-manager", Subresource: "status"}, ofHostNetwork))},
		"what we patched is ours":       {in: running(managed(metav1.ManagedFieldsEntry{Manager: render.FieldManager}, ofHostNetwork))},
		"an entry without fields":       {in: running(managed(metav1.ManagedFieldsEntry{Manager: "kubectl"}, ""))},
		"an entry that is unreadable":   {in: running(managed(metav1.ManagedFieldsEntry{Manager: "kubectl"}, `{"f:template":{"nonsense":{}}}`))},
		"an entry about something else": {in: running(managed(metav1.ManagedFieldsEntry{Manager: "kubectl"}, `{"f:spec":{"f:replicas":{}}}`))},

		"a liveness probe of a policy": {
			in: running(silently(probed)), unnamed: true, note: "seid has a liveness probe, which would kill a node that is held, halted or syncing",
			says: []string{"StatefulSet node", "next pod", "policy"},
		},
		"a container and a volume of a policy": {
			in: running(silently(func(t *corev1.PodTemplateSpec) {
				harmless := *t.Spec.Containers[0].DeepCopy()
				harmless.Name, harmless.VolumeMounts, harmless.ReadinessProbe = "theirs", nil, nil
				t.Spec.InitContainers = append(t.Spec.InitContainers, harmless)
				t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: "more"})
			})), unnamed: true, note: "the container theirs is not of the operator, the volume more is not of the operator",
		},
		"defaults of the API server": {
			in: running(silently(func(t *corev1.PodTemplateSpec) {
				t.Spec.DNSPolicy, t.Spec.SchedulerName = corev1.DNSClusterFirst, "default-scheduler"
			})),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := InTemplate(test.in)
			if test.note == "" {
				if got != nil {
					t.Errorf("it is %+v", got)
				}
				return
			}
			if got == nil || got.Note != test.note || got.Again != test.again || (got.Fields == nil) != test.unnamed || got.Stays() != (test.again || test.unnamed) {
				t.Fatalf("it is %+v, want %q, again %t", got, test.note, test.again)
			}
			saysAll(t, got.Message, append(test.says, test.note))
			if drift := FindDrift(test.in); drift != nil {
				t.Errorf("it is taken for drift: %+v", drift)
			}
		})
	}
}

// What is removed is what was added, and nothing of ours.
func TestOnlyWhatOthersAddedIsForeign(t *testing.T) {
	t.Parallel()
	in := running(editedBy("kubectl-edit", func(t *corev1.PodTemplateSpec) {
		probed(t)
		onHostNetwork(t)
		t.Annotations["example.com/mine"] = "x"
	}))
	for path := range InTemplate(in).Fields.All() {
		if text := path.String(); !strings.Contains(text, "livenessProbe") && text != ".spec.template.spec.hostNetwork" {
			t.Errorf("%s would be removed", text)
		}
	}
}
