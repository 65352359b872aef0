package app

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	abci "github.com/tendermint/tendermint/abci/types"
	"github.com/tendermint/tendermint/libs/log"
	tmproto "github.com/tendermint/tendermint/proto/tendermint/types"
)

func newApp(t *testing.T, options Options) *Application {
	t.Helper()
	if options.DataDir == "" {
		options.DataDir = t.TempDir()
	}
	options.SnapshotDir = filepath.Join(options.DataDir, "snapshots")
	options.Log = log.NewNopLogger()
	if options.Version == "" {
		options.Version = "v1"
	}
	made, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// block executes a block and returns the hash of the state after it.
func block(t *testing.T, a *Application, height int64, txs ...string) []byte {
	t.Helper()
	a.BeginBlock(abci.RequestBeginBlock{Header: tmproto.Header{Height: height}})
	for _, raw := range txs {
		if result := a.DeliverTx(abci.RequestDeliverTx{Tx: []byte(raw)}); result.Code != 0 {
			t.Fatalf("%s: %s", raw, result.Log)
		}
	}
	a.EndBlock(abci.RequestEndBlock{Height: height})
	return a.Commit().Data
}

func TestStateIsItsContent(t *testing.T) {
	t.Parallel()
	a, b := newApp(t, Options{}), newApp(t, Options{})
	block(t, a, 1, "x=1", "y=2")
	block(t, b, 1, "y=3", "x=1", "y=2")
	first, second := block(t, a, 2), block(t, b, 2)
	if !bytes.Equal(first, second) {
		t.Error("two ways to the same state have different hashes")
	}
	if third := block(t, b, 3); bytes.Equal(second, third) {
		t.Error("two heights have the same hash")
	}
	if other := block(t, a, 3, "y=4"); bytes.Equal(other, b.Info(abci.RequestInfo{}).LastBlockAppHash) {
		t.Error("two states have the same hash")
	}
	if got := a.Query(abci.RequestQuery{Data: []byte("y")}); string(got.Value) != "4" || got.Height != 3 {
		t.Errorf("%+v", got)
	}
}

func TestBlockThatWasNotCommittedIsForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := newApp(t, Options{DataDir: dir})
	want := block(t, a, 1, "x=1")
	a.BeginBlock(abci.RequestBeginBlock{Header: tmproto.Header{Height: 2}})
	a.DeliverTx(abci.RequestDeliverTx{Tx: []byte("x=2")})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	info := newApp(t, Options{DataDir: dir}).Info(abci.RequestInfo{})
	if info.LastBlockHeight != 1 || !bytes.Equal(info.LastBlockAppHash, want) {
		t.Errorf("%+v", info)
	}
}

// source is an application with a snapshot of several chunks at height 4.
func source(t *testing.T) (*Application, *abci.Snapshot, []byte) {
	t.Helper()
	a := newApp(t, Options{SnapshotInterval: 4, SnapshotKeepRecent: 1})
	var txs []string
	for i := range 300 {
		txs = append(txs, fmt.Sprintf("key/%d=%01000d", i, i))
	}
	block(t, a, 1, txs...)
	block(t, a, 2)
	block(t, a, 3)
	hash := block(t, a, 4)
	a.writing.Wait()
	found := a.ListSnapshots(abci.RequestListSnapshots{}).Snapshots
	if len(found) != 1 || found[0].Height != 4 || found[0].Chunks < 3 {
		t.Fatalf("%d snapshots", len(found))
	}
	return a, found[0], hash
}

func chunk(a *Application, snapshot *abci.Snapshot, index uint32) []byte {
	return a.LoadSnapshotChunk(abci.RequestLoadSnapshotChunk{Height: snapshot.Height, Format: snapshot.Format, Chunk: index}).Chunk
}

