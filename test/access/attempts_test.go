package access

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// attempt is a call, and what both proxies answer.
type attempt struct {
	call
	status int
	// theirs is the status with kube-rbac-proxy, where it differs.
	theirs int
	// says is a part of what a person is told, by ours.
	says string
}

// everything is what the attempts need. RBAC knows no "seinodes/*".
const everything = "sidecar,restart-seid,reset-data,release-hold"

// people are the tokens of those who try.
type people struct {
	viewer, runner, reader, neighbour, otherNode string
	apiServer, expired, gone, collected          string
}

func newPeople(n *node) people {
	n.t.Helper()
	elsewhere := n.cluster.Namespace(n.t)
	p := people{
		viewer:    n.caller(n.namespace, "viewer", may("get", "sidecar")),
		runner:    n.caller(n.namespace, "runner", may("get", "sidecar"), may("create,delete", "restart-seid", nodeName)),
		reader:    n.caller(n.namespace, "reader", may("get,create", "")),
		neighbour: n.caller(elsewhere, "neighbour", may("*", everything)),
		otherNode: n.caller(n.namespace, "other-node", may("*", everything, "beta")),
		apiServer: n.cluster.Token(n.t, n.namespace, "viewer"),
		collected: n.cluster.Token(n.t, n.namespace, "viewer", audience(elsewhere)),
		gone:      n.caller(n.namespace, "gone", may("get", "sidecar")),
	}
	p.expired = n.cluster.Aged(n.t, p.viewer, 3*time.Hour)
	leaves := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: "gone"}}
	if err := n.cluster.Admin(n.t).Delete(n.t.Context(), leaves); err != nil {
		n.t.Fatal(err)
	}
	return p
}

// attempts are made in any order, with each proxy.
func attempts(n *node, p people) map[string]attempt {
	const status, tasks = "/v0/status", "/v0/tasks"
	get := func(path, token string, headers map[string]string) call {
		return call{method: http.MethodGet, path: path, token: token, headers: headers}
	}
	post := func(token, does string, headers map[string]string) call {
		return call{method: http.MethodPost, path: tasks, token: token, body: task(does, uuid.NewString()), headers: headers}
	}
	read := action(api.ActionRead)
	restart := action("restart-seid")
	return map[string]attempt{
		"health, by anybody":           {call: get("/v0/livez", "", nil), status: 200},
		"no token":                     {call: get(status, "", read), status: 401, says: "no bearer token"},
		"no token, for metrics":        {call: get("/v0/metrics", "", read), status: 401, says: "no bearer token"},
		"no token, acting":             {call: post("", "restart-seid", restart), status: 401, says: "no bearer token"},
		"rubbish":                      {call: get(status, "rubbish", read), status: 401, says: "does not accept"},
		"a token for the API server":   {call: get(status, p.apiServer, read), status: 401, says: `has to be for ["` + audience(n.namespace) + `"]`},
		"a token of other proxies":     {call: get(status, p.collected, read), status: 401, says: `has to be for ["` + audience(n.namespace) + `"]`},
		"an expired token":             {call: get(status, p.expired, read), status: 401, says: "has expired at"},
		"whoever is gone":              {call: get(status, p.gone, read), status: 401, says: "may be gone"},
		"a path like an open one":      {call: get("/v0/livez/../status", "", read), status: 401, says: "no bearer token"},
		"an open path, escaped":        {call: get("/v0%2Flivez", "", nil), status: 404, says: "nothing at this path"},
		"an account elsewhere":         {call: get(status, p.neighbour, read), status: 403, says: "neighbour may not get seinodes/sidecar of " + n.namespace + "/alpha"},
		"rights on another node":       {call: get(status, p.otherNode, read), status: 403, says: "may not get"},
		"acting on another node":       {call: post(p.otherNode, "restart-seid", restart), status: 403, says: "may not create seinodes/restart-seid"},
		"a viewer reads":               {call: get(status, p.viewer, read), status: 200},
		"a viewer reads metrics":       {call: get("/v0/metrics", p.viewer, read), status: 200},
		"a viewer creates":             {call: post(p.viewer, "restart-seid", restart), status: 403, says: "viewer may not create seinodes/restart-seid"},
		"a viewer creates as reading":  {call: post(p.viewer, "restart-seid", read), status: 403, says: "may not create seinodes/sidecar"},
		"no action":                    {call: get(status, p.runner, nil), status: 400, says: "X-Sei-Action"},
		"an empty action":              {call: get(status, p.reader, action("")), status: 400, theirs: 403, says: "X-Sei-Action"},
		"an empty action, acting":      {call: post(p.reader, "restart-seid", action("")), status: 400, theirs: 403, says: "X-Sei-Action"},
		"a method without a verb":      {call: call{method: http.MethodOptions, path: status, token: p.runner, headers: read}, status: 403, says: "may not *"},
		"a runner runs":                {call: post(p.runner, "restart-seid", restart), status: 201},
		"another action than the role": {call: post(p.runner, "reset-data", action("reset-data")), status: 403, says: "may not create seinodes/reset-data"},
		"another action than it says":  {call: post(p.runner, "reset-data", restart), status: 403, says: `permission for "reset-data"`},
		"acting as reading":            {call: post(p.runner, "reset-data", read), status: 403, says: "may not create seinodes/sidecar"},
		"reading as acting":            {call: get(status, p.runner, restart), status: 403, says: "may not get seinodes/restart-seid"},
	}
}

