package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

// tree is the content of a home that follows from what was done to it: without the
// task store, and without files that say when.
func (w *world) tree() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(string(w.home), func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(string(w.home), path)
		if err != nil || name == ".sei-sidecar/approval.json" || name == ".sei-sidecar/hold.json" {
			return err
		}
		if name == ".sei-sidecar/tasks" {
			return filepath.SkipDir
		}
		if entry.IsDir() {
			out[name+"/"] = ""
			return nil
		}
		content, err := os.ReadFile(path)
		out[name] = string(content)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func sameTree(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s was left behind", name)
		}
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s is %q, not %q", name, got[name], want[name])
		}
	}
}

// crashable is a task, what it finds, and what has to be true when it is done.
type crashable struct {
	kind, params string
	prepare      func(*world, *life)
	// driven: somebody makes seid run exactly when it may.
	driven bool
	check  func(*testing.T, *world, *life, store.Task)
}

// crashables have every type of task, some in more than one situation. What they
// need beside a world lives as long as the test.
func crashables(t *testing.T) map[string]crashable {
	t.Helper()
	a, b := newRPC(t, 5000), newRPC(t, 5000)
	base := mirror(t, new(atomic.Int64))
	none := func(*testing.T, *world, *life, store.Task) {}
	_, nodeID := fakeseid.NodeKey("node")
	return map[string]crashable{
		"mark-ready": {TypeMarkReady, "{}", func(w *world, _ *life) { w.supervise() }, false, func(t *testing.T, _ *world, l *life, _ store.Task) {
			t.Helper()
			if state := l.tasks.Consent.State(); !state.Wanted() || state.Approval.NodeID != nodeID {
				t.Errorf("%+v", state)
			}
		}},
		"mark-not-ready": {TypeMarkNotReady, "{}", runs, true, checkHeld},
		"release-hold": {TypeReleaseHold, "{}", func(w *world, l *life) {
			runs(w, l)
			l.hold()
		}, true, func(t *testing.T, w *world, l *life, _ store.Task) {
			t.Helper()
			if !l.tasks.Consent.Wanted() {
				t.Error("the node may not run")
			}
			w.awaitState("running", safe)
		}},
		"stop-seid": {TypeStopSeid, "{}", func(w *world, l *life) {
			runs(w, l)
			l.hold()
		}, false, func(t *testing.T, w *world, _ *life, task store.Task) {
			t.Helper()
			state, got := w.state(), resultOf[StopSeidResult](t, task)
			if state.PID != 0 || state.Restarts[supervisor.Requested] != 1 || got.Instance != state.Instance || got.Exit == nil {
				t.Errorf("%+v, %+v", state, got)
			}
		}},
		"restart-seid": {TypeRestartSeid, "{}", runs, false, func(t *testing.T, w *world, _ *life, task store.Task) {
			t.Helper()
			checkRestarted(t, w, task, 1)
		}},
		"restart-seid, driven": {TypeRestartSeid, "{}", runs, true, func(t *testing.T, w *world, _ *life, task store.Task) {
			t.Helper()
			checkRestarted(t, w, task, 1)
		}},
		"restart-seid, nothing runs": {TypeRestartSeid, "{}", func(w *world, l *life) {
			w.supervise()
			l.approve(w)
		}, false, func(t *testing.T, w *world, _ *life, task store.Task) {
			t.Helper()
			checkRestarted(t, w, task, 0)
		}},
		"restart-seid, halted": {TypeRestartSeid, "{}", func(w *world, l *life) {
			w.supervise()
			l.approve(w)
			_, p := w.seid()
			p.Do(w.t, fakeseid.Halt(fakeseid.Plan{Name: "v9", Height: 8, Line: true}))
			w.awaitState("parked", func(s supervisor.State) bool { return s.ParkedBecause == supervisor.ParkedUpgrade })
		}, false, func(t *testing.T, w *world, _ *life, task store.Task) {
			t.Helper()
			checkRestarted(t, w, task, 0)
		}},
		"reset-data": {TypeResetData, "{}", func(w *world, l *life) {
			w.fill()
			w.supervise()
			l.hold()
		}, false, func(t *testing.T, w *world, _ *life, _ store.Task) {
			t.Helper()
			checkReset(t, w)
		}},
		"configure-genesis, kept": {TypeConfigureGenesis, `{"chainId":"sample-1"}`, nothing, false, none},
		"configure-genesis, file": {TypeConfigureGenesis, `{"chainId":"sample-1","file":"g"}`, func(w *world, _ *life) { w.mountGenesis("g", otherGenesis) }, false, none},
		"configure-genesis, url":  {TypeConfigureGenesis, `{"chainId":"sample-1","url":"` + base + `/good","sha256":"` + sumOf(otherGenesis) + `"}`, nothing, false, none},
		"config-apply": {TypeConfigApply, document(2, `"config.p2p.max-connections":"5","app.evm.read_timeout":"9s"`), func(_ *world, l *life) {
			done[ConfigApplyResult](l, TypeConfigApply, document(1, `"config.p2p.pex":"false"`))
		}, false, none},
		"a dry run":            {TypeConfigApply, dry(document(2, "")), nothing, false, none},
		"configure-state-sync": {TypeConfigureStateSync, servers(a, b), nothing, false, none},
		"peers alone":          {TypeConfigApply, `{"peers":["` + strings.Repeat("a", 40) + `@host:26656"]}`, nothing, false, none},
		"await-condition": {TypeAwaitCondition, `{"height":{"targetHeight":7}}`, runs, false, func(t *testing.T, _ *world, _ *life, task store.Task) {
			t.Helper()
			if got := resultOf[AwaitConditionResult](t, task); got != (AwaitConditionResult{Met: true, Height: 7}) {
				t.Errorf("%+v", got)
			}
		}},
	}
}

