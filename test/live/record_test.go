package live

import (
	"slices"
	"testing"
	"time"
)

// A chain of five blocks, one a second. Who signed a block is in the next one: ann signed
// blocks 1 and 4, bob all of them.
func record() *Record {
	r := &Record{names: map[string]string{"A": "ann", "B": "bob"}, appHashes: map[int64]map[string]string{}}
	for i, signed := range [][]string{nil, {"A", "B"}, {"B"}, {"B"}, {"A", "B"}} {
		r.Blocks = append(r.Blocks, Block{
			Height: int64(i + 1), Time: time.Unix(int64(i), 0), AppHash: string(rune('0' + i)), Txs: i, Signed: signed,
		})
	}
	return r
}

func TestWhoSigned(t *testing.T) {
	r := record()
	if last := [2]int64{r.LastSigned("ann"), r.LastSigned("bob")}; last != [2]int64{4, 4} {
		t.Errorf("last signed: %v", last)
	}
	if missed := [2]int{r.Missed("ann", 1, r.Height()), r.Missed("bob", 1, r.Height())}; missed != [2]int{2, 0} {
		t.Errorf("missed: %v", missed)
	}
	if gap := r.LongestGap("ann", 0); gap != (Gap{Missed: 2, Took: 3 * time.Second}) {
		t.Errorf("the longest gap of ann: %s", gap)
	}
	if gap := r.LongestGap("bob", 0); gap != (Gap{Took: time.Second}) {
		t.Errorf("the longest gap of bob: %s", gap)
	}
	if r.Txs() != 10 {
		t.Errorf("%d transactions", r.Txs())
	}
}

func TestComplaints(t *testing.T) {
	r := record()
	// The state after block 2 is in block 3.
	r.appHashes[2] = map[string]string{"archive": "2"}
	if found := r.Complaints(); len(found) > 0 {
		t.Errorf("nothing is wrong, and it complains: %q", found)
	}
	r.appHashes[2]["provider"] = "7"
	r.Blocks[3].Evidence = 1
	want := []string{"block 4 has 1 pieces of evidence", "at height 2 provider has the state 7, the chain has 2"}
	if found := r.Complaints(); !slices.Equal(found, want) {
		t.Errorf("it complains: %q, want %q", found, want)
	}
}
