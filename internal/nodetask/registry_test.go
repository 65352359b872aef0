package nodetask

import (
	"fmt"
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
	kinds, tasks := enum(t), samples(t)
	overview := read(t, "../../docs/tasks/README.md")
	for _, name := range kinds {
		kind := registry[name]
		if kind == nil {
			t.Errorf("%s has no handler", name)
			continue
		}
		if kind.Name != name || kind.Timeout <= 0 || len(kind.Steps) == 0 {
			t.Errorf("%s is incomplete: %+v", name, kind)
		}
		checkSteps(t, kind)
		checkSamples(t, kind, tasks)
		page := read(t, "../../docs/tasks/"+string(name)+".md")
		if !strings.Contains(page, "Default time-out: "+spelt(kind.Timeout)+".") {
			t.Errorf("the page of %s does not say that its default time-out is %s", name, spelt(kind.Timeout))
		}
		if row := fmt.Sprintf("[%s](%s.md)", name, name); !strings.Contains(overview, row) {
			t.Errorf("the overview does not lead to %s", name)
		}
		read(t, strings.ToLower(string(name))+".go")
	}
	for name := range registry {
		if !slices.Contains(kinds, name) {
			t.Errorf("the API takes no %s", name)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(content)
}

func checkSteps(t *testing.T, kind *Kind) {
	t.Helper()
	for i, step := range kind.Steps {
		if (step.Task == "") != (step.Do != nil) || (step.Task != "") != (step.Params != nil) || len(step.Name) == 0 || len(step.Name) > 48 {
			t.Errorf("step %d of %s is neither the sidecar's nor the operator's: %+v", i, kind.Name, step)
		}
		if _, first := kind.step(step.Name); first != i {
			t.Errorf("%s has two steps %s", kind.Name, step.Name)
		}
	}
}

func checkSamples(t *testing.T, kind *Kind, tasks []v1alpha1.SeiNodeTask) {
	t.Helper()
	sampled := 0
	for _, sample := range tasks {
		if sample.Spec.Kind == kind.Name {
			sampled++
		}
		if has := kind.HasPayload(&sample.Spec); has != (sample.Spec.Kind == kind.Name) {
			t.Errorf("a sample of %s has a payload of %s: %t", sample.Spec.Kind, kind.Name, has)
		}
	}
	if sampled == 0 {
		t.Errorf("%s has no sample", kind.Name)
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
