package chain

import (
	"maps"
	"slices"
	"strings"
	"testing"
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
