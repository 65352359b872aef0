package node

import (
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// TestAParentThatIsSilentIsToldWithTheTime: the operator waits for one that was there a
// moment ago, and not for one that is gone.
func TestAParentThatIsSilentIsToldWithTheTime(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	n := New(Options{Home: seid.Home(t.TempDir()), Clock: clock})
	view := n.seid
	begun := clock.Now()
	clock.Step(time.Minute)
	n.heard(supervisor.State{}, errors.New("nobody listens"))
	if got := view(); got.State != api.SeidUnknown || !got.Since.Equal(begun) {
		t.Errorf("one that was never heard of: %+v", got)
	}
	n.heard(supervisor.State{State: supervisor.Running, PID: 7, SafeToStop: true}, nil)
	if got := view(); got.State != api.SeidRunning || !got.SafeToStop {
		t.Errorf("one that answers: %+v", got)
	}
	clock.Step(time.Minute)
	n.heard(supervisor.State{}, errors.New("nobody listens"))
	silent := clock.Now()
	clock.Step(time.Minute)
	n.heard(supervisor.State{}, errors.New("nobody listens"))
	if got := view(); got.State != api.SeidUnknown || got.SafeToStop || !got.Since.Equal(silent) {
		t.Errorf("one that is silent: %+v, want since %s", got, silent)
	}
}
