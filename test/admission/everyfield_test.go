package admission

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// TestEveryFieldRoundTrips sends objects that together set every field there is,
// through the Go types, and expects them back exactly as they were written: no
// field is dropped, defaulted over or spelt differently by the types or the
// schema.
func TestEveryFieldRoundTrips(t *testing.T) {
	c := cluster.Get(t)
	for kind, typed := range map[string]func() client.Object{
		"SeiNode":           func() client.Object { return &v1alpha1.SeiNode{} },
		"SeiNodeDeployment": func() client.Object { return &v1alpha1.SeiNodeDeployment{} },
		"SeiNodeTask":       func() client.Object { return &v1alpha1.SeiNodeTask{} },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			namespace := c.Namespace(t)
			objects := everyFieldObjects(t, kind)
			assertEveryFieldSet(t, kind, objects)
			for _, want := range objects {
				want.SetNamespace(namespace)
				got := roundTrip(t, c, want, typed())
				for _, part := range []string{"spec", "status"} {
					if diff := cmp.Diff(want.Object[part], got.Object[part]); diff != "" {
						t.Errorf("%s of %s came back changed (-sent +received):\n%s", part, want.GetName(), diff)
					}
				}
			}
		})
	}
}

// roundTrip writes an object through its Go type, the spec as a person and the
// status as the operator, and reads it back.
func roundTrip(t *testing.T, c *cluster.Cluster, want *unstructured.Unstructured, object client.Object) *unstructured.Unstructured {
	t.Helper()
	fill := func() {
		err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(want.Object, object, true)
		if err != nil {
			t.Fatalf("%s does not fit the Go type: %v", want.GetName(), err)
		}
	}
	fill()
	person := client.WithFieldValidation(c.Person(t), "Strict")
	if err := person.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %s: %v", want.GetName(), err)
	}
	created, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		t.Fatalf("%T is not an object", object)
	}
	resourceVersion := object.GetResourceVersion()
	fill()
	object.SetResourceVersion(resourceVersion)
	operator := client.WithFieldValidation(c.Operator(t), "Strict")
	if err := operator.Status().Patch(t.Context(), object, client.MergeFrom(created)); err != nil {
		t.Fatalf("writing the status of %s: %v", want.GetName(), err)
	}
	got := &unstructured.Unstructured{}
	got.SetGroupVersionKind(want.GroupVersionKind())
	if err := person.Get(t.Context(), client.ObjectKeyFromObject(want), got); err != nil {
		t.Fatalf("reading %s: %v", want.GetName(), err)
	}
	return got
}

// assertEveryFieldSet compares the fields that the objects set with those that
// the schema has, so that a new field cannot be forgotten here.
func assertEveryFieldSet(t *testing.T, kind string, objects []*unstructured.Unstructured) {
	t.Helper()
	missing := map[string]bool{}
	for _, f := range fieldsOf(definitions(t)[kind]) {
		missing[f.path] = true
	}
	t.Logf("%d fields", len(missing))
	// Admission refuses this one.
	delete(missing, "spec.template.spec.paused")
	for _, object := range objects {
		for _, part := range []string{"spec", "status"} {
			forget(part, object.Object[part], missing)
		}
	}
	if len(missing) > 0 {
		t.Errorf("no object in everyfield/ sets\n%s", strings.Join(slices.Sorted(maps.Keys(missing)), "\n"))
	}
}

// forget removes the paths that a value sets.
func forget(path string, value any, paths map[string]bool) {
	delete(paths, path)
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			forget(path+"."+name, field, paths)
		}
	case []any:
		for _, item := range v {
			forget(path, item, paths)
		}
	}
}

func everyFieldObjects(t *testing.T, kind string) []*unstructured.Unstructured {
	t.Helper()
	file, err := os.Open(filepath.Join("everyfield", strings.ToLower(kind)+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // only read
	objects, err := cluster.Objects(file)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}
