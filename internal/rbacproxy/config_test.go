package rbacproxy

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

const good = `authorization:
  rewrites:
    byHttpHeader:
      name: X-Sei-Action
  resourceAttributes:
    apiGroup: sei.io
    apiVersion: v1alpha1
    resource: seinodes
    subresource: "{{ .Value }}"
    namespace: nodes
    name: alpha
`

func read(t *testing.T, text string) (question, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return readQuestion(path)
}

// A mistake in the file is an error: with kube-rbac-proxy the wrong key was dropped, and
// every call was refused without a reason.
func TestAMistakeInTheConfigFileIsAnError(t *testing.T) {
	for name, c := range map[string]struct{ old, new, says string }{
		"a wrong key":           {"apiGroup", "group", `unknown field "group"`},
		"a part we do not have": {"byHttpHeader", "byQueryParameter", "byQueryParameter"},
		"no header":             {"name: X-Sei-Action", `name: ""`, "names no header"},
		"no group":              {"apiGroup: sei.io", `apiGroup: ""`, "apiGroup"},
		"no namespace":          {"namespace: nodes", `namespace: ""`, "namespace"},
		"no name":               {"name: alpha", `name: ""`, "name"},
		"no sub-resource":       {`subresource: "{{ .Value }}"`, `subresource: ""`, "subresource"},
		"one for all actions":   {"{{ .Value }}", "sidecar", "subresource"},
		"half a template":       {"{{ .Value }}", "{{ .Value", "template"},
		"not YAML":              {"authorization:", "authorization", "not understood"},
	} {
		if !strings.Contains(good, c.old) {
			t.Fatalf("%s changes nothing", name)
		}
		if _, err := read(t, strings.Replace(good, c.old, c.new, 1)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readQuestion(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("there is no such file")
	}
}

func TestWhatIsAskedAboutACall(t *testing.T) {
	q, err := read(t, good)
	if err != nil {
		t.Fatal(err)
	}
	ann := &user.DefaultInfo{Name: "ann"}
	for method, verb := range map[string]string{"GET": "get", "POST": "create", "DELETE": "delete", "PATCH": "patch", "HEAD": "*", "OPTIONS": "*", "BREW": "*"} {
		request := &http.Request{Method: method, Header: http.Header{"X-Sei-Action": {"restart-seid"}}}
		got, err := q.about(ann, request)
		want := authorizer.AttributesRecord{
			User: ann, Verb: verb, Namespace: "nodes", APIGroup: "sei.io", APIVersion: "v1alpha1",
			Resource: "seinodes", Subresource: "restart-seid", Name: "alpha", ResourceRequest: true,
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", method, got, err)
		}
	}
	for name, values := range map[string][]string{"none": nil, "empty": {""}, "two": {"sidecar", "restart-seid"}} {
		if _, err := q.about(ann, &http.Request{Method: http.MethodGet, Header: http.Header{"X-Sei-Action": values}}); err == nil {
			t.Errorf("%s was taken for an action", name)
		}
	}
}
