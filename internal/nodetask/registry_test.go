package nodetask

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// enum are the kinds that the API server takes.
func enum(t *testing.T) []v1alpha1.SeiNodeTaskKind {
	t.Helper()
	content, err := os.ReadFile("../../config/crd/sei.io_seinodetasks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type schema struct {
		Properties map[string]*schema
		Enum       []v1alpha1.SeiNodeTaskKind
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema schema }
			}
		}
	}
	if err := yaml.Unmarshal(content, &crd); err != nil {
		t.Fatal(err)
	}
	kinds := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["kind"].Enum
	if len(kinds) < 9 {
		t.Fatalf("the CRD has the kinds %v", kinds)
	}
	return kinds
}

// samples are the tasks in config/samples.
func samples(t *testing.T) []v1alpha1.SeiNodeTask {
	t.Helper()
	paths, err := filepath.Glob("../../config/samples/seinodetask_*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var found []v1alpha1.SeiNodeTask
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var task v1alpha1.SeiNodeTask
		if err := yaml.UnmarshalStrict(content, &task); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		found = append(found, task)
	}
	return found
}

// spelt is a duration as a person writes it.
func spelt(d time.Duration) string {
	text := strings.TrimSuffix(d.String(), "0s")
	if d%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Every kind that the API takes has a payload, a handler, a default time-out, a file, a
// sample and a page.
func TestEveryKindIsComplete(t *testing.T) {
	kinds := enum(t)
	overview, err := os.ReadFile("../../docs/tasks/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range kinds {
		kind := registry[name]
		if kind == nil {
			t.Errorf("%s has no handler", name)
			continue
		}
		if kind.Name != name || kind.Timeout <= 0 || len(kind.Steps) == 0 {
			t.Errorf("%s is incomplete: %+v", name, kind)
		}
		sampled := 0
		for _, sample := range samples(t) {
			if sample.Spec.Kind == name {
				sampled++
			}
			if has := kind.HasPayload(&sample.Spec); has != (sample.Spec.Kind == name) {
				t.Errorf("a sample of %s has a payload of %s: %t", sample.Spec.Kind, name, has)
			}
		}
		if sampled == 0 {
			t.Errorf("%s has no sample", name)
		}
		page, err := os.ReadFile("../../docs/tasks/" + string(name) + ".md")
		timeout := spelt(kind.Timeout)
		if err != nil || !strings.Contains(string(page), "Default time-out: "+timeout+".") {
			t.Errorf("the page of %s does not say that its default time-out is %s: %v", name, timeout, err)
		}
		if !strings.Contains(string(overview), "["+string(name)+"]("+string(name)+".md)") {
			t.Errorf("the overview does not lead to %s", name)
		}
		if _, err := os.Stat(strings.ToLower(string(name)) + ".go"); err != nil {
			t.Errorf("%s has no file of its own: %v", name, err)
		}
		for i, step := range kind.Steps {
			if (step.Task == "") != (step.Do != nil) || (step.Task != "") != (step.Params != nil) || len(step.Name) == 0 || len(step.Name) > 48 {
				t.Errorf("step %d of %s is neither the sidecar's nor the operator's: %+v", i, name, step)
			}
			if _, first := kind.step(step.Name); first != i {
				t.Errorf("%s has two steps %s", name, step.Name)
			}
		}
	}
	for name := range registry {
		if !slices.Contains(kinds, name) {
			t.Errorf("the API takes no %s", name)
		}
	}
}

// A kind that keeps the pod changes the node, and the one that is urgent does not keep
// it: it must not hold up a plan that it does not wait for.
func TestWhatKindsPromise(t *testing.T) {
	for name, kind := range registry {
		if kind.KeepsPod && !kind.Mutates || kind.Urgent && (kind.KeepsPod || !kind.Mutates) {
			t.Errorf("%s: %+v", name, kind)
		}
	}
}
