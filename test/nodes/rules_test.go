package nodes_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/client"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

func TestCallsThatTheRealSidecarRefuses(t *testing.T) {
	r := newRig(t)
	n, c := r.up()
	another, taken := r.dial(n, "another"), uuid.New()
	redo(t, c, taken, tasks.TypeConfigApply, `{"peers":[]}`)
	request := func(id uuid.UUID, kind, params string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.Submit(ctx, api.TaskRequest{ID: id, Type: kind, Params: json.RawMessage(params)})
			return err
		}
	}
	for name, test := range map[string]struct {
		call func(context.Context) error
		want string
	}{
		"of another node":            {another.Healthz, api.ReasonWrongNode},
		"an id with another payload": {request(taken, tasks.TypeConfigApply, `{"peers":["`+peer+`"]}`), api.ReasonIDConflict},
		"an id with another type":    {request(taken, tasks.TypeMarkReady, `{}`), api.ReasonIDConflict},
		"an unknown type":            {request(uuid.New(), "make-coffee", `{}`), api.ReasonUnknownTaskType},
		"unknown fields":             {request(uuid.New(), tasks.TypeMarkReady, `{"nonsense":1}`), api.ReasonInvalidParams},
		"a key that is none":         {request(uuid.New(), tasks.TypeMarkReady, `{"publicKey":"abc"}`), api.ReasonInvalidParams},
		"a peer that is none":        {request(uuid.New(), tasks.TypeConfigApply, `{"peers":["nobody"]}`), api.ReasonInvalidParams},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.call(t.Context()); client.Reason(err) != test.want {
				t.Errorf("got %v, not %s", err, test.want)
			}
		})
	}
}

func TestAChangeHasToNameItsNode(t *testing.T) {
	r := newRig(t)
	n, _ := r.up()
	url, err := n.WaitUp(t.Context())
	must(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v0/tasks", strings.NewReader(`{"type":"mark-ready"}`))
	must(t, err)
	response, err := r.http.Do(request)
	must(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusPreconditionRequired {
		t.Errorf("got %d", response.StatusCode)
	}
}

func TestTasksThatFailAsTheRealOnesDo(t *testing.T) {
	r := newRig(t)
	_, c := r.up()
	override := func(key, value string) string {
		return document(1, seid.ModeFullNode, map[string]string{key: value})
	}
	dry := func(params string) string { return `{"dryRun":true,` + params[1:] }
	for name, test := range map[string]struct{ kind, params, want string }{
		"a dry run of a forbidden override":   {tasks.TypeConfigApply, dry(override("config.rpc.laddr", "tcp://0.0.0.0:1")), tasks.ReasonInvalidConfiguration},
		"a forbidden override":                {tasks.TypeConfigApply, override("config.rpc.laddr", "tcp://0.0.0.0:1"), tasks.ReasonInvalidConfiguration},
		"an override of no file":              {tasks.TypeConfigApply, override("nonsense.key", "1"), tasks.ReasonInvalidConfiguration},
		"an override of the wrong type":       {tasks.TypeConfigApply, override("config.p2p.max-connections", "many"), tasks.ReasonInvalidConfiguration},
		"a dry run of a value seid refuses":   {tasks.TypeConfigApply, dry(override("config.log-level", "loud")), tasks.ReasonInvalidConfiguration},
		"a document with a peer that is none": {tasks.TypeConfigApply, `{"document":{"serial":1,"chainId":"a","mode":"fullNode","peers":["nobody"]}}`, tasks.ReasonInvalidConfiguration},
		"a restart without approval":          {tasks.TypeRestartSeid, `{}`, tasks.ReasonNotApproved},
		"a stop of a node that is not held":   {tasks.TypeStopSeid, `{}`, tasks.ReasonNotHeld},
		"a reset of a node that is not held":  {tasks.TypeResetData, `{}`, tasks.ReasonNotHeld},
		"a genesis file that is not mounted":  {tasks.TypeConfigureGenesis, `{"chainId":"a","file":"genesis.json"}`, tasks.ReasonGenesisMissing},
		"an approval of another signing key":  {tasks.TypeMarkReady, `{"publicKey":"` + strings.Repeat("A", 43) + `="}`, tasks.ReasonKeyIdentityChanged},
		"an approval of another node id":      {tasks.TypeMarkReady, `{"nodeId":"` + strings.Repeat("0", 40) + `"}`, tasks.ReasonKeyIdentityChanged},
	} {
		t.Run(name, func(t *testing.T) {
			if got := do(t, c, test.kind, test.params); got.Status != api.TaskFailed || got.Reason != test.want || got.Retryable || got.Error == "" {
				t.Errorf("got %+v, not %s", got, test.want)
			}
		})
	}
}

func TestAnOlderDocumentChangesNothing(t *testing.T) {
	r := newRig(t)
	_, c := r.up()
	do(t, c, tasks.TypeConfigApply, document(7, seid.ModeFullNode, nil))
	before := status(t, c).Config
	if got := do(t, c, tasks.TypeConfigApply, document(6, seid.ModeArchive, nil)); got.Status != api.TaskCompleted {
		t.Errorf("it is not wanted any more, and no failure: %+v", got)
	}
	if after := status(t, c).Config; after != before || after.Serial != 7 {
		t.Errorf("%+v became %+v", before, after)
	}
}

func TestAHeldNodeDoesNotRun(t *testing.T) {
	r := newRig(t)
	n, c := r.up()
	do(t, c, tasks.TypeMarkReady, `{}`)
	n.Hold("somebody looks at it")
	if got := status(t, c); !got.Held || got.HeldReason != "somebody looks at it" || got.Seid.State != api.SeidWaiting || got.Seid.Pid != 0 {
		t.Errorf("the status is %+v", got)
	}
	for _, kind := range []string{tasks.TypeMarkReady, tasks.TypeRestartSeid} {
		if got := do(t, c, kind, `{}`); got.Reason != tasks.ReasonHeld || got.Retryable {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	if got := do(t, c, tasks.TypeResetData, `{}`); got.Status != api.TaskCompleted {
		t.Errorf("reset-data: %+v", got)
	}
	n.Release()
	if got := status(t, c); got.Held || got.Seid.State != api.SeidRunning {
		t.Errorf("released it is %+v", got)
	}
}

func TestARestartReplacesSeid(t *testing.T) {
	r := newRig(t)
	_, c := r.up()
	do(t, c, tasks.TypeMarkReady, `{}`)
	before := status(t, c).Seid
	if got := do(t, c, tasks.TypeRestartSeid, `{}`); got.Status != api.TaskCompleted {
		t.Fatalf("got %+v", got)
	}
	if after := status(t, c).Seid; after.State != api.SeidRunning || after.Instance == before.Instance || after.Pid == before.Pid {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestAFailedTaskRunsAgainUnderTheSameID(t *testing.T) {
	r := newRig(t)
	n, c := r.up()
	n.Fail(tasks.TypeMarkReady, 2, "Unlucky", "not now", true)
	id := uuid.New()
	for run := 1; run <= 3; run++ {
		got := redo(t, c, id, tasks.TypeMarkReady, `{}`)
		if got.Run != run {
			t.Errorf("run %d is %+v", run, got)
		}
		entry, err := n.WaitCall(t.Context(), tasks.TypeMarkReady)
		must(t, err)
		if entry.ID != id || entry.Run != run {
			t.Errorf("call %d is %+v", run, entry)
		}
	}
	if diff := cmp.Diff([]string{"mark-ready Unlucky", "mark-ready Unlucky", "mark-ready Done"}, outcomes(n)); diff != "" {
		t.Error(diff)
	}
}
