package seid

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// future is the document as a later version of the operator might write it.
const future = `{"serial":7,"chainId":"pacific-1","mode":"fullNode","overrides":{"config.moniker":"a<b"},"peers":["x"],
"snapshotGeneration":{"interval":2000,"keepRecent":5,"format":3},"tuning":{"cpus":4,"bytes":12345678901234567890},"aaa":true}`

// TestADocumentFromTheFutureKeepsItsHash: an older sidecar reports the hash of what the
// operator wrote, not of what it understood. With another hash the operator would take
// it for another configuration, and raise the serial for ever.
func TestADocumentFromTheFutureKeepsItsHash(t *testing.T) {
	// What that version of the operator has, and hashes.
	type generation struct {
		Interval   int64 `json:"interval"`
		KeepRecent int64 `json:"keepRecent"`
		Format     int   `json:"format"`
	}
	theirs := hashOf(struct {
		Serial     int64             `json:"serial"`
		ChainID    string            `json:"chainId"`
		Mode       Mode              `json:"mode"`
		Overrides  map[string]string `json:"overrides"`
		Generation generation        `json:"snapshotGeneration"`
		Tuning     map[string]uint64 `json:"tuning"`
		AAA        bool              `json:"aaa"`
	}{
		ChainID: "pacific-1", Mode: ModeFullNode, Overrides: map[string]string{"config.moniker": "a<b"},
		Generation: generation{2000, 5, 3}, Tuning: map[string]uint64{"cpus": 4, "bytes": 12345678901234567890}, AAA: true,
	})
	ours, err := ParseIntent([]byte(future))
	if err != nil {
		t.Fatal(err)
	}
	if Hash(ours) != theirs {
		t.Error("this version reports another hash than the one that is wanted")
	}
	// It is the same after it was kept in a record, and with its keys in another order.
	kept, err := json.Marshal(ours)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseIntent(kept)
	if err != nil || Hash(again) != theirs {
		t.Errorf("it is another one after it was written and read: %s, %v", kept, err)
	}
	other, err := ParseIntent([]byte(strings.Replace(future, `"format":3`, `"format":4`, 1)))
	if err != nil || Hash(other) == theirs {
		t.Errorf("what is not known does not count: %v", err)
	}
}

func TestADocumentFromTheFutureNamesWhatIsNotKnown(t *testing.T) {
	document, err := ParseIntent([]byte(future))
	if err != nil {
		t.Fatal(err)
	}
	if got := document.NotKnown(); !slices.Equal(got, []string{"aaa", "snapshotGeneration.format", "tuning"}) {
		t.Errorf("not known: %q", got)
	}
	if document.Serial != 7 || document.Mode != ModeFullNode || document.SnapshotGeneration.KeepRecent != 5 {
		t.Errorf("what is known is lost: %+v", document)
	}
	today, err := ParseIntent([]byte(`{"serial":1,"chainId":"c","Mode":"seed","peers":[],"overrides":{},"externalAddress":"","snapshotGeneration":null}`))
	if err != nil || today.NotKnown() != nil || today.Mode != ModeSeed {
		t.Errorf("of today's document this is not known: %q (%v)", today.NotKnown(), err)
	}
	if _, err := ParseIntent([]byte(`{"serial":"one"}`)); err == nil {
		t.Error("a field of another type is taken")
	}
}

func TestTheMessageNamesAFew(t *testing.T) {
	if got := NotKnownMessage(nil); got != "" {
		t.Errorf("nothing is to be told: %s", got)
	}
	if got := NotKnownMessage(strings.Split("abcdefghij", "")); !strings.Contains(got, "a, b, c, d, e, f, g, h and 2 more") {
		t.Error(got)
	}
}
