package signer

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/egress"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
	"github.com/sei-operator/sei-operator/internal/signing"
)

// proven is the height of the golden commit, which the first key signed.
const proven = 178123457

func signedKey() string {
	seed := sha256.Sum256([]byte{0})
	return base64.StdEncoding.EncodeToString(ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey))
}

type rig struct {
	*Signer
	t       *testing.T
	dir     string
	consent *consent.Consent
	clock   *clocktesting.FakePassiveClock
	// chain is where the commit was made.
	chain string
	// ahead is how far the witness is above the commit that the key signed. Of the blocks
	// between the key signed none.
	ahead int64
	// asked counts the questions for the latest commit, and more those for earlier ones.
	asked, more int
	// meet holds each question for an earlier commit back until so many wait at once.
	meet int
	// early is called by each such question; it may be nil.
	early func()
	// connections counts those to the witness.
	connections int

	mu      sync.Mutex
	waiting int
	met     chan struct{}
}

// arrive counts a question, and waits for the others that have to come with it.
func (r *rig) arrive(ctx context.Context, latest bool) {
	r.mu.Lock()
	if latest {
		r.asked++
		r.mu.Unlock()
		return
	}
	r.more++
	met := r.met
	if r.waiting++; r.waiting >= r.meet {
		close(met)
		r.waiting, r.met = 0, make(chan struct{})
	}
	r.mu.Unlock()
	if r.early != nil {
		r.early()
	}
	select {
	case <-met:
	case <-ctx.Done():
	}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	may, err := consent.Open(filepath.Join(dir, "sidecar"), "uid", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, met: make(chan struct{}), dir: dir, consent: may, chain: "atlantic-2", clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))}
	r.Signer = New(Options{
		Home: seid.Home(dir), Consent: may, Mounted: filepath.Join(dir, "signing.json"), HTTP: egress.NewSurveyClient(), Clock: r.clock,
		ChainID: func() string { return r.chain },
	})
	return r
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) sign(height int64) {
	r.t.Helper()
	r.write("data/priv_validator_state.json", `{"height":"`+strconv.FormatInt(height, 10)+`","round":0,"step":3}`)
}

func (r *rig) approve(height int64) {
	r.t.Helper()
	r.sign(height)
	if err := r.consent.Approve(signedKey(), "id", height); err != nil {
		r.t.Fatal(err)
	}
}

// guard is what the next seid is started with.
func (r *rig) guard(height int64) signing.Reason {
	r.t.Helper()
	r.sign(height)
	state := r.consent.State()
	r.Prepare(r.t.Context(), state)
	state = r.consent.State()
	return r.Approval(state).Signing.Guard(height)
}

func (r *rig) witness() string {
	r.t.Helper()
	content, err := os.ReadFile("../../seid/testdata/commit.json")
	if err != nil {
		r.t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		height := proven + r.ahead
		text := request.FormValue("height")
		r.arrive(request.Context(), text == "")
		if text != "" {
			height, _ = strconv.ParseInt(text, 10, 64)
		}
		// The key's signature is at one height, and at no other it is valid.
		_, _ = io.WriteString(w, strings.ReplaceAll(string(content), strconv.Itoa(proven), strconv.FormatInt(height, 10)))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if state == http.StateNew {
			r.connections++
		}
	}
	server.Start()
	r.t.Cleanup(server.Close)
	return server.URL
}

// The volume was put back: its approval was too, and only the operator knows more.
func TestWhatTheOperatorKnowsCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.approve(0)
	if got := r.guard(400); got != signing.Off {
		t.Errorf("nothing is known: %q", got)
	}
	r.write("signing.json", signing.Known{PublicKey: "another", Height: 900}.Text())
	if got := r.guard(400); got != signing.Off {
		t.Errorf("of another key: %q", got)
	}
	r.write("signing.json", signing.Known{PublicKey: signedKey(), Height: 900, Tip: 900}.Text())
	if got := r.guard(400); got != signing.Behind {
		t.Errorf("the key signed height 900: %q", got)
	}
	r.write("signing.json", "{")
	if got := r.guard(400); got != signing.Behind {
		t.Errorf("what was known is forgotten: %q", got)
	}
	if reason, why := r.Guard(r.consent.State(), 400); reason != signing.Behind || why == "" {
		t.Errorf("%q, %q", reason, why)
	}
	r.write("signing.json", signing.Known{PublicKey: signedKey(), Height: 400, Tip: 900, Accepted: new(int64(400))}.Text())
	if got := r.guard(400); got != signing.Off {
		t.Errorf("a person accepted it: %q", got)
	}
	if got := r.consent.State().Approval; got.Signed != 400 {
		t.Errorf("%+v", got)
	}
	if got := r.guard(399); got != signing.Behind {
		t.Errorf("a person accepted another: %q", got)
	}
}

