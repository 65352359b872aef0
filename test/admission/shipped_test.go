package admission

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// shipped are the objects of a directory of config.
func shipped(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "config", dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there is nothing in config/%s: %v", dir, err)
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := cluster.Objects(bytes.NewReader(content))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, objects...)
	}
	return all
}

// TestShippedManifests: the API server takes everything that is shipped, and knows every
// field of it.
func TestShippedManifests(t *testing.T) {
	c := cluster.Get(t)
	strict := client.NewDryRunClient(client.WithFieldValidation(c.Admin(t), "Strict"))
	// The examples name a namespace that people put the name of theirs in the place of.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sei-nodes"}}
	if err := c.Admin(t).Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"access", "operator"} {
		for _, object := range shipped(t, dir) {
			err := strict.Create(t.Context(), object)
			if err != nil && !apierrors.IsAlreadyExists(err) {
				t.Errorf("config/%s: %s %s: %v", dir, object.GetKind(), object.GetName(), err)
			}
		}
	}
}

// TestShippedSettings: what is shipped can be read, and has access control on.
func TestShippedSettings(t *testing.T) {
	enabled := false
	for _, object := range shipped(t, "operator") {
		if object.GetKind() == "ConfigMap" {
			text, _, _ := unstructured.NestedString(object.Object, "data", "platform.yaml")
			settings, err := platform.Parse("platform.yaml", []byte(text))
			if err != nil {
				t.Error(err)
			}
			enabled = settings.AccessControl.Enabled
		}
	}
	if !enabled {
		t.Error("access control is not on")
	}
}
