package rbacproxy

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"text/template"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"
)

// configFile is the part of kube-rbac-proxy's config file that we have a use for.
type configFile struct {
	Authorization struct {
		Rewrites struct {
			ByHTTPHeader struct {
				Name string `json:"name"`
			} `json:"byHttpHeader"`
		} `json:"rewrites"`
		ResourceAttributes resourceAttributes `json:"resourceAttributes"`
	} `json:"authorization"`
}

// resourceAttributes are templates; {{ .Value }} is that of the header.
type resourceAttributes struct {
	Namespace   string `json:"namespace"`
	APIGroup    string `json:"apiGroup"`
	APIVersion  string `json:"apiVersion"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Name        string `json:"name"`
}

// question is what the API server is asked about a caller.
type question struct {
	// header is the one in which a caller says what the call does.
	header string
	// fields are the templates of the resource's attributes, in the order of attributes.
	fields [6]*template.Template
}

// readQuestion reads the config file. A key that it does not know is an error: dropped
// in silence, it would have the wrong question asked, and everybody refused or let in.
func readQuestion(path string) (question, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return question{}, fmt.Errorf("cannot read the config file: %w", err)
	}
	var file configFile
	if err := yaml.UnmarshalStrict(content, &file); err != nil {
		return question{}, fmt.Errorf("the config file %s is not understood: %w", path, err)
	}
	q := question{header: file.Authorization.Rewrites.ByHTTPHeader.Name}
	a := file.Authorization.ResourceAttributes
	switch {
	case q.header == "":
		return question{}, fmt.Errorf("the config file %s names no header in authorization.rewrites.byHttpHeader", path)
	case a.APIGroup == "" || a.Resource == "" || a.Namespace == "" || a.Name == "":
		return question{}, fmt.Errorf("the config file %s needs apiGroup, resource, namespace and name in authorization.resourceAttributes", path)
	case !strings.Contains(a.Subresource, ".Value"):
		// Every action would be the same one.
		return question{}, fmt.Errorf("the config file %s has a subresource without {{ .Value }}", path)
	}
	for i, text := range []string{a.Namespace, a.APIGroup, a.APIVersion, a.Resource, a.Subresource, a.Name} {
		if q.fields[i], err = template.New("").Option("missingkey=error").Parse(text); err != nil {
			return question{}, fmt.Errorf("the config file %s has a template that is none: %w", path, err)
		}
	}
	return q, nil
}

// verbs by the method of a call. Any other asks for all verbs, as with kube-rbac-proxy.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// errNoAction means that a call does not say, or not clearly, what it does.
var errNoAction = errors.New("a call has to say what it does, once")

// about is what has to be asked about a call.
func (q question) about(caller user.Info, r *http.Request) (authorizer.AttributesRecord, error) {
	said := r.Header.Values(q.header)
	if len(said) != 1 || said[0] == "" {
		return authorizer.AttributesRecord{}, fmt.Errorf("%w, in the header %s", errNoAction, q.header)
	}
	var filled [len(q.fields)]string
	for i, field := range q.fields {
		var text strings.Builder
		if err := field.Execute(&text, struct{ Value string }{said[0]}); err != nil {
			return authorizer.AttributesRecord{}, err
		}
		filled[i] = text.String()
	}
	verb, known := verbs[r.Method]
	if !known {
		verb = "*"
	}
	return authorizer.AttributesRecord{
		User: caller, Verb: verb, ResourceRequest: true,
		Namespace: filled[0], APIGroup: filled[1], APIVersion: filled[2],
		Resource: filled[3], Subresource: filled[4], Name: filled[5],
	}, nil
}
