package server_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/server"
)

const maxTime = 24 * time.Hour

func TestWhatIsRefused(t *testing.T) {
	r := newRig(t, settings{})
	known := r.submit(t, `{"type":"echo","params":{"text":"a"}}`)
	const tasks = "/v0/tasks"
	one := tasks + "/" + uuid.NewString()
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		reason             string
	}{
		"no body":                   {method: "POST", path: tasks, status: 400, reason: api.ReasonInvalidRequest},
		"not JSON":                  {method: "POST", path: tasks, body: "hello", status: 400, reason: api.ReasonInvalidRequest},
		"a list":                    {method: "POST", path: tasks, body: "[]", status: 400, reason: api.ReasonInvalidRequest},
		"two tasks":                 {method: "POST", path: tasks, body: `{"type":"slow"}{"type":"slow"}`, status: 400, reason: api.ReasonInvalidRequest},
		"rubbish behind":            {method: "POST", path: tasks, body: `{"type":"slow"}}`, status: 400, reason: api.ReasonInvalidRequest},
		"no type":                   {method: "POST", path: tasks, body: `{}`, status: 400, reason: api.ReasonInvalidRequest},
		"a type that is a number":   {method: "POST", path: tasks, body: `{"type":1}`, status: 400, reason: api.ReasonInvalidRequest},
		"an unknown field":          {method: "POST", path: tasks, body: `{"type":"slow","deadline":"1h"}`, status: 400, reason: api.ReasonInvalidRequest},
		"an id that is no UUID":     {method: "POST", path: tasks, body: `{"type":"slow","id":"1"}`, status: 400, reason: api.ReasonInvalidRequest},
		"an unknown type":           {method: "POST", path: tasks, body: `{"type":"fast"}`, status: 400, reason: api.ReasonUnknownTaskType},
		"params that are a list":    {method: "POST", path: tasks, body: `{"type":"slow","params":[]}`, status: 400, reason: api.ReasonInvalidParams},
		"params not known":          {method: "POST", path: tasks, body: `{"type":"slow","params":{"a":1}}`, status: 400, reason: api.ReasonInvalidParams},
		"params of a wrong type":    {method: "POST", path: tasks, body: `{"type":"echo","params":{"text":1}}`, status: 400, reason: api.ReasonInvalidParams},
		"an id of another payload":  {method: "POST", path: tasks, body: `{"type":"echo","id":"` + known.String() + `","params":{"text":"b"}}`, status: 409, reason: api.ReasonIDConflict},
		"an id of another type":     {method: "POST", path: tasks, body: `{"type":"slow","id":"` + known.String() + `"}`, status: 409, reason: api.ReasonIDConflict},
		"a body too large":          {method: "POST", path: tasks, body: `{"type":"echo","params":{"text":"` + strings.Repeat("x", api.MaxBodyBytes) + `"}}`, status: 413, reason: api.ReasonBodyTooLarge},
		"spaces too many":           {method: "POST", path: tasks, body: `{"type":"slow"}` + strings.Repeat(" ", api.MaxBodyBytes), status: 413, reason: api.ReasonBodyTooLarge},
		"a submission for another":  {method: "POST", path: tasks, body: `{"type":"slow"}`, headers: []string{api.NodeUIDHeader, "other"}, status: 421, reason: api.ReasonWrongNode},
		"a submission for nobody":   {method: "POST", path: tasks, body: `{"type":"slow"}`, headers: []string{api.NodeUIDHeader, ""}, status: 428, reason: api.ReasonNodeUIDRequired},
		"a deletion for another":    {method: "DELETE", path: one, headers: []string{api.NodeUIDHeader, "other"}, status: 421, reason: api.ReasonWrongNode},
		"a deletion for nobody":     {method: "DELETE", path: one, headers: []string{api.NodeUIDHeader, ""}, status: 428, reason: api.ReasonNodeUIDRequired},
		"a question to another":     {method: "GET", path: "/v0/status", headers: []string{api.NodeUIDHeader, "other"}, status: 421, reason: api.ReasonWrongNode},
		"events of another":         {method: "GET", path: "/v0/events", headers: []string{api.NodeUIDHeader, "other"}, status: 421, reason: api.ReasonWrongNode},
		"an unknown task":           {method: "GET", path: one, status: 404, reason: api.ReasonNotFound},
		"an unknown task, waiting":  {method: "GET", path: one + "?wait=30s", status: 404, reason: api.ReasonNotFound},
		"deleting an unknown task":  {method: "DELETE", path: one, status: 404, reason: api.ReasonNotFound},
		"a task that is no UUID":    {method: "GET", path: tasks + "/1", status: 400, reason: api.ReasonInvalidID},
		"deleting no UUID":          {method: "DELETE", path: tasks + "/1", status: 400, reason: api.ReasonInvalidID},
		"a wait that is no time":    {method: "GET", path: one + "?wait=soon", status: 400, reason: api.ReasonInvalidWait},
		"a wait without a unit":     {method: "GET", path: one + "?wait=30", status: 400, reason: api.ReasonInvalidWait},
		"a wait into the past":      {method: "GET", path: one + "?wait=-1s", status: 400, reason: api.ReasonInvalidWait},
		"two waits":                 {method: "GET", path: one + "?wait=1s&wait=2s", status: 400, reason: api.ReasonInvalidRequest},
		"a path that is not there":  {method: "GET", path: "/v0/task", status: 404, reason: api.ReasonNotFound},
		"the wrong method":          {method: "PUT", path: tasks, status: 405, reason: api.ReasonMethodNotAllowed},
		"the wrong method of livez": {method: "POST", path: "/v0/livez", status: 405, reason: api.ReasonMethodNotAllowed},
		"a node id nobody knows":    {method: "GET", path: "/v0/node-id", status: 500, reason: api.ReasonNodeIDUnknown},
		"health without approval":   {method: "GET", path: "/v0/healthz", status: 503, reason: api.ReasonNotApproved},
	} {
		t.Run(name, func(t *testing.T) {
			answer := r.do(t, c.method, c.path, c.body, c.headers...)
			got := decode[api.Error](t, answer.Body)
			if answer.Code != c.status || got.Reason != c.reason || got.Error == "" {
				t.Errorf("%d %+v, want %d %s", answer.Code, got, c.status, c.reason)
			}
			if kind := answer.Header().Get("Content-Type"); kind != "application/json" {
				t.Errorf("it is of type %s", kind)
			}
		})
	}
	if all := decode[[]api.TaskResult](t, r.do(t, "GET", tasks, "").Body); len(all) != 1 {
		t.Errorf("something refused was kept: %+v", all)
	}
}

