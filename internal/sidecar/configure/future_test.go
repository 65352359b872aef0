package configure

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sei-operator/sei-operator/internal/seid"
)

// future is a document of a later version of the operator, in the two forms in which
// it comes: as it is mounted, and with its keys in order, as a task has it.
const (
	future = `{"serial": 2, "chainId": "pacific-1", "mode": "fullNode", "overrides": {"config.moniker": "new"},
  "snapshotGeneration": {"interval": 2000, "keepRecent": 5, "format": 3}, "tuning": "fast"}`
	futureOfATask = `{"chainId":"pacific-1","mode":"fullNode","overrides":{"config.moniker":"new"},"serial":2,` +
		`"snapshotGeneration":{"format":3,"interval":2000,"keepRecent":5},"tuning":"fast"}`
)

// TestBothWaysTakeADocumentFromTheFuture: what is known of it is applied, what is not is
// told, and both ways end with the same record.
func TestBothWaysTakeADocumentFromTheFuture(t *testing.T) {
	hashes := map[string]bool{}
	for way, apply := range map[string]func(rig) error{
		"mounted": func(r rig) error {
			if err := os.WriteFile(r.mounted, []byte(future), 0o600); err != nil {
				return err
			}
			_, _, err := r.ApplyMounted()
			return err
		},
		"by a task": func(r rig) error {
			document, err := seid.ParseIntent([]byte(futureOfATask))
			if err != nil {
				return err
			}
			_, err = r.Apply(document)
			return err
		},
	} {
		r := newRig(t, t.TempDir())
		if err := apply(r); err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		record, err := r.reopened().Record()
		if err != nil || record.Serial != 2 || !strings.Contains(r.config(t), `moniker = "new"`) {
			t.Errorf("%s: it is not applied: %+v, %v", way, record, err)
		}
		if !slices.Equal(record.NotKnown, []string{"snapshotGeneration.format", "tuning"}) {
			t.Errorf("%s: not known: %q", way, record.NotKnown)
		}
		hashes[record.Hash] = true
	}
	if len(hashes) != 1 {
		t.Errorf("the two ways lead to two hashes: %v", hashes)
	}
}

// TestTheNextSidecarAppliesWhatItsPredecessorDidNotKnow, although the serial is the same:
// otherwise its hash would be the wanted one for ever, and its files would not.
func TestTheNextSidecarAppliesWhatItsPredecessorDidNotKnow(t *testing.T) {
	r := newRig(t, t.TempDir())
	document := intent(2, map[string]string{"config.moniker": "new"})
	if _, err := r.Apply(document); err != nil {
		t.Fatal(err)
	}
	// The predecessor knew of no overrides.
	record, err := r.Record()
	if err != nil {
		t.Fatal(err)
	}
	predecessor := record
	predecessor.NotKnown = []string{"overrides"}
	if err := r.write(record, predecessor); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.home.File(seid.ConfigTOML), []byte(configTOML), 0o600); err != nil {
		t.Fatal(err)
	}
	mounted := func(content string) bool {
		t.Helper()
		if err := os.WriteFile(r.mounted, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, applied, err := r.reopened().ApplyMounted()
		if err != nil {
			t.Fatal(err)
		}
		return applied
	}
	same := `{"serial":2,"chainId":"pacific-1","mode":"fullNode","overrides":{"config.moniker":"new"}}`
	if !mounted(same) || !strings.Contains(r.config(t), `moniker = "new"`) {
		t.Fatalf("what the predecessor did not know is not applied:\n%s", r.config(t))
	}
	if after, err := r.reopened().Record(); err != nil || len(after.NotKnown) != 0 {
		t.Errorf("after it is applied in full: %+v, %v", after, err)
	}
	if mounted(same) {
		t.Error("what is known in full is applied again at every start")
	}
}