func nothing(*world, *life) {}

// runs is an approved node whose seid runs.
func runs(w *world, l *life) {
	w.supervise()
	l.approve(w)
	w.seid()
}

func checkHeld(t *testing.T, w *world, l *life, _ store.Task) {
	t.Helper()
	w.awaitState("stopped", func(s supervisor.State) bool { return s.PID == 0 && s.State == supervisor.Stopped })
	if !l.tasks.Consent.State().Held {
		t.Error("the node is not held")
	}
	l.fails(ReasonHeld, false, TypeMarkReady, "")
	l.fails(ReasonHeld, false, TypeRestartSeid, "")
}

// checkRestarted sees that seid was stopped so many times and started once more.
func checkRestarted(t *testing.T, w *world, task store.Task, stops int) {
	t.Helper()
	w.control.Next(t)
	state, got := w.state(), resultOf[RestartSeidResult](t, task)
	if state.State != supervisor.Running || state.Instance != got.NewInstance || got.NewInstance == got.OldInstance {
		t.Errorf("%+v, %+v", state, got)
	}
	if state.Restarts[supervisor.Requested] != stops {
		t.Errorf("%d restarts, not %d", state.Restarts[supervisor.Requested], stops)
	}
	if last := state.LastExit; stops > 0 && (last == nil || last.Instance != got.OldInstance) {
		t.Errorf("there was one in between: %+v, %+v", last, got)
	}
}

// Wherever the sidecar dies, the next one brings the task to the same end.
func TestACrashAtEveryPoint(t *testing.T) {
	total := 0
	for name, c := range crashables(t) {
		t.Run(name, func(t *testing.T) {
			var want map[string]string
			var points []string
			t.Run("without", func(t *testing.T) {
				want, points = c.dieAt(t, 0)
			})
			// It is taken and it ends: there are two writes, with a point on either side.
			if len(points) < 4 {
				t.Fatalf("a sidecar dies at %d points only: %v", len(points), points)
			}
			for at := 1; at <= len(points) && !t.Failed(); at++ {
				t.Run(fmt.Sprintf("%d %s", at, points[at-1]), func(t *testing.T) {
					got, _ := c.dieAt(t, at)
					sameTree(t, got, want)
				})
			}
			total += len(points)
		})
	}
	if least := 4 * len(crashables(t)); total < least {
		t.Errorf("%d crashes, want %d at least", total, least)
	}
}

