package consent

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const uid, key, nodeID = "uid-1", "key-1", "node-1"

func open(t *testing.T, dir string) *Consent {
	t.Helper()
	c, err := Open(dir, uid, clocktesting.NewFakePassiveClock(time.Unix(1e9, 5)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestANodeRunsWhenApprovedAndNotHeld(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", ".sei-sidecar")
	c := open(t, dir)
	// Every state is the same after a restart.
	expect := func(want State) {
		t.Helper()
		for name, c := range map[string]*Consent{"now": c, "after a restart": open(t, dir)} {
			if diff := cmp.Diff(want, c.State()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			if c.Wanted() != (want.Approved && !want.Held) {
				t.Errorf("%s: wanted is %t", name, c.Wanted())
			}
		}
	}
	at := time.Unix(1e9, 5).UTC()
	approval := &Approval{NodeUID: uid, PublicKey: key, NodeID: nodeID, ApprovedAt: at}
	hold := &Hold{Since: at, TaskID: "task-1", Reason: "because", Sequence: 1, LatestTaskID: "task-1"}

	expect(State{})
	must(t, c.Approve(key, nodeID, 0))
	expect(State{Approved: true, Approval: approval})
	must(t, c.Hold("task-1", "because", 1))
	expect(State{Approved: true, Approval: approval, Held: true, Hold: hold})
	must(t, c.Hold("task-2", "another reason", 2))
	hold.Sequence, hold.LatestTaskID = 2, "task-2"
	expect(State{Approved: true, Approval: approval, Held: true, Hold: hold})
	for _, c := range []*Consent{c, open(t, dir)} {
		if err := c.Approve("key-2", nodeID, 0); !errors.Is(err, ErrHeld) {
			t.Errorf("a held node was approved: %v", err)
		}
	}
	must(t, c.Release(Release{Sequence: 3}))
	expect(State{Approved: true, Approval: approval})
	must(t, c.Release(Release{Sequence: 3}))
	must(t, c.Approve("", "node-2", 0))
	expect(State{Approved: true, Approval: &Approval{NodeUID: uid, NodeID: "node-2", ApprovedAt: at}})
	if err := c.Approve(key, "", 0); err == nil {
		t.Error("approved without a node id")
	}
	if _, err := Open(dir, "", nil); err == nil {
		t.Error("opened without a uid")
	}
}

func TestWhatIsOnTheDisk(t *testing.T) {
	const good = `{"nodeUid":"uid-1","publicKey":"k","nodeId":"n","approvedAt":"2026-01-02T03:04:05Z"}`
	const held = `{"since":"2026-01-02T03:04:05Z","taskId":"t","reason":"r"}`
	for name, c := range map[string]struct {
		approval, hold string
		approved, held bool
		reasons        []string
	}{
		"nothing":                         {},
		"an approval":                     {approval: good, approved: true},
		"an approval of another node":     {approval: strings.Replace(good, "uid-1", "uid-2", 1), reasons: []string{ReasonApprovalOfAnother}},
		"an empty approval":               {approval: " ", reasons: []string{ReasonApprovalUnreadable}},
		"a torn approval":                 {approval: good[:40], reasons: []string{ReasonApprovalUnreadable}},
		"an approval with more":           {approval: good + good, reasons: []string{ReasonApprovalUnreadable}},
		"an approval with newer fields":   {approval: `{"nodeUid":"uid-1","nodeId":"n","newer":true}`, approved: true},
		"an approval for nobody":          {approval: `{}`, reasons: []string{ReasonApprovalUnreadable}},
		"an approval that is a list":      {approval: `["uid-1"]`, reasons: []string{ReasonApprovalUnreadable}},
		"an approval without an end":      {approval: good + strings.Repeat(" ", maxFile), reasons: []string{ReasonApprovalUnreadable}},
		"a hold":                          {approval: good, hold: held, approved: true, held: true},
		"an empty hold":                   {approval: good, hold: " ", approved: true, held: true, reasons: []string{ReasonHoldUnreadable}},
		"a torn hold":                     {approval: good, hold: held[:20], approved: true, held: true, reasons: []string{ReasonHoldUnreadable}},
		"a hold with newer fields":        {approval: good, hold: `{"since":"2026-01-02T03:04:05Z","newer":true}`, approved: true, held: true},
		"a hold that says no":             {approval: good, hold: `null`, approved: true, held: true, reasons: []string{ReasonHoldUnreadable}},
		"a torn hold and a torn approval": {approval: "{", hold: "{", held: true, reasons: []string{ReasonApprovalUnreadable, ReasonHoldUnreadable}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range map[string]string{approvalFile: c.approval, holdFile: c.hold} {
				if content != "" {
					must(t, os.WriteFile(filepath.Join(dir, file), []byte(strings.TrimPrefix(content, " ")), 0o600))
				}
			}
			o := open(t, dir)
			got := o.State()
			var reasons []string
			for _, p := range got.Problems {
				reasons = append(reasons, p.Reason)
			}
			if got.Approved != c.approved || got.Held != c.held || !slices.Equal(reasons, c.reasons) {
				t.Fatalf("got %+v", got)
			}
			// What cannot be read starts nothing and stops nothing.
			doubt := len(reasons) > 0 && reasons[0] != ReasonApprovalOfAnother
			if forbidden := !c.approved || c.held; got.Forbidden() != (forbidden && !doubt) {
				t.Errorf("forbidden: %v in %+v", got.Forbidden(), got)
			}
			// Every state can be left.
			must(t, o.Hold("task", "still", 1))
			must(t, o.Release(Release{Sequence: 1}))
			must(t, o.Approve(key, nodeID, 0))
			if got := open(t, dir).State(); !got.Wanted() || len(got.Problems) != 0 {
				t.Errorf("it cannot be repaired: %+v", got)
			}
		})
	}
}

// What is in the way of the file is not no file.
func TestAHoldThatIsNotAFile(t *testing.T) {
	for name, place := range map[string]func(path string) error{
		"a directory":       func(path string) error { return os.Mkdir(path, 0o755) },
		"a link to nowhere": func(path string) error { return os.Symlink("/nowhere", path) },
		"a loop":            func(path string) error { return os.Symlink(path, path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, place(filepath.Join(dir, holdFile)))
			if !open(t, dir).State().Held {
				t.Error("not held")
			}
		})
	}
	t.Run("a file in place of the directory", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(dir, nil, 0o600))
		if !open(t, dir).State().Held {
			t.Error("not held")
		}
	})
}

