package chain

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/lab/devchain/home"
)

func TestSet(t *testing.T) {
	t.Parallel()
	file := "a = 1\n[s]\nb = 2\n[s.t]\nb = 3"
	for key, want := range map[string]string{
		"a":     "a = x\n[s]\nb = 2\n[s.t]\nb = 3",
		"c":     "c = x\na = 1\n[s]\nb = 2\n[s.t]\nb = 3",
		"s.b":   "a = 1\n[s]\nb = x\n[s.t]\nb = 3",
		"s.c":   "a = 1\n[s]\nc = x\nb = 2\n[s.t]\nb = 3",
		"s.t.b": "a = 1\n[s]\nb = 2\n[s.t]\nb = x",
		"u.b":   "a = 1\n[s]\nb = 2\n[s.t]\nb = 3\n[u]\nb = x",
	} {
		if got := strings.Join(set(strings.Split(file, "\n"), key, "x"), "\n"); got != want {
			t.Errorf("%s: %q", key, got)
		}
	}
}

func TestGaps(t *testing.T) {
	t.Parallel()
	r := Record{Names: map[string]string{"A": "a", "B": "b"}}
	// Block i+1 tells who signed block i.
	for _, signed := range []string{"", "A B", "A", "A", "A B", "A", "A B"} {
		r.Blocks = append(r.Blocks, Block{Signed: strings.Fields(signed)})
	}
	gaps := r.Gaps()
	if len(gaps["a"]) != 0 || !slices.Equal(gaps["b"], []Gap{{2, 3}, {5, 5}}) || missed(gaps["b"]) != 3 {
		t.Errorf("%v", gaps)
	}
	if !slices.Equal(slices.Sorted(maps.Keys(gaps)), []string{"a", "b"}) {
		t.Errorf("%v", gaps)
	}
}

func TestDisagreements(t *testing.T) {
	t.Parallel()
	r := Record{
		Blocks: []Block{{}, {AppHash: "1"}, {AppHash: "2"}},
		AppHashes: map[int64]map[string]string{
			0: {"a": "", "b": "x"}, 1: {"a": "1"}, 2: {"a": "2", "b": "2"}, 3: {"a": "3", "b": "3"},
		},
	}
	if wrong := r.Disagreements(); len(wrong) != 0 {
		t.Errorf("%v", wrong)
	}
	r.AppHashes[1]["b"] = "2" // not what the block says
	r.AppHashes[3]["b"] = "4" // not what the other says
	if wrong := r.Disagreements(); len(wrong) != 2 {
		t.Errorf("%v", wrong)
	}
}

// fakeNode answers RPC as it is told; without an answer nobody is there.
func fakeNode(t *testing.T, mode home.Mode, answer http.HandlerFunc) *Node {
	t.Helper()
	host, guard, err := loopback()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = guard.Close() })
	n := &Node{Name: host, Mode: mode, Host: host}
	if answer == nil {
		return n
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", net.JoinHostPort(host, "26657"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: answer, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return n
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// A transaction goes to the next node if one does not answer, and not if one refuses it;
// seeds are never asked.
func TestLoadPassesOver(t *testing.T) {
	t.Parallel()
	nodes := map[string]*Node{
		"takes":   fakeNode(t, home.Full, says(`{"code":0}`)),
		"refuses": fakeNode(t, home.Full, says(`{"code":1,"log":"refused"}`)),
		"fails":   fakeNode(t, home.Full, says(`{"code":-32603,"message":"Internal error","data":"mempool is full"}`)),
		"dead":    fakeNode(t, home.Full, nil),
		"hangs":   fakeNode(t, home.Full, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
		"seed":    fakeNode(t, home.Seed, says(`{"code":0}`)),
	}
	for list, want := range map[string]string{
		"takes refuses": "", "refuses takes": "refused", "fails takes": "mempool is full", "seed refuses": "refused",
		"dead takes": "", "hangs takes": "", "hangs dead refuses takes": "refused", "dead": "connection refused",
		"seed": "no node", "": "no node",
	} {
		var to []*Node
		for name := range strings.FieldsSeq(list) {
			to = append(to, nodes[name])
		}
		if err := send(t.Context(), inTurn(to, 0), []byte("a=b")); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", list, err)
		}
	}
	two := []*Node{nodes["takes"], nodes["seed"], nodes["refuses"]}
	if a, b, c := inTurn(two, 0), inTurn(two, 1), inTurn(two, 2); a[0] != two[0] || b[0] != two[2] || c[0] != two[0] || len(b) != 2 {
		t.Errorf("%v, %v, %v", a, b, c)
	}
}

func TestLoadOfNothingSendsNothing(t *testing.T) {
	t.Parallel()
	asked := func() []*Node { t.Error("it wants to send"); return nil }
	for _, rate := range []int{0, -1} {
		load := StartLoad(t.Context(), asked, rate)
		load.work.Wait() // Nobody is left who could.
		load.Stop()
	}
}

// Evidence in a block is counted, in the shape that seid gives it.
func TestEvidenceIsCounted(t *testing.T) {
	t.Parallel()
	n := fakeNode(t, home.Full, func(w http.ResponseWriter, r *http.Request) {
		evidence := map[string]string{"1": "", "2": `{"type":"tendermint/DuplicateVoteEvidence"},{}`, "3": "{}"}
		switch height := r.URL.Query().Get("height"); r.URL.Path {
		case "/abci_info":
			_, _ = io.WriteString(w, `{"response":{"last_block_height":"3","last_block_app_hash":"AA=="}}`)
		case "/block":
			_, _ = fmt.Fprintf(w, `{"block_id":{"hash":"A"},"block":{"header":{"height":"%s","time":"2026-01-01T00:00:00Z"},"evidence":[%s]}}`,
				height, evidence[height])
		}
	})
	watcher := Watch(t.Context(), func() []*Node { return []*Node{n} })
	defer watcher.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := watcher.Until(ctx, func(r Record) bool { return r.Height() == 3 }); err != nil {
		t.Fatal(err)
	}
	if got := watcher.Record().Evidence(); got != 3 {
		t.Errorf("%d pieces of evidence", got)
	}
}

func TestIdentitiesAreDistinct(t *testing.T) {
	t.Parallel()
	network, err := NewNetwork(Options{ChainID: "c", Validators: 3})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, id := range network.Validators {
		seen[id.Address()] = true
		seen[string(id.NodeKey.ID)] = true
		if !strings.Contains(string(network.Genesis), id.Address()) {
			t.Errorf("%s is not in the genesis", id.Name)
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d keys", len(seen))
	}
	if _, err := NewNetwork(Options{ChainID: "c"}); err == nil {
		t.Error("a chain without validators was made")
	}
}