// dieAt carries the task out in a world of its own, with a sidecar that dies at a
// point and one that comes after it. It returns what is left, and the points.
func (c crashable) dieAt(t *testing.T, at int) (map[string]string, []string) {
	t.Helper()
	w := newWorld(t)
	before := w.live(nil)
	c.prepare(w, before)
	before.close()

	m := newMortal(at)
	l := w.live(m)
	if c.driven {
		l.driven()
	}
	id := uuid.New()
	ask := func(l *life) error {
		_, err := l.Submit(t.Context(), engine.Request{ID: id, Type: c.kind, Params: json.RawMessage(c.params)})
		return err
	}
	asked := ask(l)
	if at == 0 {
		if asked != nil {
			t.Fatal(asked)
		}
		l.ended(id)
		points := m.seen()
		c.finish(t, w, l, id)
		return w.tree(), points
	}
	select {
	case <-m.died:
	case <-time.After(patience):
		t.Fatal("it did not come so far")
	}
	l.close()

	l = w.live(nil)
	if c.driven {
		l.driven()
	}
	if err := ask(l); err != nil { // as a caller does that had no answer, or lost it
		t.Fatal(err)
	}
	c.finish(t, w, l, id)
	return w.tree(), nil
}

func (c crashable) finish(t *testing.T, w *world, l *life, id uuid.UUID) {
	t.Helper()
	task := l.ended(id)
	if task.Status != store.Completed || task.Run != 1 {
		t.Fatalf("it became %+v", task)
	}
	c.check(t, w, l, task)
}

// The sidecar dies while seid ends: the restart goes on without it, and the next
// sidecar finds it done.
func TestACrashWhileSeidEnds(t *testing.T) {
	w := newWorld(t)
	w.at = fakeseid.Addresses(fakeseid.Host(t))
	up := fakeseid.Serving(w.at, fakeseid.Facts{ChainID: chainID, NodeID: "n", Height: 7})[:len(w.at)+1]
	w.serving = append(up, fakeseid.Catch(fakeseid.WhenTold))
	w.supervise()
	l := w.live(nil)
	l.approve(w)
	old, p := w.seid()
	id := l.submit(TypeRestartSeid, "")
	p.Signal(t)
	l.close()
	p.Do(t, fakeseid.Exit(0))
	second := w.control.Next(t)
	l = w.live(nil)
	got := result[RestartSeidResult](t, l.ended(id))
	if got.OldInstance != old.Instance || got.PID != second.PID || w.state().Restarts[supervisor.Requested] != 1 {
		t.Errorf("%+v, %+v", got, w.state())
	}
	second.Do(t, fakeseid.Exit(0))
}

// restartThatWaits starts a seid that is not safe to stop. A sidecar asks for its restart and
// dies. What is asked of the supervisor is announced.
func (w *world) restartThatWaits() (p *fakeseid.Process, id uuid.UUID, asked chan struct{}, announce option) {
	w.t.Helper()
	w.write("config/config.toml", strings.Replace(w.read("config/config.toml"), "enable = false", "enable = true", 1))
	w.serving = []fakeseid.Step{fakeseid.Catch(fakeseid.AtOnce)}
	w.supervise()
	if _, err := w.client.Start(w.t.Context(), supervisor.StartRequest{}); err != nil {
		w.t.Fatal(err)
	}
	p = w.control.Next(w.t)
	asked = make(chan struct{}, 2)
	announce = func(s *tasks) { s.Supervisor = &herald{w.client, asked} }
	l := w.live(nil, announce)
	l.approve(w)
	id = l.submit(TypeRestartSeid, "")
	<-asked
	l.close()
	return p, id, asked, announce
}

// The sidecar dies while it waits for the moment to stop seid: nothing has happened
// yet, and the next sidecar asks again.
func TestACrashBeforeItIsSafe(t *testing.T) {
	w := newWorld(t)
	p, id, asked, announce := w.restartThatWaits()
	l := w.live(nil, announce)
	<-asked
	up := fakeseid.Serving(w.at, fakeseid.Facts{ChainID: chainID, NodeID: "n", Height: 7})[:len(w.at)+1]
	p.Do(t, up...)
	w.awaitState("answering", func(s supervisor.State) bool { return s.State == supervisor.Running })
	p.Do(t, fakeseid.Block(2))
	second := w.control.Next(t)
	second.Do(t, up...)
	if got := result[RestartSeidResult](t, l.ended(id)); got.PID != second.PID || w.state().Restarts[supervisor.Requested] != 1 {
		t.Errorf("%+v, %+v", got, w.state())
	}
}