func TestSnapshotBecomesTheState(t *testing.T) {
	t.Parallel()
	a, snapshot, hash := source(t)
	b := newApp(t, Options{})
	block(t, b, 1, "of=another state")
	if offer := b.OfferSnapshot(abci.RequestOfferSnapshot{Snapshot: snapshot, AppHash: []byte("another")}); offer.Result != abci.ResponseOfferSnapshot_REJECT {
		t.Errorf("a snapshot of another state is met with %s", offer.Result)
	}
	if offer := b.OfferSnapshot(abci.RequestOfferSnapshot{Snapshot: snapshot, AppHash: hash}); offer.Result != abci.ResponseOfferSnapshot_ACCEPT {
		t.Fatalf("%s", offer.Result)
	}
	torn := b.ApplySnapshotChunk(abci.RequestApplySnapshotChunk{Index: 0, Chunk: []byte("[]"), Sender: "liar"})
	if torn.Result != abci.ResponseApplySnapshotChunk_RETRY || !slices.Equal(torn.RejectSenders, []string{"liar"}) {
		t.Errorf("a wrong chunk is met with %+v", torn)
	}
	for i := range snapshot.Chunks {
		if applied := b.ApplySnapshotChunk(abci.RequestApplySnapshotChunk{Index: i, Chunk: chunk(a, snapshot, i)}); applied.Result != abci.ResponseApplySnapshotChunk_ACCEPT {
			t.Fatalf("chunk %d: %s", i, applied.Result)
		}
	}
	if info := b.Info(abci.RequestInfo{}); info.LastBlockHeight != 4 || !bytes.Equal(info.LastBlockAppHash, hash) || b.RestoredAt() != 4 {
		t.Errorf("%+v", info)
	}
	if left := b.Query(abci.RequestQuery{Data: []byte("of")}); left.Value != nil {
		t.Error("something of the earlier state is left")
	}
	if one, other := block(t, a, 5, "x=1"), block(t, b, 5, "x=1"); !bytes.Equal(one, other) {
		t.Error("the two do not go on alike")
	}
}

func TestOldSnapshotsGo(t *testing.T) {
	t.Parallel()
	a, _, _ := source(t)
	for height := int64(5); height <= 12; height++ {
		block(t, a, height)
		a.writing.Wait()
	}
	found := a.ListSnapshots(abci.RequestListSnapshots{}).Snapshots
	if len(found) != 1 || found[0].Height != 12 {
		t.Errorf("%d snapshots", len(found))
	}
	if _, err := os.Stat(a.snapshots.heightDir(4)); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}

