package main

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/client"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

// TestHoldWinsOverARestartUnderWay: seid is on its way down for a restart when the
// hold comes; it must not come up again.
func TestHoldWinsOverARestartUnderWay(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.script[len(p.script)-1] = fakeseid.Catch(fakeseid.WhenTold) // it ends when the test says so
	_, _, node := p.bringUp()
	p.untilStatus("stopping is safe", func(s api.Status) bool { return s.Seid.SafeToStop })
	p.submit("restart-seid", map[string]any{})
	node.Signal(t)
	p.untilStatus("the restart stops it", func(s api.Status) bool { return s.Seid.State == api.SeidStopping })
	p.must("mark-not-ready", map[string]any{})
	stopping := p.submit("stop-seid", map[string]any{})
	p.untilStatus("the hold is known", func(s api.Status) bool { return s.Held })
	node.Do(t, fakeseid.Exit(0))
	result, err := p.client.Wait(t.Context(), stopping, patience)
	if err != nil || result.Status != api.TaskCompleted {
		t.Fatalf("stop-seid: %+v, %v", result, err)
	}
	status := p.untilStatus("it is stopped", func(s api.Status) bool { return s.Seid.Pid == 0 })
	if status.Seid.State != api.SeidStopped || !status.Held {
		t.Errorf("a held node: %+v", status)
	}
	p.must("release-hold", map[string]any{})
	if next := p.control.Next(t); next.PID == node.PID {
		t.Error("the released node did not start anew")
	}
}

// TestKeyThatIsNotTheApprovedOne: approved with the key it has, the pod comes back
// with another one. Nothing runs, and both keys are named.
func TestKeyThatIsNotTheApprovedOne(t *testing.T) {
	t.Parallel()
	p, _, supervisor, _ := running(t)
	approved := p.untilStatus("the key is known", func(s api.Status) bool { return s.SigningPublicKey != "" }).SigningPublicKey
	p.must("mark-ready", map[string]any{"publicKey": approved})
	supervisor.signal(syscall.SIGTERM)
	if code := supervisor.wait(); code != 0 {
		t.Fatalf("the supervisor ended with %d", code)
	}
	file, other := fakeseid.SigningKey("another key")
	if err := os.WriteFile(p.home.SigningKey(), file, 0o600); err != nil {
		t.Fatal(err)
	}
	p.supervise()
	status := p.untilStatus("it is parked", func(s api.Status) bool { return s.Seid.State == api.SeidParked })
	if status.Seid.ParkedBecause != "KeyIdentityChanged" || status.Seid.Pid != 0 || status.SigningPublicKey != other {
		t.Errorf("the wrong key is not told: %+v", status)
	}
	p.must("mark-ready", map[string]any{"publicKey": other})
	p.control.Next(t)
}

// TestDamageStopsNothing: a torn task store, a torn approval and a torn hold are each
// told, and a seid that runs goes on running.
func TestDamageStopsNothing(t *testing.T) {
	t.Parallel()
	for file, reason := range map[string]string{
		"tasks/00000000-0000-4000-8000-000000000000.json": "TaskStoreMovedAside",
		"tasks.db":      "TaskStoreMovedAside", // of an older sidecar
		"approval.json": "ApprovalUnreadable", "hold.json": "HoldUnreadable",
		"configuration.json": "ConfigurationUnreadable",
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			p, sidecar, _, node := running(t)
			sidecar.signal(syscall.SIGKILL)
			sidecar.wait()
			path := filepath.Join(string(p.home), ".sei-sidecar", file)
			if err := os.WriteFile(path, []byte("torn"), 0o600); err != nil {
				t.Fatal(err)
			}
			p.serve()
			status := p.untilStatus("the damage is told", func(s api.Status) bool {
				for _, problem := range s.Problems {
					if problem.Reason == reason {
						return s.Seid.State == api.SeidRunning
					}
				}
				return false
			})
			if status.Seid.Pid != node.PID || !alive(node.PID) {
				t.Errorf("seid was touched: %+v", status)
			}
		})
	}
}

// TestSignHeightIsThatOfNow: a validator that started fresh signs, and the status
// says so.
func TestSignHeightIsThatOfNow(t *testing.T) {
	t.Parallel()
	p, _, _, node := running(t)
	node.Do(t, fakeseid.Sign(42))
	p.untilStatus("the height is told", func(s api.Status) bool { return s.SignHeight != nil && *s.SignHeight == 42 })
}

// TestBadDocumentIsTold: the pod moved, its newest document cannot be applied; seid
// starts with what it has, and the status says why.
func TestBadDocumentIsTold(t *testing.T) {
	t.Parallel()
	p, _, supervisor, _ := running(t)
	p.mount(intent(2, map[string]string{"config.p2p.laddr": "tcp://0.0.0.0:1"}))
	supervisor.signal(syscall.SIGTERM)
	supervisor.wait()
	p.supervise()
	p.control.Next(t)
	status := p.untilStatus("it is told", func(s api.Status) bool {
		for _, problem := range s.Problems {
			if problem.Reason == "ConfigurationNotApplied" {
				return true
			}
		}
		return false
	})
	if status.Config.Serial != 1 {
		t.Errorf("serial %d is applied", status.Config.Serial)
	}
}

// TestFullDisk: nothing that the sidecar writes can be written any more. Tasks are
// refused with a reason, seid goes on running, and everything works again when there
// is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	p, sidecar, _, node := running(t)
	room := func(bytes uint64) {
		t.Helper()
		limit := &unix.Rlimit{Cur: bytes, Max: 1 << 40}
		if err := unix.Prlimit(sidecar.command.Process.Pid, unix.RLIMIT_FSIZE, limit, nil); err != nil {
			t.Fatal(err)
		}
	}
	room(0)
	for _, kind := range []string{"mark-not-ready", "restart-seid"} {
		if _, err := p.client.Submit(t.Context(), newTask(t, kind, map[string]any{})); client.Reason(err) != api.ReasonStoreUnavailable {
			t.Errorf("%s on a full disk: %v", kind, err)
		}
	}
	status := p.untilStatus("it is told", func(s api.Status) bool {
		return slices.ContainsFunc(s.Problems, func(problem api.Problem) bool { return problem.Reason == api.ReasonStoreUnavailable })
	})
	if status.Seid.Pid != node.PID || !alive(node.PID) || !status.Approved || status.Held {
		t.Errorf("the full disk changed the node: %+v", status)
	}
	if err := p.client.Healthz(t.Context()); err != nil {
		t.Errorf("health was lost: %v", err)
	}
	room(1 << 40)
	p.must("mark-not-ready", map[string]any{})
	node.AwaitExit(t)
}
