// Package admission tests what the API server itself accepts and refuses, by
// the schemas and rules in config/crd.
package admission

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// step is one object of a case: what is sent, and what the answer must be.
type step struct {
	object *unstructured.Unstructured
	// refused is what the refusal must say; empty when the object must be accepted.
	refused string
}

// TestManifests plays every file in testdata: its objects are sent one after
// the other, as an edit when an object of that kind and name was accepted
// before, and the comment on top of each says what the answer must be.
func TestManifests(t *testing.T) {
	c := cluster.Get(t)
	refusals := 0
	for _, path := range manifests(t, "testdata") {
		steps := readCase(t, path)
		accepted, refused := 0, 0
		for _, s := range steps {
			if s.refused == "" {
				accepted++
			} else {
				refused++
			}
		}
		if accepted == 0 || refused == 0 {
			t.Errorf("%s: a case shows what is accepted and what is refused; it has %d and %d", path, accepted, refused)
		}
		refusals += refused
		t.Run(strings.TrimSuffix(strings.TrimPrefix(path, "testdata/"), ".yaml"), func(t *testing.T) {
			t.Parallel()
			play(t, c, steps)
		})
	}
	t.Logf("%d manifests that must be refused", refusals)
}

func play(t *testing.T, c *cluster.Cluster, steps []step) {
	t.Helper()
	person := client.WithFieldValidation(c.Person(t), "Strict")
	namespace := c.Namespace(t)
	for _, s := range steps {
		s.object.SetNamespace(namespace)
		err := send(t, person, s.object)
		if s.refused == "" {
			if err != nil {
				t.Fatalf("%s %s was refused and should be accepted: %v", s.object.GetKind(), s.object.GetName(), err)
			}
			continue
		}
		assertRefused(t, s, err)
	}
}

// send creates the object, or replaces it when it exists.
func send(t *testing.T, c client.Client, object *unstructured.Unstructured) error {
	t.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	switch err := c.Get(t.Context(), client.ObjectKeyFromObject(object), live); {
	case apierrors.IsNotFound(err):
		return c.Create(t.Context(), object)
	case err != nil:
		t.Fatalf("looking for %s %s: %v", object.GetKind(), object.GetName(), err)
	}
	object.SetResourceVersion(live.GetResourceVersion())
	return c.Update(t.Context(), object)
}

func assertRefused(t *testing.T, s step, err error) {
	t.Helper()
	switch {
	case err == nil:
		t.Fatalf("%s %s was accepted and should be refused with %q", s.object.GetKind(), s.object.GetName(), s.refused)
	case !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err):
		t.Fatalf("%s %s failed for another reason than its content: %v", s.object.GetKind(), s.object.GetName(), err)
	case !strings.Contains(err.Error(), s.refused):
		t.Fatalf("%s %s was refused with\n%v\nwhich does not say %q", s.object.GetKind(), s.object.GetName(), err, s.refused)
	}
	// A rule that stumbles over an absent field refuses too, in words that help nobody.
	for _, stumble := range []string{"no such key", "no such overload", "rule evaluation", "compilation"} {
		if strings.Contains(err.Error(), stumble) {
			t.Fatalf("%s %s: a rule failed instead of refusing: %v", s.object.GetKind(), s.object.GetName(), err)
		}
	}
}

// TestEveryRuleIsTested looks every rule's message up in the cases: a rule whose
// refusal nobody has seen may well not work.
func TestEveryRuleIsTested(t *testing.T) {
	var wanted []string
	for _, path := range manifests(t, "testdata") {
		for _, s := range readCase(t, path) {
			if s.refused != "" {
				wanted = append(wanted, s.refused)
			}
		}
	}
	for kind, root := range definitions(t) {
		for _, message := range ruleMessages(root) {
			if !slices.ContainsFunc(wanted, func(w string) bool { return strings.Contains(message, w) }) {
				t.Errorf("%s: no case is refused by the rule that says %q", kind, message)
			}
		}
	}
}

// TestSamples sends every sample, as a person who copies it would.
func TestSamples(t *testing.T) {
	c := cluster.Get(t)
	person := client.WithFieldValidation(c.Person(t), "Strict")
	namespace := c.Namespace(t)
	paths := manifests(t, "../../config/samples")
	if len(paths) == 0 {
		t.Fatal("there are no samples")
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(content, []byte("# ")) {
			t.Errorf("%s does not begin with a comment that says when to use it", path)
		}
		objects, err := cluster.Objects(bytes.NewReader(content))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, object := range objects {
			object.SetNamespace(namespace)
			if err := person.Create(t.Context(), object); err != nil {
				t.Errorf("%s: %s %s: %v", path, object.GetKind(), object.GetName(), err)
			}
		}
	}
}

// readCase reads a file of testdata: documents that begin with "# accepted" or
// "# refused: <what the refusal says>".
func readCase(t *testing.T, path string) []step {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	for _, document := range strings.Split(string(content), "\n---\n")[1:] {
		heading, _, _ := strings.Cut(document, "\n")
		objects, err := cluster.Objects(strings.NewReader(document))
		if err != nil || len(objects) != 1 {
			t.Fatalf("%s: %q is not one object: %v", path, heading, err)
		}
		refused, isRefused := strings.CutPrefix(heading, "# refused: ")
		if !isRefused && !strings.HasPrefix(heading, "# accepted") {
			t.Fatalf("%s: %q says neither accepted nor refused", path, heading)
		}
		if !isRefused {
			refused = ""
		}
		steps = append(steps, step{object: objects[0], refused: refused})
	}
	return steps
}

// manifests are the YAML files below a folder.
func manifests(t *testing.T, dir string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".yaml" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
