package node

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/configure"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/signer"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

func TestDecide(t *testing.T) {
	approval := &consent.Approval{PublicKey: "key", NodeID: "id"}
	approved := consent.State{Approved: true, Approval: approval}
	held := consent.State{Approved: true, Approval: approval, Held: true, Hold: &consent.Hold{}}
	doubt := consent.State{Approved: true, Approval: approval, Held: true}
	same := supervisor.Identity{PublicKey: "key", NodeID: "id"}
	other := supervisor.Identity{PublicKey: "other", NodeID: "id"}
	for name, c := range map[string]struct {
		allowed consent.State
		state   supervisor.State
		tried   supervisor.Identity
		want    act
	}{
		"approved, and it waits":                           {approved, supervisor.State{State: supervisor.Waiting}, same, start},
		"approved, and it is stopped":                      {approved, supervisor.State{State: supervisor.Stopped}, same, start},
		"approved, and it runs":                            {approved, supervisor.State{State: supervisor.Running, PID: 7}, same, leave},
		"approved, and it is stopping":                     {approved, supervisor.State{State: supervisor.Stopping, PID: 7}, same, leave},
		"not approved, and it waits":                       {consent.State{}, supervisor.State{State: supervisor.Waiting}, same, leave},
		"not approved, and it runs":                        {consent.State{}, supervisor.State{State: supervisor.Running, PID: 7}, same, stop},
		"held, and it waits":                               {held, supervisor.State{State: supervisor.Waiting}, same, leave},
		"held, and it starts":                              {held, supervisor.State{State: supervisor.Starting, PID: 7}, same, stop},
		"held, while a restart stops it":                   {held, supervisor.State{State: supervisor.Stopping, PID: 7}, same, stop},
		"a hold that cannot be read, and it runs":          {doubt, supervisor.State{State: supervisor.Running, PID: 7}, same, leave},
		"a hold that cannot be read, and it waits":         {doubt, supervisor.State{State: supervisor.Waiting}, same, leave},
		"the container is about to end":                    {approved, supervisor.State{State: supervisor.Waiting, Terminating: true}, same, leave},
		"halted for an upgrade":                            {approved, supervisor.State{State: supervisor.Parked, ParkedBecause: supervisor.ParkedUpgrade}, other, leave},
		"the binary is too new":                            {approved, supervisor.State{State: supervisor.Parked, ParkedBecause: supervisor.ParkedTooNew}, other, leave},
		"the binary is too old":                            {approved, supervisor.State{State: supervisor.Parked, ParkedBecause: supervisor.ParkedTooOld}, other, leave},
		"the keys did not fit, and nothing changed":        {approved, supervisor.State{State: supervisor.Parked, ParkedBecause: supervisor.ParkedKeys}, same, leave},
		"the keys did not fit, and another key is allowed": {approved, supervisor.State{State: supervisor.Parked, ParkedBecause: supervisor.ParkedKeys}, other, start},
	} {
		if got := decide(c.allowed, c.state, c.tried); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestUpgrade(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	planned := &seid.Metrics{Upgrades: []seid.Upgrade{{Name: "v6", Height: 50}, {Name: "v7", Height: 101, Info: "info"}}}
	at := func(height int64, age time.Duration) *seid.Status {
		return &seid.Status{LatestBlockHeight: height, LatestBlockTime: now.Add(-age)}
	}
	halted := supervisor.State{Upgrade: &supervisor.Upgrade{Name: "v8", Height: 200}}
	lives := func(age time.Duration) supervisor.State { return supervisor.State{Since: now.Add(-age)} }
	for name, c := range map[string]struct {
		state  supervisor.State
		sample sample
		want   string
		halted bool
	}{
		"nothing is known":                 {want: ""},
		"planned, and far away":            {sample: sample{status: at(90, time.Hour), metrics: planned}, want: "v7"},
		"one below, a moment ago":          {sample: sample{status: at(100, time.Second), metrics: planned}, want: "v7"},
		"one below, and nothing comes":     {sample: sample{status: at(100, time.Hour), metrics: planned}, want: "v7", halted: true},
		"one below, and started just now":  {state: lives(time.Second), sample: sample{status: at(100, time.Hour), metrics: planned}, want: "v7"},
		"one below, for long":              {state: lives(time.Hour), sample: sample{status: at(100, 2*time.Hour), metrics: planned}, want: "v7", halted: true},
		"past all plans":                   {sample: sample{status: at(101, time.Hour), metrics: planned}, want: ""},
		"seid halted, which is proven":     {state: halted, want: "v8", halted: true},
		"a halt counts more than any plan": {state: halted, sample: sample{status: at(90, 0), metrics: planned}, want: "v8", halted: true},
	} {
		if got := upgradeOf(c.state, true, c.sample, now); got.Name != c.want || got.Halted != c.halted {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestUpgradeAtRealHeights: seid's metrics round the height to 24 bits. A node one block
// below is halted also where the rounded height is another one, and what is only near
// the height is never given out as it.
func TestUpgradeAtRealHeights(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, height := range []int64{101, 1<<24 - 1, 1 << 24, 1<<24 + 1, 134_000_007, 178_123_455, 178_123_456, 178_123_457, 178_123_463, 178_123_465, 999_999_999} {
		plan := seid.Upgrade{Name: "v7", Height: height}
		shown := seid.Upgrade{Name: "v7", Height: int64(float32(height))}
		for _, behind := range []int64{1, 2, 40, 0} {
			latest := height - behind
			status := &seid.Status{LatestBlockHeight: latest, LatestBlockTime: now.Add(-time.Hour)}
			metrics := &seid.Metrics{Upgrades: []seid.Upgrade{shown}}

			exact := upgradeOf(supervisor.State{}, true, sample{status: status, metrics: metrics, plan: &plan, planned: true}, now)
			want := api.Upgrade{Name: "v7", Height: height, Halted: behind == 1}
			if behind == 0 {
				want = api.Upgrade{}
			}
			if exact != want {
				t.Errorf("plan %d, latest %d: %+v", height, latest, exact)
			}

			near := upgradeOf(supervisor.State{}, true, sample{status: status, metrics: metrics}, now)
			if behind == 1 && !near.Halted {
				t.Errorf("plan %d, latest %d: nobody is told of the halt: %+v", height, latest, near)
			}
			if near.Name != "" && near.Height != height && !near.Rounded {
				t.Errorf("plan %d, latest %d: a wrong height is named: %+v", height, latest, near)
			}
		}
	}
}

// TestPlanIsAskedForExactly: through RPC and metrics as seid has them.
func TestPlanIsAskedForExactly(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	plan, asked := base64.StdEncoding.EncodeToString([]byte("\x0a\x0b\x0a\x04v6.6\x18\xc1\xe5\xf7\x54")), 0
	page, blockTime, height, busy := "", now, int64(178_123_456), false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/status":
			fmt.Fprintf(w, `{"node_info":{"id":"x","network":"pacific-1"},"sync_info":{"latest_block_height":"%d","latest_block_time":%q,"catching_up":false}}`, height, blockTime.Format(time.RFC3339))
		case "/metrics":
			fmt.Fprint(w, page)
		case "/abci_query":
			asked++
			if busy {
				http.Error(w, "busy", http.StatusInternalServerError)
				return
			}
			fmt.Fprintf(w, `{"response":{"value":%q,"height":"7"}}`, plan)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	rpc, err := seid.NewClient(server.Client(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	n := New(Options{Home: seid.Home(t.TempDir()), RPC: rpc, HTTP: server.Client(), Metrics: server.URL + "/metrics", Clock: clocktesting.NewFakeClock(now)})
	instance := "a"
	see := func() api.Upgrade { return upgradeOf(supervisor.State{}, true, n.ask(t.Context(), instance), now) }

	if got := see(); got.Name != "" || asked != 0 {
		t.Errorf("no plan is shown and blocks come: %+v, asked %d times", got, asked)
	}
	page = "cosmos_upgrade_plan_height{name=\"v6.6\",info=\"\"} 1.78123456e+08\n"
	if got := see(); got != (api.Upgrade{Name: "v6.6", Height: 178_123_457}) {
		t.Errorf("a moment ago: %+v", got)
	}
	blockTime = now.Add(-time.Hour)
	if got := see(); got != (api.Upgrade{Name: "v6.6", Height: 178_123_457, Halted: true}) {
		t.Errorf("no block comes: %+v", got)
	}
	// A question that goes unanswered once changes nothing: the message would name another
	// height for a moment, and a halt that only the answer tells of would be over.
	unanswered := func(what string, want api.Upgrade) {
		t.Helper()
		busy = true
		if got := see(); got != want {
			t.Errorf("%s, unanswered: %+v", what, got)
		}
		busy = false
	}
	unanswered("no block comes", api.Upgrade{Name: "v6.6", Height: 178_123_457, Halted: true})
	instance = "b"
	unanswered("another seid", api.Upgrade{Name: "v6.6", Height: 178_123_456, Halted: true, Rounded: true})
	// A process that was started here executed no block, and shows no plan.
	page = ""
	if got := see(); !got.Halted || got.Height != 178_123_457 {
		t.Errorf("after a restart: %+v", got)
	}
	unanswered("after a restart", api.Upgrade{Name: "v6.6", Height: 178_123_457, Halted: true})
	page = "cosmos_upgrade_plan_height{name=\"v7\",info=\"\"} 1.9e+08\n"
	unanswered("another plan", api.Upgrade{Name: "v7", Height: 190_000_000, Rounded: true})
	// A plan that was cancelled stays in the metrics.
	page, plan = "cosmos_upgrade_plan_height{name=\"v6.6\",info=\"\"} 1.78123456e+08\n", ""
	if got := see(); got.Name != "" {
		t.Errorf("cancelled: %+v", got)
	}
	unanswered("cancelled", api.Upgrade{})
}

// TestAMissingSampleEndsNoHalt: a busy seid does not answer each question in time.
func TestAMissingSampleEndsNoHalt(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	may, err := consent.Open(t.TempDir(), "uid", nil)
	if err != nil {
		t.Fatal(err)
	}
	home := seid.Home(t.TempDir())
	n := New(Options{
		Home: home, Consent: may, Signer: signer.New(signer.Options{Home: home, Consent: may}),
		Config: configure.New(home, t.TempDir(), ""), Clock: clock,
	})
	n.update(func() {
		n.connected = true
		n.state = supervisor.State{State: supervisor.Running, PID: 7, Instance: "a", Since: clock.Now().Add(-time.Hour)}
	})
	status := &seid.Status{LatestBlockHeight: 100, LatestBlockTime: clock.Now().Add(-time.Hour)}
	halted := sample{status: status, metrics: &seid.Metrics{Upgrades: []seid.Upgrade{{Name: "v7", Height: 101}}}}
	for _, missing := range []sample{{}, {status: status}, {metrics: halted.metrics}} {
		n.believe(halted)
		clock.Step(samplePeriod)
		n.believe(missing)
		if got := n.Node().Upgrade; !got.Halted {
			t.Errorf("%+v: %+v", missing, got)
		}
	}
	n.believe(halted)
	n.believe(sample{status: status, metrics: &seid.Metrics{}})
	if got := n.Node().Upgrade; got.Name != "" {
		t.Errorf("a sample says that there is none: %+v", got)
	}
	n.believe(halted)
	n.update(func() { n.state.Instance = "b" })
	n.believe(sample{})
	if got := n.Node().Upgrade; got.Name != "" {
		t.Errorf("another process: %+v", got)
	}
	n.update(func() { n.state.Instance = "a" })
	n.believe(halted)
	clock.Step(rememberFor)
	n.believe(sample{})
	if got := n.Node().Upgrade; got.Name != "" {
		t.Errorf("nothing was heard for long: %+v", got)
	}
}

// TestAnUpgradeThatStandsInTheWayIsNews: a node that stalls one block below an upgrade
// is alive, and nothing else about it changes.
func TestAnUpgradeThatStandsInTheWayIsNews(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	n := New(Options{Home: seid.Home(t.TempDir()), Clock: clock})
	planned, produced := &seid.Metrics{Upgrades: []seid.Upgrade{{Name: "v7", Height: 101}}}, clock.Now()
	for _, step := range []struct {
		what    string
		height  int64
		age     time.Duration
		metrics *seid.Metrics
		news    bool
	}{
		{"RPC answers", 96, 0, &seid.Metrics{}, true},
		{"seid has executed a block", 98, 0, &seid.Metrics{}, true},
		{"a block", 99, 0, &seid.Metrics{}, false},
		{"an upgrade is planned", 99, 0, planned, true},
		{"one block below", 100, 0, planned, false},
		{"nothing comes", 100, time.Hour, planned, true},
		{"still nothing", 100, 0, planned, false},
		{"the chain goes on", 101, 0, planned, true},
		{"another block", 102, 0, planned, false},
	} {
		clock.Step(step.age)
		changed := n.Changed()
		n.believe(sample{status: &seid.Status{LatestBlockHeight: step.height, LatestBlockTime: produced}, metrics: step.metrics})
		select {
		case <-changed:
			if !step.news {
				t.Errorf("%s: it was told of", step.what)
			}
		default:
			if step.news {
				t.Errorf("%s: nobody was told", step.what)
			}
		}
	}
}

// TestFiguresThatAreNotKnownAreAbsent: a zero would be a lie that alerts believe.
func TestFiguresThatAreNotKnownAreAbsent(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	n := New(Options{Home: seid.Home(t.TempDir()), Clock: clocktesting.NewFakeClock(now)})
	registry := prometheus.NewRegistry()
	registry.MustRegister(n)
	names := func() map[string]float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]float64{}
		for _, family := range families {
			metric := family.GetMetric()[0]
			found[family.GetName()] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
		return found
	}
	if got := names(); len(got) != 0 {
		t.Errorf("before anything is known: %v", got)
	}
	signed, missed, power := int64(99), int64(3), int64(7)
	n.update(func() {
		n.connected, n.free, n.total = true, 10, 100
		n.state = supervisor.State{State: supervisor.Running, PID: 7, Restarts: map[supervisor.Cause]int{supervisor.Requested: 2}}
		n.sample = sample{
			status:  &seid.Status{LatestBlockHeight: 100, LatestBlockTime: now.Add(-4 * time.Second), CatchingUp: true},
			lag:     &seid.LagStatus{Lag: 12},
			net:     &seid.NetInfo{Known: 9, Connected: []string{"a", "b"}},
			metrics: &seid.Metrics{ValidatorLastSignedHeight: &signed, ValidatorMissedBlocks: &missed, ValidatorPower: &power},
		}
	})
	for name, want := range map[string]float64{
		"sei_node_up": 1, "sei_node_rpc_up": 1, "sei_node_height": 100, "sei_node_height_age_seconds": 4,
		"sei_node_lag_blocks": 12, "sei_node_catching_up": 1, "sei_node_peers": 2, "sei_node_voting_power": 7,
		"sei_node_volume_free_bytes": 10, "sei_node_volume_total_bytes": 100, "sei_node_last_signed_height": 99, "sei_node_missed_blocks": 3, "sei_node_restarts_total": 2,
	} {
		if got, ok := names()[name]; !ok || got != want {
			t.Errorf("%s is %v (%v), want %v", name, got, ok, want)
		}
	}
}