func (r *rig) task(tb testing.TB, id uuid.UUID) api.TaskResult {
	tb.Helper()
	return decode[api.TaskResult](tb, r.do(tb, "GET", "/v0/tasks/"+id.String()+"?wait=30s", "").Body)
}

func TestATaskThatCompletes(t *testing.T) {
	r := newRig(t, settings{})
	request := `{"id":"` + uuid.NewString() + `","type":"echo","params":{"text":"<é>","number":9007199254740993}}`
	id := r.submit(t, request)
	got := r.task(t, id)
	if got.CompletedAt.IsZero() || got.Deadline.IsZero() || got.StartedAt.IsZero() || got.SubmittedAt.IsZero() {
		t.Errorf("a time is missing: %+v", got)
	}
	want := api.TaskResult{
		ID: id, Type: "echo", Status: api.TaskCompleted, Run: 1,
		Params: json.RawMessage(`{"number":9007199254740993,"text":"<é>"}`), Result: json.RawMessage(`{"text":"\u003cé\u003e","number":9007199254740993}`),
		SubmittedAt: got.SubmittedAt, StartedAt: got.StartedAt, CompletedAt: got.CompletedAt, Deadline: got.Deadline,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if again := r.submit(t, request); again != id || r.task(t, id).Run != 1 {
		t.Error("the same task is another")
	}
}

func TestATaskThatFails(t *testing.T) {
	r := newRig(t, settings{})
	got := r.task(t, r.submit(t, `{"type":"echo","params":{"text":"fail"}}`))
	if got.Status != api.TaskFailed || got.Reason != "Refused" || !got.Retryable || got.Error != "asked to fail" || len(got.Result) == 0 {
		t.Errorf("got %+v", got)
	}
	metrics := r.do(t, "GET", "/v0/metrics", "", api.NodeUIDHeader, "").Body.String()
	for _, want := range []string{`sei_sidecar_task_submissions_total{type="echo"} 1`, `sei_sidecar_task_failures_total{reason="Refused",type="echo"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

func TestTasksAreListedAndDeleted(t *testing.T) {
	r := newRig(t, settings{})
	if body := r.do(t, "GET", "/v0/tasks", "").Body.String(); body != "[]\n" {
		t.Errorf("no tasks are %q", body)
	}
	done := r.submit(t, `{"type":"echo","params":{"text":"a"}}`)
	r.task(t, done)
	running := r.submit(t, `{"type":"slow"}`)
	<-r.entered
	if all := decode[[]api.TaskResult](t, r.do(t, "GET", "/v0/tasks", "").Body); len(all) != 2 || all[0].ID != running {
		t.Errorf("the list is %+v", all)
	}
	for _, id := range []uuid.UUID{done, running} {
		if answer := r.do(t, "DELETE", "/v0/tasks/"+id.String(), ""); answer.Code != http.StatusNoContent {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
	}
	if body := r.do(t, "GET", "/v0/tasks", "").Body.String(); body != "[]\n" {
		t.Errorf("no tasks are %q", body)
	}
}

func TestLongPolls(t *testing.T) {
	for name, c := range map[string]struct {
		wait string
		want time.Duration
	}{
		"as asked":   {"30s", 30 * time.Second},
		"bounded":    {"1000h", time.Minute},
		"not at all": {"0s", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, settings{})
				path := "/v0/tasks/" + r.submit(t, `{"type":"slow"}`).String()
				before := time.Now()
				got := decode[api.TaskResult](t, r.do(t, "GET", path+"?wait="+c.wait, "").Body)
				if got.Status != api.TaskRunning || time.Since(before) != c.want {
					t.Errorf("%s after %s", got.Status, time.Since(before))
				}
				go func() { r.leave <- struct{}{} }()
				got = decode[api.TaskResult](t, r.do(t, "GET", path+"?wait=30s", "").Body)
				if got.Status != api.TaskCompleted || time.Since(before) != c.want {
					t.Errorf("%s after %s", got.Status, time.Since(before))
				}
			})
		})
	}
}

// The limit on an answer is not a limit on the wait for it.
func TestALongPollOverTheNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, settings{})
		client, stop := r.run(t)
		id := r.submit(t, `{"type":"slow"}`)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://sidecar/v0/tasks/"+id.String()+"?wait=60s", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		if got := decode[api.TaskResult](t, response.Body); got.Status != api.TaskRunning {
			t.Errorf("got %+v", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestHealthIsConsent(t *testing.T) {
	r := newRig(t, settings{})
	expect := func(status int, reason string) {
		t.Helper()
		for _, path := range []string{"/v0/healthz", "/v0/startupz"} {
			answer := r.do(t, "GET", path, "", api.NodeUIDHeader, "") // probes do not know the uid
			if answer.Code != status || !strings.Contains(answer.Body.String(), reason) {
				t.Errorf("%s: %d %s, want %d %s", path, answer.Code, answer.Body, status, reason)
			}
		}
		if answer := r.do(t, "GET", "/v0/livez", "", api.NodeUIDHeader, ""); answer.Code != 200 {
			t.Errorf("livez: %d", answer.Code)
		}
	}
	expect(503, api.ReasonNotApproved)
	if err := r.consent.Approve("key", "node", 0); err != nil {
		t.Fatal(err)
	}
	expect(200, "")
	if err := r.consent.Hold("task", "because", 1); err != nil {
		t.Fatal(err)
	}
	expect(503, api.ReasonHeld)
	if err := r.consent.Release(consent.Release{Sequence: 1}); err != nil {
		t.Fatal(err)
	}
	expect(200, "")
}

func TestStatus(t *testing.T) {
	r := newRig(t, settings{})
	at := time.Unix(1e9, 0).UTC()
	node := server.Node{
		Seid: api.Seid{
			State: api.SeidParked, Pid: 7, Since: at, Instance: "i", SafeToStop: true, UnsafeBecause: "u", ParkedBecause: "p", Message: "m",
			LastExit: api.Exit{Code: 2, Signal: "s", Time: at, Cause: "UpgradeHalt"}, RPC: true, Progress: api.ProgressIdle,
		},
		Upgrade: api.Upgrade{Name: "v6", Height: 9007199254740993, Info: "i", Halted: true},
		Config:  api.Config{Hash: "h", Serial: 3},
		NodeID:  "node", SigningPublicKey: "key", SignHeight: new(int64(0)), FreeBytes: 1, TotalBytes: 2,
		Problems: []api.Problem{{Reason: "DiskNearlyFull", Message: "m"}},
	}
	status := func() api.Status {
		t.Helper()
		return decode[api.Status](t, r.do(t, "GET", "/v0/status", "").Body)
	}
	if diff := cmp.Diff(api.Status{Status: api.StatusInitializing}, status()); diff != "" {
		t.Errorf("at the start (-want +got):\n%s", diff)
	}
	r.node.set(func(n *server.Node) { *n = node })
	if err := r.consent.Approve("key", "node", 0); err != nil {
		t.Fatal(err)
	}
	want := api.Status{
		Status: api.StatusReady, Approved: true, Approval: api.Approval{NodeUID: uid, PublicKey: "key", NodeID: "node"},
		Seid: node.Seid, Upgrade: node.Upgrade, Config: node.Config, NodeID: "node", SigningPublicKey: "key", SignHeight: node.SignHeight,
		FreeBytes: 1, TotalBytes: 2, Problems: node.Problems,
	}
	if diff := cmp.Diff(want, status()); diff != "" {
		t.Errorf("approved (-want +got):\n%s", diff)
	}
	if err := r.consent.Hold("task", "because", 1); err != nil {
		t.Fatal(err)
	}
	want.Status, want.Held, want.HeldBy, want.HeldReason, want.HeldSince = api.StatusInitializing, true, "task", "because", r.consent.State().Hold.Since
	if diff := cmp.Diff(want, status()); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	if got := decode[api.NodeID](t, r.do(t, "GET", "/v0/node-id", "").Body); got.NodeID != "node" {
		t.Errorf("the node id is %+v", got)
	}
}

// Whatever the disk does to the tasks, the node keeps its approval, and the sidecar
// answers.
func TestWithoutAStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, settings{dir: filepath.Join(file, "home")})
	for _, call := range [][3]string{
		{"POST", "/v0/tasks", `{"type":"slow"}`},
		{"GET", "/v0/tasks", ""},
		{"GET", "/v0/tasks/" + uuid.NewString(), ""},
		{"DELETE", "/v0/tasks/" + uuid.NewString(), ""},
	} {
		answer := r.do(t, call[0], call[1], call[2])
		if got := decode[api.Error](t, answer.Body); answer.Code != 503 || got.Reason != api.ReasonStoreUnavailable || !got.Retryable || answer.Header().Get("Retry-After") == "" {
			t.Errorf("%s %s: %d %+v", call[0], call[1], answer.Code, got)
		}
	}
	if err := r.consent.Approve("key", "node", 0); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v0/healthz", "/v0/livez", "/v0/status"} {
		if answer := r.do(t, "GET", path, ""); answer.Code != 200 {
			t.Errorf("%s: %d", path, answer.Code)
		}
	}
	got := decode[api.Status](t, r.do(t, "GET", "/v0/status", "").Body)
	if len(got.Problems) != 1 || got.Problems[0].Reason != api.ReasonStoreUnavailable {
		t.Errorf("problems: %+v", got.Problems)
	}
}

func FuzzTaskBody(f *testing.F) {
	for _, seed := range []string{
		`{"type":"echo","params":{"text":"a"}}`, `{"type":"echo","id":"00000000-0000-0000-0000-000000000001","params":null}`,
		`{"type":"echo","params":{"text":"a","number":1e999}}`, `{`, `[]`, "\xff", `{"TYPE":"echo"}`, `{"type":"echo","type":"slow"}`,
	} {
		f.Add([]byte(seed))
	}
	r := newRig(f, settings{})
	f.Fuzz(func(t *testing.T, body []byte) {
		answer := r.do(t, "POST", "/v0/tasks", string(body))
		switch answer.Code {
		case http.StatusCreated:
			id := decode[api.TaskSubmitted](t, answer.Body).ID
			if got := r.do(t, "DELETE", "/v0/tasks/"+id.String(), ""); got.Code != http.StatusNoContent {
				t.Fatalf("%d %s", got.Code, got.Body)
			}
			for len(r.entered) > 0 {
				<-r.entered
			}
		case http.StatusBadRequest, http.StatusConflict:
			if e := decode[api.Error](t, answer.Body); e.Reason == "" || e.Error == "" {
				t.Fatalf("%+v", e)
			}
		default:
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
		if !json.Valid(r.do(t, "GET", "/v0/tasks", "").Body.Bytes()) {
			t.Fatal("the list is no JSON")
		}
	})
}
