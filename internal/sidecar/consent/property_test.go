package consent

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// Over any history of approvals, holds, releases, failing disks, crashes and torn
// files: from the moment a hold is acknowledged until somebody releases it, the node
// is not wanted, and nobody can approve it.
func TestAHoldAlwaysWins(t *testing.T) {
	base, histories := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		histories++
		h := &history{dir: filepath.Join(base, strconv.Itoa(histories))}
		h.crash(t)
		t.Repeat(map[string]func(*rapid.T){
			"approve": h.approve, "hold": h.hold, "release": h.release, "crash": h.crash, "tear a file": h.tear, "": h.check,
		})
	})
}

// history is what happened to a node.
type history struct {
	dir string
	*Consent
	wantHeld  bool // acknowledged, and not released since
	releasing bool // a release failed half way: the next life may be free
	approved  bool // at least one approval may be on the disk
}

// fail makes a step of the next write fail, or none.
func (h *history) fail(t *rapid.T) {
	failing := rapid.SampledFrom([]string{
		"", "", "", "mkdir", "sync parent", "create", "write", "sync file", "rename", "sync directory", "remove",
	}).Draw(t, "failing")
	h.Consent.dir.Fault = func(step string) error {
		if step == failing {
			return errors.New("failing")
		}
		return nil
	}
}

func (h *history) approve(t *rapid.T) {
	h.fail(t)
	err := h.Approve(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), nodeID, 0)
	if h.wantHeld && !errors.Is(err, ErrHeld) {
		t.Fatalf("a held node was approved: %v", err)
	}
	h.approved = h.approved || !errors.Is(err, ErrHeld)
}

func (h *history) hold(t *rapid.T) {
	h.fail(t)
	if h.Hold("t", "r", 1) == nil {
		h.wantHeld, h.releasing = true, false
	}
}

func (h *history) release(t *rapid.T) {
	h.fail(t)
	h.releasing = h.Release(Release{Sequence: 1}) != nil
	h.wantHeld = h.wantHeld && h.releasing
}

func (h *history) crash(t *rapid.T) {
	var err error
	if h.Consent, err = Open(h.dir, uid, nil); err != nil {
		t.Fatal(err)
	}
	if h.releasing {
		h.wantHeld, h.releasing = h.State().Held, false
	}
}

func (h *history) tear(t *rapid.T) {
	path := filepath.Join(h.dir, rapid.SampledFrom([]string{approvalFile, holdFile}).Draw(t, "file"))
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		t.Skip("there is none")
	}
	if err := os.WriteFile(path, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	h.crash(t)
}

func (h *history) check(t *rapid.T) {
	if h.wantHeld && (!h.State().Held || h.Wanted()) {
		t.Fatalf("a held node runs: %+v", h.State())
	}
	if h.Wanted() && !h.approved {
		t.Fatalf("a node runs that nobody approved: %+v", h.State())
	}
}