func TestChangesAreTold(t *testing.T) {
	c := open(t, t.TempDir())
	for _, change := range []func() error{
		func() error { return c.Approve(key, nodeID, 0) },
		func() error { return c.Hold("t", "r", 1) },
		func() error { return c.Release(Release{Sequence: 1}) },
	} {
		changed := c.Changed()
		must(t, change())
		<-changed
		changed = c.Changed()
		must(t, change())
		select {
		case <-changed:
			t.Error("told, and nothing had changed")
		default:
		}
	}
}

// Durable means: the content before the name, and the name before the answer.
func TestTheOrderOfWriting(t *testing.T) {
	c := open(t, t.TempDir())
	var steps []string
	c.dir.Fault = func(step string) error {
		steps = append(steps, step)
		return nil
	}
	must(t, c.Hold("t", "r", 1))
	must(t, c.Hold("t", "r", 1))
	must(t, c.Release(Release{Sequence: 1}))
	want := []string{
		"mkdir", "sync parent", "create", "write", "sync file", "rename", "sync directory",
		// A hold that is known may not be there, after a release that failed half way.
		"mkdir", "sync parent", "create", "write", "sync file", "rename", "sync directory",
		"remove", "sync directory",
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEveryStepMayFail(t *testing.T) {
	full := errors.New("no space left on device")
	for _, failing := range []string{"mkdir", "sync parent", "create", "write", "sync file", "rename", "sync directory", "remove"} {
		t.Run(failing, func(t *testing.T) {
			dir := t.TempDir()
			c := open(t, dir)
			failOn := func(step string) {
				c.dir.Fault = func(s string) error {
					if s == step {
						return full
					}
					return nil
				}
			}
			failOn(failing)
			if err := c.Approve(key, nodeID, 0); failing != "remove" && (!errors.Is(err, full) || c.Wanted()) {
				t.Errorf("approved with %v, wanted: %t", err, c.Wanted())
			}
			failOn("")
			must(t, c.Approve(key, nodeID, 0))
			failOn(failing)
			if err := c.Hold("t", "r", 1); failing != "remove" && !errors.Is(err, full) {
				t.Errorf("held with %v", err)
			}
			if now, next := c.State().Held, open(t, dir).State().Held; now != next {
				t.Errorf("held: %t, and after a restart: %t", now, next)
			}
			failOn("")
			must(t, c.Hold("t", "r", 1))
			failOn(failing)
			err := c.Release(Release{Sequence: 1})
			if releases := failing != "remove" && failing != "sync directory"; releases != (err == nil) || releases != c.Wanted() {
				t.Errorf("released with %v, wanted: %t", err, c.Wanted())
			}
			failOn("")
			must(t, c.Release(Release{Sequence: 1}))
			if !c.Wanted() {
				t.Error("not wanted after a release")
			}
		})
	}
}

// What failed half way is on the disk, and what is acknowledged after it replaces it.
func TestAnApprovalAfterOneThatFailedHalfWay(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	must(t, c.Approve("key-1", nodeID, 0))
	c.dir.Fault = func(step string) error {
		if step == "sync directory" {
			return errors.New("failing")
		}
		return nil
	}
	if c.Approve("key-2", nodeID, 0) == nil {
		t.Fatal("it was acknowledged")
	}
	c.dir.Fault = nil
	must(t, c.Approve("key-1", nodeID, 0))
	if got := open(t, dir).State(); got.Approval.PublicKey != "key-1" {
		t.Errorf("the next life has %+v", got.Approval)
	}
}

// TestWhichHoldsAReleaseEnds: those before it in the order of what was asked, also after
// the sidecar that knew of both is gone. No clock is asked.
func TestWhichHoldsAReleaseEnds(t *testing.T) {
	const byTheClock = `{"since":"2026-01-02T03:04:05Z","asked":"2999-01-02T03:04:05Z","taskId":"t","reason":"r"}`
	holds := func(sequence uint64, task string) func(*Consent) error {
		return func(c *Consent) error { return c.Hold(task, "r", sequence) }
	}
	for name, c := range map[string]struct {
		file    string
		holds   []func(*Consent) error
		release Release
		ends    bool
		err     error // default: ErrHeldLater
	}{
		"a later release":                        {holds: []func(*Consent) error{holds(1, "a")}, release: Release{Sequence: 2}, ends: true},
		"an earlier release":                     {holds: []func(*Consent) error{holds(1, "a"), holds(3, "b")}, release: Release{Sequence: 2}},
		"an earlier hold that came once more":    {holds: []func(*Consent) error{holds(3, "b"), holds(1, "a")}, release: Release{Sequence: 2}},
		"of this hold":                           {holds: []func(*Consent) error{holds(1, "a")}, release: Release{Sequence: 2, Of: "a"}, ends: true},
		"of this hold, and of one before it":     {holds: []func(*Consent) error{holds(1, "b"), holds(2, "a")}, release: Release{Sequence: 3, Of: "a"}, ends: true},
		"of a hold with a later one":             {holds: []func(*Consent) error{holds(1, "a"), holds(2, "b")}, release: Release{Sequence: 3, Of: "a"}},
		"an old file":                            {file: byTheClock, release: Release{Sequence: 1}, ends: true},
		"an old file, of this hold":              {file: byTheClock, release: Release{Sequence: 1, Of: "t"}, ends: true},
		"an old file, of another hold":           {file: byTheClock, release: Release{Sequence: 1, Of: "a"}},
		"a torn file, of one hold":               {file: byTheClock[:20], release: Release{Sequence: 1, Of: "t"}, err: ErrHoldUnreadable},
		"an old file, taken before it was found": {file: byTheClock, release: Release{Sequence: 1, Resumed: true}},
		"an old file, held once more":            {file: byTheClock, holds: []func(*Consent) error{holds(2, "a")}, release: Release{Sequence: 1}},
		"a torn file":                            {file: byTheClock[:20], release: Release{Sequence: 1}, ends: true},
		"a torn file, taken before it was found": {file: byTheClock[:20], release: Release{Sequence: 1, Resumed: true}},
		"no hold":                                {release: Release{Sequence: 1, Of: "a", Resumed: true}, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.file != "" {
				must(t, os.WriteFile(filepath.Join(dir, holdFile), []byte(c.file), 0o600))
			}
			o := open(t, dir)
			for _, hold := range c.holds {
				must(t, hold(o))
				o = open(t, dir)
			}
			err := o.Release(c.release)
			if c.err == nil {
				c.err = ErrHeldLater
			}
			if c.ends != (err == nil) || !c.ends && !errors.Is(err, c.err) {
				t.Errorf("released with %v", err)
			}
			if held := open(t, dir).State().Held; held == c.ends {
				t.Errorf("held: %t", held)
			}
		})
	}
}

// TestASlowDiskSilencesNobody: what is known can be asked for while the disk is waited for,
// and does not change before the disk has it.
func TestASlowDiskSilencesNobody(t *testing.T) {
	for name, change := range map[string]func(*Consent) error{
		"what was signed": func(c *Consent) error { return c.Signed(key, 7) },
		"an approval":     func(c *Consent) error { return c.Approve("key-2", nodeID, 0) },
		"a hold":          func(c *Consent) error { return c.Hold("t", "r", 2) },
		"a release": func(c *Consent) error {
			_ = c.Hold("t", "r", 2)
			return c.Release(Release{Sequence: 3})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, t.TempDir())
			must(t, c.Approve(key, nodeID, 0))
			steps, placed := 0, false
			c.dir.Fault = func(step string) error {
				if step == "rename" || step == "remove" {
					placed = true
				}
				if step != "sync directory" || !placed {
					return nil
				}
				placed = false
				steps++
				before, answered := open(t, c.dir.path).State(), make(chan State)
				go func() {
					c.Reread()
					_, _ = c.Changed(), c.Sequence()
					answered <- c.State()
				}()
				select {
				case got := <-answered:
					// The file is in place, and may be gone again after a loss of power.
					if cmp.Equal(got, before) {
						t.Errorf("it is told before it is durable: %+v", got)
					}
				case <-time.After(time.Minute): // never passes but where it is broken
					t.Error("the state waits for the disk")
				}
				return nil
			}
			must(t, change(c))
			if steps == 0 {
				t.Error("nothing was made durable")
			}
			if got, want := c.State(), open(t, c.dir.path).State(); !cmp.Equal(got, want) {
				t.Errorf("%+v, and on the disk %+v", got, want)
			}
		})
	}
}

