package node

import (
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/readiness"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// sampled is what a node says with so many connections and a block of this age.
func sampled(now time.Time, height int64, connected int, age time.Duration) sample {
	return sample{
		status: &seid.Status{LatestBlockHeight: height, LatestBlockTime: now.Add(-age)},
		lag:    &seid.LagStatus{CurrentHeight: height, MaxPeerHeight: height},
		net:    &seid.NetInfo{Known: 3, Connected: make([]string, connected)},
	}
}

func TestJudge(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lives, gone := supervisor.State{State: supervisor.Running, PID: 7}, supervisor.State{State: supervisor.Stopped}
	well := sampled(now, 100, 1, 0)
	half := well
	half.lag = nil
	for what, c := range map[string]struct {
		state   supervisor.State
		wanted  bool
		sample  sample
		reason  readiness.Reason
		certain bool
	}{
		"it follows the chain":      {lives, true, well, readiness.Following, false},
		"held, and it has ended":    {gone, false, sample{}, notRunning, true},
		"held, and it still runs":   {lives, false, well, readiness.Following, false},
		"parked":                    {supervisor.State{State: supervisor.Parked}, true, sample{}, notRunning, true},
		"between two lives":         {gone, true, sample{}, readiness.NotAnswering, false},
		"its RPC is closed":         {supervisor.State{State: supervisor.Starting, PID: 7}, true, sample{}, readiness.NotAnswering, false},
		"it answers by half":        {lives, true, half, readiness.NotAnswering, false},
		"its data was removed":      {lives, true, sampled(now, 0, 1, 0), readiness.NoBlocks, true},
		"a seed":                    {lives, true, sample{seed: true}, readiness.Following, true},
		"a seed that starts":        {supervisor.State{State: supervisor.Starting, PID: 7}, true, sample{seed: true}, readiness.NotAnswering, false},
		"nobody is connected":       {lives, true, sampled(now, 100, 0, 0), readiness.NoPeers, false},
		"the chain makes no blocks": {lives, true, sampled(now, 100, 1, time.Hour), readiness.NetworkStalled, false},
	} {
		watched := watch{}.next(100, now)
		if got, certain := judge(c.state, c.wanted, c.sample, watched, now); got.Reason != c.reason || certain != c.certain {
			t.Errorf("%s: %+v, %v", what, got, certain)
		}
	}
}

// TestReadinessIsToldCalmly: a restart in place is no news, data that is gone is at once,
// and numbers alone are hardly ever.
func TestReadinessIsToldCalmly(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	allowed, err := consent.Open(t.TempDir(), "uid", nil)
	if err != nil {
		t.Fatal(err)
	}
	n := New(Options{Home: seid.Home(t.TempDir()), Clock: clock, Consent: allowed})
	n.connected = true
	silent := func(time.Time) sample { return sample{} }
	well := func(now time.Time) sample { return sampled(now, 100+now.Unix()%1e6, 2, 0) }
	lonely := func(now time.Time) sample { return sampled(now, 1e7, 0, 0) }
	stalled := func(now time.Time) sample { return sampled(now, 2e7, 2, time.Hour) }
	empty := func(now time.Time) sample { return sampled(now, 0, 2, 0) }
	for i, step := range []struct {
		after  time.Duration
		sample func(time.Time) sample
		pid    int
		ready  bool
		reason string
		says   string
	}{
		{0, silent, 7, false, "", ""},
		{5 * time.Second, well, 7, true, "Following", ""},
		// A restart in place: RPC is away, then nobody is connected.
		{time.Minute, silent, 7, true, "Following", ""},
		{5 * time.Second, lonely, 7, true, "Following", ""},
		{20 * time.Second, lonely, 7, true, "Following", ""},
		{4 * time.Second, well, 7, true, "Following", ""},
		{4 * time.Second, lonely, 7, true, "Following", ""},
		{25 * time.Second, lonely, 7, true, "Following", ""},
		// It does not come back.
		{5 * time.Second, lonely, 7, false, "NoPeers", "3 addresses known"},
		{5 * time.Second, silent, 7, false, "NoPeers", ""},
		{5 * time.Second, lonely, 7, false, "NoPeers", ""},
		{5 * time.Second, silent, 7, false, "NoPeers", ""},
		{10 * time.Second, silent, 7, false, "NotAnswering", "does not answer"},
		{5 * time.Second, well, 7, true, "Following", ""},
		{5 * time.Second, stalled, 7, true, "Following", ""}, // the height grew
		{6 * time.Minute, stalled, 7, true, "NetworkStalled", "1h0m0s"},
		{5 * time.Second, empty, 7, false, "NoBlocks", "height 0"},
		{5 * time.Second, well, 7, true, "Following", ""},
		// It is not approved, and has ended.
		{time.Second, silent, 0, false, "NotRunning", "does not run"},
		{time.Second, silent, 7, false, "NotRunning", ""},
		{time.Second, well, 7, true, "Following", ""},
	} {
		clock.Step(step.after)
		n.state = supervisor.State{State: supervisor.Running, PID: step.pid}
		n.believe(step.sample(clock.Now()))
		if got := readinessOf(n.told); got.Ready != step.ready || got.Reason != step.reason || !strings.Contains(got.Message, step.says) {
			t.Errorf("step %d: %+v, want %+v", i, got, step)
		}
	}
	// With every block there is another sample, and no news.
	changed := n.Changed()
	for range 100 {
		clock.Step(5 * time.Second)
		n.believe(well(clock.Now()))
	}
	select {
	case <-changed:
		t.Error("a node that follows the chain is news")
	default:
	}
	// For a day the chain stands still.
	var messages []api.Readiness
	for range int(24 * time.Hour / (5 * time.Second)) {
		clock.Step(5 * time.Second)
		n.believe(sampled(clock.Now(), 3e7, 2, clock.Now().Sub(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))))
		if now := readinessOf(n.told); len(messages) == 0 || messages[len(messages)-1] != now {
			messages = append(messages, now)
		}
	}
	if len(messages) < 20 || len(messages) > 40 {
		t.Errorf("in a day without a block there were %d messages", len(messages))
	}
}

// TestTheHeightIsWatched: a machine's clock may be wrong by hours, and how long a height
// was seen not to change does not depend on it.
func TestTheHeightIsWatched(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := watch{}.next(100, begin)
	at := func(after time.Duration, height int64, ahead time.Duration) readiness.Verdict {
		now := begin.Add(after)
		w = w.next(height, now)
		s := sampled(now, height, 1, ahead)
		s.lag.MaxPeerHeight = 150
		return readiness.Judge(s.facts(w, now))
	}
	if got := at(time.Minute, 100, -24*time.Hour); !got.Ready {
		t.Errorf("the clock is behind: %+v", got)
	}
	if got := at(6*time.Minute, 100, -24*time.Hour); got.Reason != readiness.BlockTooOld {
		t.Errorf("the clock is behind, and no block comes: %+v", got)
	}
	if got := at(7*time.Minute, 150, 24*time.Hour); got.Reason != readiness.Following {
		t.Errorf("the clock is ahead, and blocks come: %+v", got)
	}
	if got := at(13*time.Minute, 150, 24*time.Hour); got.Reason != readiness.NetworkStalled {
		t.Errorf("no block comes: %+v", got)
	}
	if got := at(14*time.Minute, 10, 0); got.Reason != readiness.Following {
		t.Errorf("another chain: %+v", got)
	}
}
