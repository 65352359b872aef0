package admission

import (
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

type schema = apiextensionsv1.JSONSchemaProps

// kubernetesTypes are the fields whose content Kubernetes itself declares; what
// is below them is its business.
var kubernetesTypes = map[string]bool{
	"resources": true, "tolerations": true, "affinity": true, "topologySpreadConstraints": true,
	"imagePullSecrets": true, "extraEnv": true, "conditions": true,
}

// boundedElsewhere are the strings without a length of their own.
var boundedElsewhere = map[string]bool{
	// A uid is given by the API server.
	"uid": true,
	// The values of these maps have a rule about their length.
	"overrides{}": true, "podAnnotations{}": true, "annotations{}": true,
	// Kubernetes checks its own labels.
	"nodeSelector{}": true,
}

// field is one field of a kind: its path, its own name and its schema.
type field struct {
	path, name string
	schema     schema
	// isKubernetes tells that the content is a type of Kubernetes itself.
	isKubernetes bool
}

// TestConventions holds the schemas to what an API reviewer would ask for: a
// description that "kubectl explain" can show, a bound on everything, a list
// type on every list, and words on every rule.
func TestConventions(t *testing.T) {
	for kind, root := range definitions(t) {
		t.Run(kind, func(t *testing.T) {
			fields := fieldsOf(root)
			for _, f := range fields {
				checkDescription(t, f)
				if slices.Contains(ruleMessages(f.schema), "") {
					t.Errorf("%s: a rule has no message", f.path)
				}
				if !f.isKubernetes {
					checkBounds(t, f)
				}
			}
			if len(fields) < 10 {
				t.Errorf("only %d fields were found", len(fields))
			}
		})
	}
}

func checkDescription(t *testing.T, f field) {
	t.Helper()
	switch {
	case f.schema.Description == "":
		t.Errorf("%s: no description", f.path)
	case !strings.HasPrefix(f.schema.Description, f.name+" "):
		t.Errorf("%s: the description does not begin with the name of the field: %q", f.path, f.schema.Description)
	case !strings.HasSuffix(f.schema.Description, "."):
		t.Errorf("%s: the description does not end with a full stop: %q", f.path, f.schema.Description)
	}
}

func checkBounds(t *testing.T, f field) {
	t.Helper()
	s := f.schema
	switch s.Type {
	case "string":
		bounded := s.MaxLength != nil || len(s.Enum) > 0 || s.Format != "" || boundedElsewhere[f.name]
		if !bounded {
			t.Errorf("%s: a string without maxLength, enum or format", f.path)
		}
	case "integer":
		if strings.HasPrefix(f.path, "spec.") && s.Minimum == nil {
			t.Errorf("%s: a number without minimum", f.path)
		}
	case "array":
		if s.MaxItems == nil || s.XListType == nil {
			t.Errorf("%s: a list without maxItems or list type", f.path)
		}
		checkBounds(t, field{path: f.path + "[]", name: f.name + "[]", schema: *s.Items.Schema})
	case "object":
		if s.AdditionalProperties == nil {
			return
		}
		if s.MaxProperties == nil {
			t.Errorf("%s: a map without maxProperties", f.path)
		}
		checkBounds(t, field{path: f.path + "{}", name: f.name + "{}", schema: *s.AdditionalProperties.Schema})
	}
}

// definitions reads the schemas in config/crd, by kind.
func definitions(t *testing.T) map[string]schema {
	t.Helper()
	found := map[string]schema{}
	for _, path := range manifests(t, "../../config/crd") {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, definition); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		found[definition.Spec.Names.Kind] = *definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	if len(found) != 3 {
		t.Fatalf("expected three kinds in config/crd, found %d", len(found))
	}
	return found
}

// fieldsOf lists the fields below the spec and the status of a kind.
func fieldsOf(root schema) []field {
	return append(below("spec", "spec", root.Properties["spec"]), below("status", "status", root.Properties["status"])...)
}

func below(path, name string, s schema) []field {
	fields := []field{{path: path, name: name, schema: s, isKubernetes: kubernetesTypes[name]}}
	if kubernetesTypes[name] {
		return fields
	}
	if s.Items != nil {
		s = *s.Items.Schema
	}
	for child, property := range s.Properties {
		fields = append(fields, below(path+"."+child, child, property)...)
	}
	return fields
}

// ruleMessages collects the messages of all rules of a schema.
func ruleMessages(s schema) []string {
	var messages []string
	for _, rule := range s.XValidations {
		messages = append(messages, rule.Message)
	}
	for _, property := range s.Properties {
		messages = append(messages, ruleMessages(property)...)
	}
	if s.Items != nil {
		messages = append(messages, ruleMessages(*s.Items.Schema)...)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		messages = append(messages, ruleMessages(*s.AdditionalProperties.Schema)...)
	}
	return messages
}