func TestTransactions(t *testing.T) {
	t.Parallel()
	a := newApp(t, Options{})
	for raw, fine := range map[string]bool{
		"a=b": true, "a=": true, "a=b=c": true,
		"": false, "a": false, "=b": false,
		`upgrade/plan={"name":"v2","height":10}`: true, "upgrade/plan=": true,
		`upgrade/plan={"name":"v2"}`: false, `upgrade/plan={"height":10}`: false, "upgrade/plan=v2": false,
		`upgrade/plan={"name":"v2","height":10,"more":1}`: false,
	} {
		if got := a.CheckTx(abci.RequestCheckTx{Tx: []byte(raw)}); (got.Code == 0) != fine {
			t.Errorf("%q: %+v", raw, got)
		}
	}
	block(t, a, 1)
	a.BeginBlock(abci.RequestBeginBlock{Header: tmproto.Header{Height: 2}})
	if got := a.DeliverTx(abci.RequestDeliverTx{Tx: []byte(`upgrade/plan={"name":"v2","height":2}`)}); got.Code == 0 {
		t.Error("an upgrade was scheduled in the past")
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	plan := &Plan{Name: "v2", Height: 10}
	minor := &Plan{Name: "v2", Height: 10, Info: `{"upgradeType":"minor"}`}
	for name, one := range map[string]struct {
		head    head
		height  int64
		version string
		want    verdict
	}{
		"no plan":                     {head{}, 10, "v1", goOn},
		"old binary, before":          {head{Plan: plan}, 9, "v1", goOn},
		"old binary, at the height":   {head{Plan: plan}, 10, "v1", needed},
		"new binary, at the height":   {head{Plan: plan}, 10, "v2", apply},
		"later binary, at the height": {head{Plan: plan}, 10, "v2.1.3", apply},
		"new binary, before":          {head{Plan: plan}, 9, "v2", tooNew},
		"new binary, before, minor":   {head{Plan: minor}, 9, "v2", goOn},
		"old binary, minor":           {head{Plan: minor}, 10, "v1", needed},
		"old binary, after":           {head{LastUpgrade: "v2"}, 11, "v1", tooOld},
		"new binary, after":           {head{LastUpgrade: "v2"}, 11, "v2", goOn},
		"a name that is no version":   {head{Plan: &Plan{Name: "x", Height: 10}}, 10, "v9", needed},
	} {
		if got := judge(one.head, one.height, handlers{version: one.version}.has); got != one.want {
			t.Errorf("%s: %d instead of %d", name, got, one.want)
		}
	}
	if !(handlers{version: "v1", named: []string{"x"}}).has("x") || (handlers{version: "v3", named: []string{"x"}}).has("v2") {
		t.Error("the list of names is not used")
	}
}

func TestUpgradeTellsTheEngine(t *testing.T) {
	t.Parallel()
	a := newApp(t, Options{Version: "v2"})
	block(t, a, 1, `upgrade/plan={"name":"v2","height":2}`)
	a.BeginBlock(abci.RequestBeginBlock{Header: tmproto.Header{Height: 2}})
	if end := a.EndBlock(abci.RequestEndBlock{}); end.ConsensusParamUpdates == nil || end.ConsensusParamUpdates.Version.AppVersion != 1 {
		t.Errorf("%+v", end)
	}
	a.Commit()
	if info := a.Info(abci.RequestInfo{}); info.AppVersion != 1 || a.Plan() != nil {
		t.Errorf("%+v", info)
	}
}

func TestHalt(t *testing.T) {
	t.Parallel()
	halts := 0
	a := newApp(t, Options{HaltHeight: 2, Halt: func() { halts++ }})
	counts := map[int64]int{}
	for height := int64(1); height <= 3; height++ {
		block(t, a, height)
		counts[height] = halts
	}
	if want := map[int64]int{1: 0, 2: 1, 3: 2}; !maps.Equal(counts, want) {
		t.Errorf("%v", counts)
	}
}

// What the metrics show is what blocks came across; see Shown.
func TestShown(t *testing.T) {
	t.Parallel()
	now := time.Unix(1700000000, 0)
	s := Shown{For: time.Hour}
	s.note(Plan{Name: "v2", Height: 10}, now)
	s.note(Plan{Name: "v2", Height: 12}, now)
	s.note(Plan{Name: "v3", Height: 11}, now.Add(time.Minute))
	if got := s.At(now.Add(59 * time.Minute)); len(got) != 2 || !slices.Contains(got, Plan{Name: "v2", Height: 12}) {
		t.Errorf("%+v", got)
	}
	if got := s.At(now.Add(time.Hour)); len(got) != 1 || got[0].Name != "v3" {
		t.Errorf("%+v", got)
	}
}

// A state that was not closed to the end is not opened again.
func TestTornState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	slow := filepath.Join(dir, "slow-close")
	a := newApp(t, Options{DataDir: dir, CloseFile: slow})
	block(t, a, 1, "x=1")
	if err := os.WriteFile(slow, []byte("1ms"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := newApp(t, Options{DataDir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "state_commit", rewriteFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	options := Options{DataDir: dir, SnapshotDir: filepath.Join(dir, "snapshots"), Log: log.NewNopLogger()}
	if _, err := New(options); !errors.Is(err, errTorn) {
		t.Errorf("it opens: %v", err)
	}
}

// As seid's own client would write it.
func TestCurrentPlan(t *testing.T) {
	t.Parallel()
	a := newApp(t, Options{})
	ask := abci.RequestQuery{Path: "/cosmos.upgrade.v1beta1.Query/CurrentPlan"}
	block(t, a, 1)
	if got := a.Query(ask); got.Code != 0 || len(got.Value) != 0 {
		t.Errorf("%+v", got)
	}
	block(t, a, 2, `upgrade/plan={"name":"v2","height":300}`)
	want := "\x0a\x14" + "\x0a\x02v2" + "\x12\x0b\x08\x80\x92\xb8\xc3\x98\xfe\xff\xff\xff\x01" + "\x18\xac\x02"
	if got := a.Query(ask); string(got.Value) != want || got.Height != 2 {
		t.Errorf("%q at %d", got.Value, got.Height)
	}
}