// try makes the attempts.
func try(t *testing.T, proxy string, program []string) {
	t.Helper()
	n := newNode(t)
	p := newPeople(n)
	n.protect(program...)
	// Otherwise the expired token might be refused for its signature alone.
	if status, body, err := n.do(t.Context(), call{
		method: http.MethodGet, path: "/v0/status", token: n.cluster.Aged(t, p.viewer, time.Second), headers: action(api.ActionRead),
	}); err != nil || status != http.StatusOK {
		t.Errorf("a token that is a second older: %d %s, %v", status, body, err)
	}
	// Those who are refused here have the same rights elsewhere.
	for name, a := range attempts(n, p) {
		t.Run(name, func(t *testing.T) {
			want := a.status
			if proxy == theirs && a.theirs != 0 {
				want = a.theirs
			}
			status, body, err := n.do(t.Context(), a.call)
			if err != nil || status != want {
				t.Errorf("answered %d, want %d: %s %v", status, want, body, err)
			}
			var refusal api.Error
			if proxy == ours && status >= 400 && (json.Unmarshal([]byte(body), &refusal) != nil || refusal.Reason == "" || !strings.Contains(refusal.Error, a.says)) {
				t.Errorf("the answer %s does not say %q", body, a.says)
			}
		})
	}
	t.Run("a task is cancelled by who may", func(t *testing.T) { cancelling(t, n, p) })
	t.Run("who acted is written down", func(t *testing.T) { callers(t, proxy, n, p) })
	t.Run("loopback is no way in", func(t *testing.T) { loopbackCalls(t, n) })
}

func cancelling(t *testing.T, n *node, p people) {
	t.Helper()
	id := uuid.NewString()
	for _, step := range []struct {
		attempt
		name string
	}{
		{name: "submit", attempt: attempt{status: 201, call: call{
			method: http.MethodPost, path: "/v0/tasks", token: p.runner, body: task("restart-seid", id), headers: action("restart-seid"),
		}}},
		{name: "cancel as a viewer", attempt: attempt{status: 403, call: call{
			method: http.MethodDelete, path: "/v0/tasks/" + id, token: p.viewer, headers: action("restart-seid"),
		}}},
		{name: "cancel as reading", attempt: attempt{status: 403, call: call{
			method: http.MethodDelete, path: "/v0/tasks/" + id, token: p.runner, headers: action(api.ActionRead),
		}}},
		{name: "cancel", attempt: attempt{status: 204, call: call{
			method: http.MethodDelete, path: "/v0/tasks/" + id, token: p.runner, headers: action("restart-seid"),
		}}},
	} {
		if status, body, err := n.do(t.Context(), step.call); err != nil || status != step.status {
			t.Errorf("%s: %d, want %d: %s %v", step.name, status, step.status, body, err)
		}
	}
}

// callers tries to act under another name, and under none.
func callers(t *testing.T, proxy string, n *node, p people) {
	t.Helper()
	runner := "system:serviceaccount:" + n.namespace + ":runner"
	for name, headers := range map[string]map[string]string{
		"as somebody else": {api.CallerHeader: "system:admin"},
		// What is named here is removed on the way. kube-rbac-proxy removes what it has
		// just set; the sidecar then refuses.
		"as nobody": {"Connection": api.CallerHeader},
	} {
		id := uuid.NewString()
		headers[api.ActionHeader] = "restart-seid"
		status, body, err := n.do(t.Context(), call{
			method: http.MethodPost, path: "/v0/tasks", token: p.runner, body: task("restart-seid", id), headers: headers,
		})
		if proxy == theirs && name == "as nobody" {
			if status != http.StatusForbidden || !strings.Contains(body, api.ReasonCallerUnknown) {
				t.Errorf("%s: %d %s, %v", name, status, body, err)
			}
			continue
		}
		if err != nil || status != http.StatusCreated {
			t.Errorf("%s: %d %s, %v", name, status, body, err)
		}
		found := false
		for line := range strings.Lines(n.log.String()) {
			found = found || strings.Contains(line, id) && strings.Contains(line, "caller="+runner)
		}
		if !found {
			t.Errorf("%s: the sidecar did not write down that it was %s:\n%s", name, runner, n.log)
		}
	}
}