// TestNobodyTakesAStartForAStop: who wants to prove that seid does not run waits for
// a start that is under way, and none begins on a held node.
func TestNobodyTakesAStartForAStop(t *testing.T) {
	c := open(t, t.TempDir())
	must(t, c.Approve(key, nodeID, 0))
	entered, leave := make(chan struct{}), make(chan struct{})
	started := make(chan error, 1)
	go func() {
		started <- c.Starting(func(State) error {
			close(entered)
			<-leave
			return nil
		})
	}()
	<-entered
	must(t, c.Hold("t", "r", 1))
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		c.Settled()
	}()
	select {
	case <-settled:
		t.Error("settled, while a start was under way")
	default:
	}
	close(leave)
	must(t, <-started)
	<-settled
	must(t, c.Starting(func(State) error { return errors.New("started on a held node") }))
}

// TestRereading: a disk that answers again is believed.
func TestRereading(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, approvalFile)
	must(t, os.Mkdir(path, 0o700)) // what cannot be read
	c := open(t, dir)
	if s := c.State(); s.Wanted() || s.Forbidden() {
		t.Fatalf("in doubt: %+v", s)
	}
	must(t, os.Remove(path))
	other := open(t, t.TempDir())
	must(t, other.Approve(key, nodeID, 0))
	content, err := os.ReadFile(filepath.Join(other.dir.path, approvalFile))
	must(t, err)
	must(t, os.WriteFile(path, content, 0o600))
	changed := c.Changed()
	c.Reread()
	<-changed
	if !c.State().Wanted() {
		t.Errorf("it can be read now: %+v", c.State())
	}
}
