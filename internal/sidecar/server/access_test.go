package server_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/server"
)

// guarded is a sidecar behind the access proxy, and what it logs.
func guarded(t *testing.T) (*rig, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	return newRig(t, settings{adapt: func(o *server.Options) {
		o.AccessControl, o.Log = true, slog.New(slog.NewTextHandler(log, nil))
	}}), log
}

// as are the headers by which the proxy says who calls and what it has checked.
func as(caller, action string) []string {
	return []string{api.CallerHeader, caller, api.ActionHeader, action}
}

func TestACallDoesWhatTheProxyHasChecked(t *testing.T) {
	r, log := guarded(t)
	const tasks = "/v0/tasks"
	echo := `{"type":"echo","params":{"text":"a"}}`
	submitted := r.do(t, http.MethodPost, tasks, echo, as("ann", "echo")...)
	if submitted.Code != http.StatusCreated {
		t.Fatalf("%d %s", submitted.Code, submitted.Body)
	}
	id := decode[api.TaskSubmitted](t, submitted.Body).ID
	if line := log.String(); !strings.Contains(line, "caller=ann") || !strings.Contains(line, "task=echo") || !strings.Contains(line, id.String()) {
		t.Errorf("the log does not say who did what: %q", line)
	}
	log.Reset()
	one := tasks + "/" + id.String()
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		reason             string
	}{
		"reading":                       {"GET", "/v0/status", "", as("ann", "sidecar"), 200, ""},
		"reading as something else":     {"GET", "/v0/status", "", as("ann", "echo"), 403, api.ReasonActionMismatch},
		"reading with an empty action":  {"GET", "/v0/status", "", []string{api.ActionHeader, ""}, 403, api.ReasonActionMismatch},
		"reading in capitals":           {"GET", "/v0/status", "", as("ann", "Sidecar"), 403, api.ReasonActionMismatch},
		"an unknown path":               {"GET", "/v0/secrets", "", nil, 403, api.ReasonActionMismatch},
		"a task as another":             {"POST", tasks, echo, as("ann", "slow"), 403, api.ReasonActionMismatch},
		"a task as reading":             {"POST", tasks, echo, as("ann", "sidecar"), 403, api.ReasonActionMismatch},
		"a task as nothing":             {"POST", tasks, echo, as("ann", ""), 403, api.ReasonActionMismatch},
		"a task of nobody":              {"POST", tasks, echo, as("", "echo"), 403, api.ReasonCallerUnknown},
		"an unknown task as what it is": {"POST", tasks, `{"type":"fast"}`, as("ann", "fast"), 400, api.ReasonUnknownTaskType},
		"deleting as another":           {"DELETE", one, "", as("ann", "slow"), 403, api.ReasonActionMismatch},
		"deleting as reading":           {"DELETE", one, "", as("ann", "sidecar"), 403, api.ReasonActionMismatch},
		"deleting as nobody":            {"DELETE", one, "", as("", "echo"), 403, api.ReasonCallerUnknown},
		"deleting what is not there":    {"DELETE", tasks + "/" + uuid.NewString(), "", as("ann", "echo"), 404, api.ReasonNotFound},
		"for another node":              {"GET", "/v0/status", "", append(as("ann", "sidecar"), api.NodeUIDHeader, "other"), 421, api.ReasonWrongNode},
		"liveness":                      {"GET", "/v0/livez", "", nil, 200, ""},
		"health":                        {"GET", "/v0/healthz", "", nil, 503, api.ReasonNotApproved},
		"acting on an open path":        {"POST", "/v0/livez", "", nil, 405, api.ReasonMethodNotAllowed},
	} {
		answer := r.do(t, c.method, c.path, c.body, c.headers...)
		reason := ""
		if c.status >= 400 {
			reason = decode[api.Error](t, answer.Body).Reason
		}
		if answer.Code != c.status || reason != c.reason {
			t.Errorf("%s: %d %s, want %d %s", name, answer.Code, reason, c.status, c.reason)
		}
	}
	if log.Len() > 0 {
		t.Errorf("what was refused was written down as done: %s", log)
	}
	if answer := r.do(t, http.MethodDelete, one, "", as("bob", "echo")...); answer.Code != http.StatusNoContent {
		t.Errorf("deleting: %d %s", answer.Code, answer.Body)
	}
	if line := log.String(); !strings.Contains(line, "caller=bob") {
		t.Errorf("the log does not say who cancelled: %q", line)
	}
}

// A header that is there twice is not what the proxy has checked, whichever it took.
func TestTwoActionsAreNone(t *testing.T) {
	r, _ := guarded(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/v0/status", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header[api.ActionHeader] = []string{"sidecar", "sidecar"}
	answer := &recorded{header: http.Header{}}
	r.Handler().ServeHTTP(answer, request)
	if answer.status != http.StatusForbidden {
		t.Errorf("answered %d", answer.status)
	}
}

type recorded struct {
	header http.Header
	status int
}

func (r *recorded) Header() http.Header               { return r.header }
func (r *recorded) WriteHeader(status int)            { r.status = status }
func (r *recorded) Write(content []byte) (int, error) { return len(content), nil }

// Every operation of the contract is guarded, also one that will be added, except those
// that are meant to be open.
func TestEveryOperationIsGuarded(t *testing.T) {
	content, err := os.ReadFile("../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var contract struct {
		Paths map[string]map[string]any `yaml:"paths"`
	}
	if err := yaml.Unmarshal(content, &contract); err != nil {
		t.Fatal(err)
	}
	r, _ := guarded(t)
	echo := `{"type":"echo","params":{"text":"a"}}`
	answer := r.do(t, http.MethodPost, "/v0/tasks", echo, as("ann", "echo")...)
	id := decode[api.TaskSubmitted](t, answer.Body).ID
	open := map[string]bool{"/v0/healthz": true, "/v0/startupz": true, "/v0/livez": true}
	operations := 0
	for path, methods := range contract.Paths {
		for method := range methods {
			if method == "parameters" || open[path] {
				continue
			}
			operations++
			answer := r.do(t, strings.ToUpper(method), strings.ReplaceAll(path, "{id}", id.String()), echo)
			if answer.Code != http.StatusForbidden {
				t.Errorf("%s %s without an action: %d", method, path, answer.Code)
			}
		}
	}
	if operations < 8 {
		t.Errorf("only %d operations were found", operations)
	}
}
