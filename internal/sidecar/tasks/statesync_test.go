package tasks

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/seid"
)

// rpc is a node's RPC.
type rpc struct {
	*httptest.Server

	asked chan string

	mu sync.Mutex
	facts
	network  string
	earliest int64
	fork     string // its blocks are others
	broken   bool   // it has no blocks to show
	silent   chan struct{}
}

// facts are what it says of itself.
type facts struct {
	height, maxPeer int64
	catchingUp      bool
}

func newRPC(t *testing.T, height int64) *rpc {
	t.Helper()
	r := &rpc{network: chainID, facts: facts{height: height}, earliest: 1, asked: make(chan string, 10000)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *rpc) set(change func(*rpc)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

func (r *rpc) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.silent != nil {
		close(r.silent)
		r.silent = nil
		<-request.Context().Done()
		return
	}
	r.asked <- request.URL.Path
	switch request.URL.Path {
	case "/status":
		fmt.Fprintf(w, `{"node_info":{"id":"x","network":%q},"sync_info":{"latest_block_height":"%d","earliest_block_height":"%d","max_peer_block_height":"%d","catching_up":%t}}`,
			r.network, r.height, r.earliest, r.maxPeer, r.catchingUp)
	case "/lag_status":
		lag := max(0, r.maxPeer-r.height)
		if lag > 300 {
			w.WriteHeader(http.StatusExpectationFailed)
		}
		fmt.Fprintf(w, `{"current_height":"%d","max_peer_height":"%d","lag":"%d"}`, r.height, r.maxPeer, lag)
	case "/block":
		height, err := strconv.ParseInt(request.URL.Query().Get("height"), 10, 64)
		if err != nil || height < r.earliest || height > r.height || r.broken {
			fmt.Fprint(w, `{"code":-32603,"message":"Internal error","data":"no such block"}`)
			return
		}
		fmt.Fprintf(w, `{"block_id":{"hash":%q},"block":{"header":{"height":"%d"}}}`, hashAt(r.fork, height), height)
	}
}

func hashAt(fork string, height int64) string {
	return strings.ToUpper(sumOf(fmt.Sprint(fork, height)))
}

func servers(nodes ...*rpc) string {
	var list []string
	for _, node := range nodes {
		list = append(list, strconv.Quote(node.URL))
	}
	return `{"rpcServers":[` + strings.Join(list, ",") + `]}`
}

func TestConfigureStateSync(t *testing.T) {
	w := newWorld(t)
	l := w.live(nil)
	a, b, c := newRPC(t, 5000), newRPC(t, 4990), newRPC(t, 9)
	c.Close()
	params := fmt.Sprintf(`{"rpcServers":[%q,%q,%q],"trustPeriod":"100h","backfillBlocks":12}`, strings.TrimPrefix(a.URL, "http://"), b.URL+"/", c.URL)
	got := done[ConfigureStateSyncResult](l, TypeConfigureStateSync, params)
	if len(got.Left) != 1 || !strings.Contains(got.Left[0], c.URL) {
		t.Errorf("left: %q", got.Left)
	}
	got.Left = nil
	want := ConfigureStateSyncResult{Changed: true, TrustHeight: 2990, TrustHash: hashAt("", 2990), Servers: []string{a.URL, b.URL}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, line := range []string{
		"enable = true", "trust-height = 2990", `trust-hash = "` + want.TrustHash + `"`, `trust-period = "100h0m0s"`,
		"backfill-blocks = 12", `rpc-servers = "` + a.URL + "," + b.URL + `"`,
	} {
		if !strings.Contains(w.read("config/config.toml"), "\n"+line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
	done[DryRunResult](l, TypeConfigApply, dry(""))
	if again := done[ConfigureStateSyncResult](l, TypeConfigureStateSync, params); again.Changed || again.TrustHeight != 2990 {
		t.Errorf("the second one: %+v", again)
	}
	// What is trusted follows the chain.
	a.set(func(r *rpc) { r.height = 9000 })
	b.set(func(r *rpc) { r.height = 9000 })
	if later := done[ConfigureStateSyncResult](l, TypeConfigureStateSync, params); !later.Changed || later.TrustHeight != 7000 {
		t.Errorf("later: %+v", later)
	}
	w.fill()
	before := w.read("config/config.toml")
	if got := done[ConfigureStateSyncResult](l, TypeConfigureStateSync, servers(a, b)); got.Changed || got.Note == "" || w.read("config/config.toml") != before {
		t.Errorf("with data: %+v", got)
	}
}

// A state sync that failed, on a validator above all, is tried again on the same
// volume, with a block to trust that is not too old.
func TestStateSyncAfterOneThatFailed(t *testing.T) {
	w := newWorld(t)
	w.mount(seid.ModeValidator)
	l := w.live(nil)
	a, b := newRPC(t, 5000), newRPC(t, 5000)
	done[ConfigureStateSyncResult](l, TypeConfigureStateSync, servers(a, b))
	w.open()
	a.set(func(r *rpc) { r.height = 900_000 })
	b.set(func(r *rpc) { r.height = 900_000 })
	got := done[ConfigureStateSyncResult](l, TypeConfigureStateSync, servers(a, b))
	if !got.Changed || got.TrustHeight != 898_000 || !strings.Contains(w.read("config/config.toml"), "trust-height = 898000") {
		t.Errorf("%+v", got)
	}
}

// Whoever is about to remove data asks first whether it can be had again.
func TestWitnessesAreAskedAndNothingIsWritten(t *testing.T) {
	w := newWorld(t)
	w.fill()
	l := w.live(nil)
	a, b := newRPC(t, 5000), newRPC(t, 4990)
	before := w.read("config/config.toml")
	params := strings.Replace(servers(a, b), "{", `{"checkOnly":true,`, 1)
	if got := done[ConfigureStateSyncResult](l, TypeConfigureStateSync, params); got.Changed || got.TrustHeight != 2990 || len(got.Servers) != 2 {
		t.Errorf("%+v", got)
	}
	b.set(func(r *rpc) { r.fork = "other" })
	l.fails(ReasonWitnessesDisagree, false, TypeConfigureStateSync, params)
	b.Close()
	l.fails(ReasonTooFewWitnesses, true, TypeConfigureStateSync, params)
	if w.read("config/config.toml") != before {
		t.Error("something was written")
	}
}

func TestTrustedHeight(t *testing.T) {
	w := newWorld(t)
	l := w.live(nil)
	a, b := newRPC(t, 50), newRPC(t, 40)
	if got := done[ConfigureStateSyncResult](l, TypeConfigureStateSync, servers(a, b)); got.TrustHeight != 1 {
		t.Errorf("a young chain: %+v", got)
	}
	b.set(func(r *rpc) { r.earliest = 30 })
	if got := done[ConfigureStateSyncResult](l, TypeConfigureStateSync, servers(a, b)); got.TrustHeight != 30 {
		t.Errorf("a server that synced itself: %+v", got)
	}
	b.set(func(r *rpc) { r.height, r.earliest = 90, 60 })
	l.fails(ReasonNoCommonBlock, true, TypeConfigureStateSync, servers(a, b))
}

func TestWitnesses(t *testing.T) {
	w := newWorld(t)
	l := w.live(nil)
	before := w.read("config/config.toml")
	a, b, dead := newRPC(t, 5000), newRPC(t, 5000), newRPC(t, 5000)
	dead.Close()
	task := l.fails(ReasonTooFewWitnesses, true, TypeConfigureStateSync, servers(a, dead))
	if !strings.Contains(task.Error, dead.URL) || strings.Contains(task.Error, a.URL) {
		t.Errorf("it does not say who is dead: %s", task.Error)
	}
	b.set(func(r *rpc) { r.height = 0 })
	l.fails(ReasonTooFewWitnesses, true, TypeConfigureStateSync, servers(a, b))
	b.set(func(r *rpc) { r.height, r.broken = 5000, true })
	l.fails(ReasonTooFewWitnesses, true, TypeConfigureStateSync, servers(a, b))
	b.set(func(r *rpc) { r.broken, r.fork = false, "fork" })
	task = l.fails(ReasonWitnessesDisagree, false, TypeConfigureStateSync, servers(a, b))
	for _, said := range []string{a.URL, b.URL, hashAt("", 3000), hashAt("fork", 3000)} {
		if !strings.Contains(task.Error, said) {
			t.Errorf("it does not say who said what: %s", task.Error)
		}
	}
	b.set(func(r *rpc) { r.fork, r.network = "", "other-1" })
	l.fails(ReasonChainIDMismatch, false, TypeConfigureStateSync, servers(a, b))
	if w.read("config/config.toml") != before {
		t.Error("it was changed")
	}
}

// One that takes the question and says nothing does not hold up the others for long.
func TestASilentWitness(t *testing.T) {
	w := newWorld(t)
	fake := &stopwatch{FakeClock: newFake(), stopped: make(chan struct{}, 100)}
	l := w.live(nil, withClock(fake))
	a, b, silent := newRPC(t, 5000), newRPC(t, 5000), newRPC(t, 1)
	asked := make(chan struct{})
	silent.set(func(r *rpc) { r.silent = asked })
	id := l.submit(TypeConfigureStateSync, servers(a, b, silent))
	<-asked
	for range 2 {
		<-fake.stopped // the other two have answered
	}
	fake.Step(witnessPatience)
	got := result[ConfigureStateSyncResult](t, l.ended(id))
	if len(got.Servers) != 2 || len(got.Left) != 1 || !strings.Contains(got.Left[0], errPassed.Error()) {
		t.Errorf("%+v", got)
	}
}

// stopwatch is a clock that tells when a timer is not needed any more.
type stopwatch struct {
	*clocktesting.FakeClock
	stopped chan struct{}
}

type stoppedTimer struct {
	clock.Timer
	stopped chan struct{}
}

func (s *stopwatch) NewTimer(d time.Duration) clock.Timer {
	return &stoppedTimer{s.FakeClock.NewTimer(d), s.stopped}
}

func (s *stoppedTimer) Stop() bool {
	defer func() { s.stopped <- struct{}{} }()
	return s.Timer.Stop()
}

func TestNormalise(t *testing.T) {
	for server, want := range map[string]string{
		"host:26657":                "http://host:26657",
		"HOST:443":                  "https://host:443",
		"https://rpc.example":       "https://rpc.example:443",
		"https://rpc.example:443/":  "https://rpc.example:443",
		"http://rpc.example/a/b/":   "http://rpc.example:80/a/b",
		"[2001:db8::1]:26657":       "http://[2001:db8::1]:26657",
		"http://[2001:db8::1]:1234": "http://[2001:db8::1]:1234",
		"host":                      "",
		"":                          "",
		"tcp://host:26657":          "",
		"http://u:p@host:1":         "",
		"http://host:1?x=y":         "",
		"http://host:0":             "",
		"http://host:99999":         "",
		"a:1,b:2":                   "",
		"http://":                   "",
		":443":                      "",
	} {
		if got, err := normalise(server); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", server, got, err, want)
		}
	}
}