// A restart of seid in place may be the first to see what a person accepted. seid signs
// under it, and the start after that must not be held against what was known before.
func TestAnAcceptanceCountsForWhatIsSignedUnderIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.approve(0)
	if err := r.consent.Signed(signedKey(), 900); err != nil {
		t.Fatal(err)
	}
	if got := r.guard(400); got != signing.Behind {
		t.Fatalf("the key signed height 900: %q", got)
	}
	r.write("signing.json", signing.Known{PublicKey: signedKey(), Height: 400, Accepted: new(int64(400))}.Text())
	if got := r.Approval(r.consent.State()).Signing.Guard(400); got != signing.Off {
		t.Fatalf("a person accepted it: %q", got)
	}
	if got := r.guard(401); got != signing.Off {
		t.Errorf("it signed one more block since: %q", got)
	}
}

// An acceptance that is not written down is forgotten with the next sign state, and then
// what was known before keeps the node down. So it does not count, and a person is told.
func TestAnAcceptanceThatCannotBeWrittenDownDoesNotCount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.approve(0)
	if err := r.consent.Signed(signedKey(), 900); err != nil {
		t.Fatal(err)
	}
	// No file takes the place of a directory.
	approval := filepath.Join(r.dir, "sidecar", "approval.json")
	if err := errors.Join(os.Remove(approval), os.Mkdir(approval, 0o700)); err != nil {
		t.Fatal(err)
	}
	r.write("signing.json", signing.Known{PublicKey: signedKey(), Height: 400, Accepted: new(int64(400))}.Text())
	if got := r.guard(400); got != signing.Behind {
		t.Errorf("the guard is %q", got)
	}
	if got, why := r.Guard(r.consent.State(), 400); got != signing.Behind || why == "" {
		t.Errorf("it is told as %q, %q", got, why)
	}
	if err := r.Problem(); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("the problem is %v", err)
	}
	if err := os.Remove(approval); err != nil {
		t.Fatal(err)
	}
	if got := r.guard(400); got != signing.Off || r.Problem() != nil {
		t.Errorf("the guard is %q, the problem %v", got, r.Problem())
	}
}

// A commit with a signature of the key is proof, and everything else is talk.
func TestOnlyAProofCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		chain string
		want  signing.Reason
	}{
		"the key signed elsewhere":         {"atlantic-2", signing.Behind},
		"a liar shows what proves nothing": {"pacific-1", signing.Off},
		"nobody knows the chain":           {"", signing.Off},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.chain = c.chain
			r.approve(0)
			r.write("signing.json", signing.Known{PublicKey: signedKey(), Witnesses: []string{"http://127.0.0.1:1", "no address", r.witness()}}.Text())
			if got := r.guard(400); got != c.want {
				t.Errorf("the guard is %q, want %q", got, c.want)
			}
			again := New(r.opts)
			if got := again.Approval(r.consent.State()).Signing.Guard(400); got != c.want {
				t.Errorf("the next sidecar: %q, want %q", got, c.want)
			}
			if got := r.guard(proven); got != signing.Off {
				t.Errorf("a sign state that knows of it: %q", got)
			}
		})
	}
}

// A validator misses a block now and then, and just then it is asked for.
func TestABlockThatTheTwinMissedHidesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ahead, signed int64
		want          signing.Reason
		more          int
	}{
		"it signed the latest":                    {0, 400, signing.Behind, 0},
		"it missed the latest":                    {1, 400, signing.Behind, egress.SurveyConnections},
		"it missed a few":                         {recentCommits - 1, 400, signing.Behind, recentCommits - 1},
		"it was restarted, and takes its time":    {signing.Window - 1, 400, signing.Behind, signing.Window - 1},
		"it signed none for a while":              {recentCommits, 400, signing.Off, recentCommits - 1},
		"nothing is asked that is known":          {5, proven, signing.Off, 4},
		"the witness is behind the sign state":    {0, proven + 9, signing.Off, 0},
		"the latest is one above the sign state":  {1, proven, signing.Off, 0},
		"what the sign state does not know of it": {3, proven - 1, signing.Behind, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.ahead = c.ahead
			r.approve(0)
			r.write("signing.json", signing.Known{PublicKey: signedKey(), Witnesses: []string{r.witness()}}.Text())
			if got := r.guard(c.signed); got != c.want || r.more != c.more {
				t.Errorf("the guard is %q after %d more questions, want %q after %d", got, r.more, c.want, c.more)
			}
		})
	}
}

