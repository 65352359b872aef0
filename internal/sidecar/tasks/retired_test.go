package tasks

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// TestTasksOfAnEarlierSidecar: what it left is carried out, and what it did can be read.
func TestTasksOfAnEarlierSidecar(t *testing.T) {
	w := newWorld(t)
	peer := strings.Repeat("a", 40) + "@one:26656"
	before := w.read("config/app.toml")
	kept, err := store.Open(filepath.Join(string(w.home), ".sei-sidecar"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	leaves := func(kind, params string, status store.Status) uuid.UUID {
		t.Helper()
		task, err := kept.Put(store.Task{ID: uuid.New(), Type: kind, Params: json.RawMessage(params), Status: status, Run: 1, SubmittedAt: time.Now(), CompletedAt: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		return task.ID
	}
	peers := leaves("discover-peers", `{"peers":["`+peer+`"]}`, store.Running)
	wrong := leaves("config-validate", document(1, `"config.db-backend":"nosuch"`), store.Running)
	fine := leaves("config-validate", `{}`, store.Running)
	over := leaves("config-validate", `{}`, store.Completed)
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	l := w.live(nil)
	if got := result[PeersResult](t, l.ended(peers)); got != (PeersResult{true, 1}) {
		t.Errorf("%+v", got)
	}
	task := l.ended(wrong)
	failed(t, task, ReasonInvalidConfiguration, false)
	if got := resultOf[DryRunResult](t, task); len(got.Findings) != 1 || got.Findings[0].Key != "config.db-backend" {
		t.Errorf("%+v", got)
	}
	result[DryRunResult](t, l.ended(fine))
	if task := l.ended(over); task.Status != store.Completed || task.Type != "config-validate" {
		t.Errorf("%+v", task)
	}
	if !strings.Contains(w.read("config/config.toml"), peer) || w.read("config/app.toml") != before || w.read(".sei-sidecar/configuration.json") != "" {
		t.Error("more or less than the peers was written")
	}
}

// TestPeersThatAreMissing: the refusal names what the caller left out.
func TestPeersThatAreMissing(t *testing.T) {
	if _, err := retired[discoverPeers](json.RawMessage(`{}`)); err == nil || !strings.Contains(err.Error(), "peers is missing") {
		t.Errorf("refused with %v", err)
	}
}

// TestBefore: an earlier sidecar is asked in its own words for what it can do.
func TestBefore(t *testing.T) {
	type earlier struct {
		Document any `json:"document"`
	}
	for params, want := range map[string]*api.TaskRequest{
		`{"document":{"serial":1,"chainId":"a","mode":"seed"}}`: nil,
		`{"dryRun":true}`: {Type: "config-validate", Params: json.RawMessage(`{}`)},
		`{"dryRun":true,"document":{"serial":1,"chainId":"a","mode":"seed"}}`: {Type: "config-validate", Params: json.RawMessage(`{"document":{"chainId":"a","mode":"seed","serial":1}}`)},
		`{"peers":[]}`: {Type: "discover-peers", Params: json.RawMessage(`{"peers":[]}`)},
	} {
		request := api.TaskRequest{ID: uuid.New(), Type: TypeConfigApply, Params: json.RawMessage(params)}
		got, ok := Before(request)
		// What it would take for an apply must not reach it as one.
		if _, err := engine.Strict[earlier](request.Params); ok != (err != nil) {
			t.Errorf("%s: an earlier sidecar says %v", params, err)
		}
		if want == nil {
			if ok {
				t.Errorf("%s becomes %+v", params, got)
			}
			continue
		}
		want.ID = request.ID
		var has, wants any
		if json.Unmarshal(got.Params, &has) != nil || json.Unmarshal(want.Params, &wants) != nil || !cmp.Equal(has, wants) || got.Type != want.Type || got.ID != want.ID {
			t.Errorf("%s becomes %s %s", params, got.Type, got.Params)
		}
		if _, err := decoders()[got.Type].Decode(got.Params); err != nil {
			t.Errorf("%s: %v", params, err)
		}
	}
	if _, ok := Before(api.TaskRequest{Type: TypeRestartSeid, Params: json.RawMessage(`{}`)}); ok {
		t.Error("another type is changed")
	}
}
