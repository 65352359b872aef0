package admission

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// convert makes of something else what has the same JSON.
func convert[To any](t *testing.T, from any) To {
	t.Helper()
	var to To
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, &to)
	}
	if err != nil {
		t.Fatalf("%T is no %T: %v", from, to, err)
	}
	return to
}

// nodePods are the pods that are rendered for the nodes of the samples, which are of every
// mode.
func nodePods(t *testing.T, accessControl bool) map[string]corev1.PodTemplateSpec {
	t.Helper()
	settings := platform.Default()
	settings.AccessControl.Enabled = accessControl
	pods, modes := map[string]corev1.PodTemplateSpec{}, map[v1alpha1.Mode]bool{}
	for _, sample := range shipped(t, "samples") {
		node := &v1alpha1.SeiNode{ObjectMeta: metav1.ObjectMeta{Namespace: "sei-nodes", Name: sample.GetName(), UID: "5e4f0b4c"}}
		switch sample.GetKind() {
		case "SeiNode":
			node.Spec = convert[v1alpha1.SeiNode](t, sample).Spec
		case "SeiNodeDeployment":
			node.Spec = convert[v1alpha1.SeiNodeDeployment](t, sample).Spec.Template.Spec
		default:
			continue
		}
		rendered, err := render.Node(node, settings)
		if err != nil {
			t.Fatal(err)
		}
		pods[fmt.Sprintf("the pod of %s %s", sample.GetKind(), sample.GetName())] = convert[corev1.PodTemplateSpec](t, rendered.StatefulSet.Spec.Template)
		modes[node.Spec.Mode()] = true
	}
	if len(modes) != len(settings.Modes) {
		t.Fatalf("the samples are only of the modes %v", slices.Sorted(maps.Keys(modes)))
	}
	return pods
}

// shippedPods are the pods of what is shipped with a template of them, by the object.
func shippedPods(t *testing.T) map[*unstructured.Unstructured]corev1.PodTemplateSpec {
	t.Helper()
	pods := map[*unstructured.Unstructured]corev1.PodTemplateSpec{}
	for _, dir := range []string{"operator", "access", "rbac"} {
		for _, object := range shipped(t, dir) {
			if template, found, _ := unstructured.NestedMap(object.Object, "spec", "template"); found {
				pods[object] = convert[corev1.PodTemplateSpec](t, template)
			}
		}
	}
	if len(pods) == 0 {
		t.Fatal("no operator is shipped")
	}
	return pods
}

// TestPodsAreRestricted: everything that is shipped or rendered is admitted where the
// restricted Pod Security Standard is enforced.
func TestPodsAreRestricted(t *testing.T) {
	c := cluster.Get(t)
	person := c.Person(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "restricted-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := c.Admin(t).Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	admit := func(template corev1.PodTemplateSpec) error {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "default"}}
		if template.Spec.ServiceAccountName != "" {
			account.Name = template.Spec.ServiceAccountName
		}
		if err := client.IgnoreAlreadyExists(person.Create(t.Context(), account)); err != nil {
			return err
		}
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Namespace, pod.Name = namespace.Name, "pod"
		return person.Create(t.Context(), pod, client.DryRunAll)
	}
	anything := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "anything", Image: "registry.example.com/anything:v1"}}}}
	if err := admit(anything); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSecurity") {
		t.Fatalf("the standard is not enforced: any pod is admitted: %v", err)
	}
	for object, template := range shippedPods(t) {
		if err := admit(template); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	for _, accessControl := range []bool{true, false} {
		for what, template := range nodePods(t, accessControl) {
			if err := admit(template); err != nil {
				t.Errorf("%s, access control %v: %v", what, accessControl, err)
			}
		}
	}
}