// A witness beyond the sea needs a while for each answer, and longer for a connection. All
// its commits are to be looked through in the time that a start waits.
func TestAWitnessIsAskedForManyCommitsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.meet, r.ahead = egress.SurveyConnections, 2*egress.SurveyConnections
	r.approve(0)
	r.write("signing.json", signing.Known{PublicKey: signedKey(), Witnesses: []string{r.witness()}}.Text())
	if got := r.guard(proven - 1); got != signing.Behind {
		t.Errorf("the guard is %q after %d commits", got, r.more)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.more != 2*egress.SurveyConnections || r.connections > egress.SurveyConnections {
		t.Errorf("%d questions over %d connections", r.more, r.connections)
	}
}

// Nobody could tell a witness that has nothing from one that was too slow.
func TestAWitnessThatWasNotLookedThroughIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := newRig(t)
	r.opts.Log = slog.New(slog.NewTextHandler(&log, nil))
	r.meet, r.ahead = 2*egress.SurveyConnections, 10 // so many never come
	ctx, cancel := context.WithCancel(t.Context())
	r.early = cancel
	if height, answered := r.witnessed(ctx, signedKey(), 400, []string{r.witness()}); height != 0 || answered {
		t.Errorf("%d, %t", height, answered)
	}
	if text := log.String(); !strings.Contains(text, "looked=1") || !strings.Contains(text, "of=100") {
		t.Errorf("the log is %q", text)
	}
}

// Every start waits for the answers, so they are asked for when they may matter.
func TestWitnessesAreAskedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ahead = 1
	r.approve(0)
	r.write("config/config.toml", "[statesync]\nrpc-servers = \""+r.witness()+"\"\n")
	for range 3 {
		r.guard(proven)
	}
	if r.asked != 1 {
		t.Errorf("they were asked %d times", r.asked)
	}
}

// A witness that is not above the sign state has not seen what came after it.
func TestAWitnessThatLagsIsAskedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.approve(0)
	r.write("signing.json", signing.Known{PublicKey: signedKey(), Witnesses: []string{r.witness()}}.Text())
	r.guard(proven)
	r.ahead = 1
	r.guard(proven)
	r.guard(proven)
	if r.asked != 2 {
		t.Errorf("it was asked %d times", r.asked)
	}
}

// A network that was not up at the first start is no answer.
func TestWitnessesThatWereNotThereAreAskedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.approve(0)
	there := r.witness()
	r.write("config/config.toml", "[statesync]\nrpc-servers = \"http://127.0.0.1:1\"\n")
	if got := r.guard(proven - 1); got != signing.Off {
		t.Fatalf("nobody answers, and the guard is %q", got)
	}
	r.write("config/config.toml", "[statesync]\nrpc-servers = \""+there+"\"\n")
	if got := r.guard(proven - 1); got != signing.Behind {
		t.Errorf("it is proven that the key signed more, and the guard is %q", got)
	}
}

// A volume that nobody vouches for may be started long after the first time.
func TestWitnessesAreAskedWhileTheSignStateIsDoubted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.chain = "pacific-1" // so that nothing is proven
	r.approve(400)
	r.write("config/config.toml", "[statesync]\nrpc-servers = \""+strings.TrimPrefix(r.witness(), "http://")+"\"\n")
	for range 3 {
		if got := r.guard(400); got != signing.Doubted {
			t.Errorf("the guard is %q", got)
		}
	}
	if r.asked != 3 {
		t.Errorf("they were asked %d times", r.asked)
	}
}

// What is on the volume is written at the end of a seid, and now and then before.
func TestWhatWasSignedIsNoted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.approve(0)
	note := func(height int64, pid int) int64 {
		r.Note(supervisor.State{Identity: supervisor.Identity{PublicKey: signedKey()}, SignHeight: height, PID: pid})
		return r.consent.State().Approval.Signed
	}
	for _, step := range []struct {
		what   string
		after  time.Duration
		height int64
		pid    int
		want   int64
	}{
		{"the first", 0, 10, 7, 10},
		{"soon after", time.Minute, 100, 7, 10},
		{"later", 10 * time.Minute, 2000, 7, 2000},
		{"soon after that", time.Minute, 2100, 7, 2000},
		{"seid ended", 0, 2110, 0, 2110},
		{"less than is known", time.Hour, 2000, 0, 2110},
	} {
		r.clock.SetTime(r.clock.Now().Add(step.after))
		if got := note(step.height, step.pid); got != step.want {
			t.Errorf("%s: %d is noted, want %d", step.what, got, step.want)
		}
	}
	// A sign state that nobody vouches for may be another key's.
	if err := r.consent.Approve("", "id", 0); err != nil {
		t.Fatal(err)
	}
	r.approve(5000)
	if got := note(5000, 0); got != 0 {
		t.Errorf("%d is noted of a volume that changed hands", got)
	}
	if got := note(5001, 0); got != 5001 {
		t.Errorf("%d is noted when it signed since", got)
	}
}
