package fleet

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// fill sets everything in a value to something that is not zero, and counts the fields.
func fill(t *testing.T, v reflect.Value, path string, fields *int) {
	t.Helper()
	switch typed := v.Addr().Interface().(type) {
	case *resource.Quantity:
		*typed = resource.MustParse("17Gi")
		return
	case *metav1.Time:
		*typed = metav1.Unix(1_800_000_000, 0)
		return
	case *intstr.IntOrString:
		*typed = intstr.FromInt32(7)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text of " + path)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), path, fields)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), path, fields)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, path+" key", fields)
		fill(t, value, path, fields)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			*fields++
			fill(t, v.Field(i), path+"."+v.Type().Field(i).Name, fields)
		}
	default:
		t.Fatalf("nobody knows how to fill %s, a %s", path, v.Type())
	}
}

// Every field of a template reaches a node, also one that is added later.
func TestEveryFieldOfTheTemplateReachesANode(t *testing.T) {
	fleet, fields := &v1alpha1.SeiNodeDeployment{}, 0
	fleet.Name, fleet.Namespace, fleet.UID = "fleet", "test", "uid"
	fill(t, reflect.ValueOf(&fleet.Spec.Template).Elem(), "template", &fields)
	fleet.Spec.Template.Spec.Paused = false // admission refuses it
	t.Logf("%d fields", fields)

	template, err := templateOf(fleet)
	if err != nil {
		t.Fatal(err)
	}
	node := &v1alpha1.SeiNode{}
	text, err := json.Marshal(template.node(fleet, 3, "revision"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, node); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fleet.Spec.Template.Spec, node.Spec); diff != "" {
		t.Errorf("the spec of the node is not the one of the template (-template +node):\n%s", diff)
	}
	for key, value := range fleet.Spec.Template.Metadata.Labels {
		if node.Labels[key] != string(value) {
			t.Errorf("the label %s is %q", key, node.Labels[key])
		}
	}
	for key, value := range fleet.Spec.Template.Metadata.Annotations {
		if node.Annotations[key] != value {
			t.Errorf("the annotation %s is %q", key, node.Annotations[key])
		}
	}
}

// What a node was given is read back from it as the same template.
func TestATemplateIsReadBackAsItWasGiven(t *testing.T) {
	fleet, fields := &v1alpha1.SeiNodeDeployment{}, 0
	fleet.Name, fleet.Namespace, fleet.UID, fleet.Spec.Paused = "fleet", "test", "uid", true
	fill(t, reflect.ValueOf(&fleet.Spec.Template).Elem(), "template", &fields)
	template, err := templateOf(fleet)
	if err != nil {
		t.Fatal(err)
	}
	given, err := template.revision()
	if err != nil {
		t.Fatal(err)
	}
	back, err := templateIn(template.node(fleet, 0, given)).revision()
	if err != nil || back != given {
		t.Errorf("it was %s and is %s (%v)", given, back, err)
	}
}

// Any change of a template is another revision.
func TestARevisionIdentifiesATemplate(t *testing.T) {
	seen := map[string]string{}
	for name, change := range map[string]func(*v1alpha1.SeiNodeTemplate){
		"nothing": func(*v1alpha1.SeiNodeTemplate) {},
		"image":   func(s *v1alpha1.SeiNodeTemplate) { s.Spec.Image = "b" },
		"a label": func(s *v1alpha1.SeiNodeTemplate) {
			s.Metadata = &v1alpha1.TemplateMetadata{Labels: map[string]v1alpha1.LabelValue{"a": "b"}}
		},
		"annotations": func(s *v1alpha1.SeiNodeTemplate) {
			s.Metadata = &v1alpha1.TemplateMetadata{Annotations: map[string]string{"a": "b"}}
		},
		"an override": func(s *v1alpha1.SeiNodeTemplate) { s.Spec.Overrides = v1alpha1.Overrides{"app.a": "b"} },
	} {
		fleet := &v1alpha1.SeiNodeDeployment{}
		fleet.Spec.Template.Spec = v1alpha1.SeiNodeSpec{ChainID: "chain", Image: "a", FullNode: &v1alpha1.FullNodeSpec{}}
		change(&fleet.Spec.Template)
		template, err := templateOf(fleet)
		if err != nil {
			t.Fatal(err)
		}
		revision, err := template.revision()
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := seen[revision]; taken {
			t.Errorf("%s and %s have the same revision", name, other)
		}
		seen[revision] = name
		fleet.Spec.Paused, fleet.Spec.Replicas = true, new(int32(7))
		if again, err := templateOf(fleet); err != nil || fmt.Sprint(must(t, again)) != revision {
			t.Errorf("%s: what is no part of the template changed the revision (%v)", name, err)
		}
	}
}

func must(t *testing.T, template Template) string {
	t.Helper()
	revision, err := template.revision()
	if err != nil {
		t.Fatal(err)
	}
	return revision
}
