package node

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tendermint/tendermint/libs/log"
	"github.com/tendermint/tendermint/libs/service"

	"github.com/sei-operator/sei-operator/lab/devchain/app"
	"github.com/sei-operator/sei-operator/lab/devchain/home"
)

// Exactly the threshold is fine, one more is not.
func TestLagStatusAnswers417(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	application, err := app.New(app.Options{DataDir: dir, SnapshotDir: filepath.Join(dir, "snapshots"), Log: log.NewNopLogger()})
	if err != nil {
		t.Fatal(err)
	}
	for peer, want := range map[int64]int{0: 200, 50: 200, 100: 200, 400: 200, 401: 417, 5000: 417} {
		f := &facts{
			app: application, lagThreshold: 300,
			ask: func(context.Context, string, string) (json.RawMessage, error) {
				return []byte(`{"node_info":{"other":{}},"sync_info":{"latest_block_height":"100","max_peer_block_height":"0","earliest_block_height":"1"}}`), nil
			},
			live: func() []connection { return []connection{{height: peer}, {height: 7}} },
		}
		code, body, err := f.lagStatus(t.Context())
		if err != nil || code != want {
			t.Errorf("a peer at %d: %d, %v, %v", peer, code, body, err)
		}
	}
}

// reactor and pool have the shape of those in the engine.
type (
	pool struct {
		lastAdvance time.Time
		mtx         sync.RWMutex //nolint:unused // found by its name, as in the engine
		peers       map[string]*int
		height      int64
	}
	reactor    struct{ pool *pool }
	fakeEngine struct {
		service.BaseService

		bcReactor any
	}
)

func TestBlockSyncWantsTwoPeers(t *testing.T) {
	t.Parallel()
	old := time.Now().Add(-time.Hour)
	for count, hidden := range map[int]bool{0: true, 1: true, 2: false, 3: false} {
		p := &pool{peers: map[string]*int{}, lastAdvance: old}
		for i := range count {
			p.peers[fmt.Sprint(i)] = new(i)
		}
		b := &blockSync{}
		if err := b.attach(&fakeEngine{bcReactor: &reactor{pool: p}}); err != nil {
			t.Fatal(err)
		}
		b.before(nil)
		if (len(p.peers) == 0) != hidden {
			t.Errorf("with %d peers the engine sees %d", count, len(p.peers))
		}
		if !p.lastAdvance.After(old) {
			t.Error("the engine would give up")
		}
		p.peers["late"] = new(0)
		b.after(nil)
		if len(p.peers) != count+1 {
			t.Errorf("of %d peers and one %d are left", count, len(p.peers))
		}
	}
}

// A block that took long is progress when it is done, not when it was taken.
func TestBlockSyncOutlastsASlowBlock(t *testing.T) {
	t.Parallel()
	p := &pool{peers: map[string]*int{}, lastAdvance: time.Now().Add(-time.Hour)}
	b := &blockSync{}
	b.advanced(nil) // as in a replay, when there is no pool
	if err := b.attach(&fakeEngine{bcReactor: &reactor{pool: p}}); err != nil {
		t.Fatal(err)
	}
	b.advanced(nil)
	if time.Since(p.lastAdvance) > time.Minute {
		t.Error("the engine would give up")
	}
}

func TestBlockSyncComplainsOfSilence(t *testing.T) {
	t.Parallel()
	complaints := 0
	p := &pool{peers: map[string]*int{}, height: 5}
	b := &blockSync{log: func(string, ...any) { complaints++ }}
	if err := b.attach(&fakeEngine{bcReactor: &reactor{pool: p}}); err != nil {
		t.Fatal(err)
	}
	b.before(nil)
	b.since = b.since.Add(-silence)
	b.before(nil)
	if complaints != 1 {
		t.Errorf("%d complaints", complaints)
	}
	p.height++
	b.before(nil)
	if complaints != 1 {
		t.Error("it complains although there is progress")
	}
}