// The sidecar dies while it waits for the moment to stop seid, and comes back a day
// later. The caller gave up on that restart: the seid that was meant is left alone. One
// that was replaced meanwhile is the restart.
func TestARestartIsNotCarriedOutADayLater(t *testing.T) {
	for name, replaced := range map[string]bool{"the same seid lives": false, "it was replaced": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.wall = clocktesting.NewFakeClock(time.Now())
			p, id, asked, announce := w.restartThatWaits()
			up := fakeseid.Serving(w.at, fakeseid.Facts{ChainID: chainID, NodeID: "n", Height: 7})[:len(w.at)+1]
			if replaced {
				force := supervisor.StopRequest{Instance: w.state().Instance, Force: true}
				if _, err := w.client.Restart(t.Context(), supervisor.RestartRequest{StopRequest: force}); err != nil {
					t.Fatal(err)
				}
				p = w.control.Next(t)
			}
			p.Do(t, up...)
			w.awaitState("answering", func(s supervisor.State) bool { return s.State == supervisor.Running })
			p.Do(t, fakeseid.Block(2))
			w.awaitState("safe to stop", safe)
			w.wall.SetTime(w.wall.Now().Add(24 * time.Hour))
			task := w.live(nil, announce).ended(id)
			if replaced {
				result[RestartSeidResult](t, task)
			} else {
				failed(t, task, ReasonDeadlineExceeded, true)
			}
			if state := w.state(); len(asked) != 0 || state.PID != p.PID {
				t.Errorf("%d restarts were asked for; the seid is %+v", len(asked), state)
			}
		})
	}
}

// herald tells of restarts before it passes them on.
type herald struct {
	*supervisor.Client
	asked chan struct{}
}

func (h *herald) Restart(ctx context.Context, r supervisor.RestartRequest) (supervisor.State, error) {
	h.asked <- struct{}{}
	return h.Client.Restart(ctx, r)
}

// The sidecar dies between the files that a document changes.
func TestACrashBetweenConfigurationFiles(t *testing.T) {
	params := document(2, `"config.p2p.max-connections":"5","app.evm.read_timeout":"9s"`)
	whole := newWorld(t)
	done[ConfigApplyResult](whole.live(nil), TypeConfigApply, params)
	want := whole.tree()

	// A name that is taken stops it after it has written down what the values were,
	// and before the first file.
	first := newWorld(t)
	blocked := filepath.Join(first.home.ConfigDir(), ".client.toml.new")
	if err := os.Mkdir(blocked, 0o700); err != nil {
		t.Fatal(err)
	}
	first.live(nil).fails(ReasonVolumeError, true, TypeConfigApply, params)
	steps := []struct{ name, content string }{
		{".sei-sidecar/configuration.json", first.read(".sei-sidecar/configuration.json")},
		{"config/.client.toml.new", "half"},
		{"config/config.toml", want["config/config.toml"]},
		{"config/app.toml", want["config/app.toml"]},
		{"config/client.toml", want["config/client.toml"]},
		{".sei-sidecar/configuration.json", want[".sei-sidecar/configuration.json"]},
	}
	for n := range len(steps) + 1 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			for _, step := range steps[:n] {
				w.write(step.name, step.content)
				dir, file := filepath.Split(filepath.Join(string(w.home), step.name))
				_ = os.Remove(filepath.Join(dir, "."+file+".new")) // a file is renamed into its place
			}
			l := w.live(nil)
			done[ConfigApplyResult](l, TypeConfigApply, params)
			sameTree(t, w.tree(), want)
			// And it can still be undone.
			done[ConfigApplyResult](l, TypeConfigApply, document(3, ""))
			if !strings.Contains(w.read("config/config.toml"), "max-connections = 100\n") {
				t.Error("the value it had before is lost")
			}
		})
	}
}