func TestFlatEvidence(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"id":1,"result":{"block":{"data":{},"evidence":{"evidence":[]}},"block_id":{}}}`: `{"id":1,"result":{"block":{"data":{},"evidence":[]},"block_id":{}}}`,
		`{"result":{"block":{"evidence":{"evidence":[{"type":"x"}]}}}}`:                    `{"result":{"block":{"evidence":[{"type":"x"}]}}}`,
		`{"result":{"block":{"evidence":{"evidence":null}}}}`:                              `{"result":{"block":{"evidence":[]}}}`,
		`{"result":{"block":null}}`:                                                        `{"result":{"block":null}}`,
		`{"result":{"block":{"evidence":[]}}}`:                                             `{"result":{"block":{"evidence":[]}}}`,
		`{"error":{"code":-32603}, "id":1}`:                                                `{"error":{"code":-32603}, "id":1}`,
		`{"result":{"sync_info":{"a":"1"}}}`:                                               `{"result":{"sync_info":{"a":"1"}}}`,
		`no JSON`:                                                                          `no JSON`,
		`[{"result":{"block":{"evidence":{}}}}]`:                                           `[{"result":{"block":{"evidence":{}}}}]`,
	} {
		if got := string(flatEvidence([]byte(body))); got != want {
			t.Errorf("%s became %s", body, got)
		}
	}
}

// Who reads the logs of seid learns format and level from the environment; the level
// "error" silences everything.
func TestLogger(t *testing.T) {
	for name, one := range map[string]struct {
		configured, level, format string
		want                      []string // "failed" and "told", if they are there
	}{
		"as configured":            {"info", "", "", []string{"level=ERROR msg=failed", "level=INFO msg=told k=v logger=p2p"}},
		"json":                     {"info", "", "json", []string{`"level":"ERROR","msg":"failed"`, `"msg":"told","k":"v","logger":"p2p"`}},
		"another format":           {"info", "", "plain", []string{"msg=failed", "msg=told"}},
		"less":                     {"warn", "", "", []string{"msg=failed"}},
		"the environment is above": {"info", "warn", "", []string{"msg=failed"}},
		"error":                    {"error", "", "", nil},
		"error by the environment": {"info", "ERROR", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SEI_LOG_LEVEL", one.level)
			t.Setenv("SEI_LOG_FORMAT", one.format)
			var out strings.Builder
			logger, err := newLogger(&out, one.configured, nil)
			if err != nil {
				t.Fatal(err)
			}
			logger.Error("failed")
			logger.Info("told", "k", "v", "module", "p2p")
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if out.Len() == 0 {
				lines = nil
			}
			if !slices.EqualFunc(lines, one.want, strings.Contains) {
				t.Errorf("%q", lines)
			}
		})
	}
}

// The environment is above the files, and the genesis tells the timeouts.
func TestLoad(t *testing.T) {
	dir := home.Dir(t.TempDir())
	if _, err := dir.Init("m", "loop-1", home.Validator, false); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SEID_RPC_LADDR", "tcp://127.0.0.9:1")
	t.Setenv("SEID_MONIKER", "other")
	t.Setenv("SEID_STATESYNC_RPC_SERVERS", "a:1, https://b:443")
	s, err := load(Flags{Home: dir, Keys: map[string]string{"halt-height": "7", "p2p.pex": "false"}})
	if err != nil {
		t.Fatal(err)
	}
	if s.rpc != "tcp://127.0.0.9:1" || s.engine.Moniker != "other" || s.app.HaltHeight != 7 || s.engine.P2P.PexReactor || s.lagThreshold != 300 || s.chainID != "loop-1" {
		t.Errorf("%+v", s)
	}
	if got := fmt.Sprint(s.engine.StateSync.RPCServers); got != "[http://a:1 https://b:443]" {
		t.Errorf("%s", got)
	}
	if c := s.engine.Consensus; c.TimeoutCommit != home.DefaultTimeouts.Commit || c.TimeoutPropose != home.DefaultTimeouts.Propose {
		t.Errorf("%+v", c)
	}
	t.Setenv("SEID_CONSENSUS_UNSAFE_COMMIT_TIMEOUT_OVERRIDE", "3s")
	if s, err = load(Flags{Home: dir}); err != nil || s.engine.Consensus.TimeoutCommit != 3*time.Second {
		t.Errorf("%+v, %v", s, err)
	}
}
