package store

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	clocktesting "k8s.io/utils/clock/testing"
)

// A failure of the disk that passes costs no task: one of them may be a hold.
func TestAnOldFileThatTheDiskDoesNotGiveBack(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	failing := true
	options := Options{Clock: now, read: func(path string, into io.Writer) error {
		if failing && filepath.Base(path) == "tasks.db" {
			return &os.PathError{Op: "read", Path: path, Err: syscall.EIO}
		}
		return readFile(path, into)
	}}
	waits := func() *Store {
		t.Helper()
		s := open(t, leaveOld(t, golden(t)), options)
		if _, err := s.Unfinished(); !errors.Is(err, ErrUnavailable) || !errors.Is(err, syscall.EIO) {
			t.Errorf("tasks that may be under way were passed over: %v", err)
		}
		if !exists(filepath.Join(s.dir, "tasks.db")) || len(s.listAside()) != 0 {
			t.Error("the file was given up at once")
		}
		return s
	}

	s := waits()
	failing = false
	expectOld(t, s)

	// Where it does not pass, what can be read is taken over: here everything.
	failing = true
	s = waits()
	now.SetTime(now.Now().Add(patience))
	expectOld(t, s)
}

// An id that is lost in one bucket is in the other.
func TestADamagedOrderOfAnOldFile(t *testing.T) {
	var old []Task
	for i := range byte(200) { // so many that the order has pages of its own
		old = append(old, Task{ID: uuid.UUID{200 - i, 1}, Type: "a", Status: Running, Run: 1, Seq: uint64(i) + 1})
	}
	data := oldFileOf(t, old...)
	// The page of the order holds the place and the id of each task, side by side.
	last := old[len(old)-1]
	entry := append([]byte{0, 0, 0, 0, 0, 0, 0, byte(last.Seq)}, last.ID[:]...)
	at := bytes.Index(data, entry)
	if at < 0 {
		t.Fatal("the order of the old file was not found")
	}
	clear(data[at&^4095 : at&^4095+4096])
	s := open(t, leaveOld(t, data), Options{})
	if got, want := unfinished(t, s), ids(old); !slices.Equal(got, want) {
		t.Errorf("unfinished: %v, want %v", got, want)
	}
	if next := put(t, s, Task{Status: Running, Run: 1}); next.Seq <= last.Seq {
		t.Errorf("place %d is given again", next.Seq)
	}
}

// longHistory is many finished tasks, and two that are under way among them.
func longHistory() (all, underWay []Task) {
	for i := range 1000 {
		task := Task{ID: uuid.UUID{1, byte(i >> 8), byte(i)}, Type: "a", Status: Completed, Run: 1, Seq: uint64(i + 1), CompletedAt: time.Now()}
		if i == 3 || i == 700 {
			task.Status, task.CompletedAt = Running, time.Time{}
			underWay = append(underWay, task)
		}
		all = append(all, task)
	}
	return all, underWay
}

// What ended long ago must not keep the sidecar from answering: each file costs fsyncs.
func TestALongHistoryOfAnOlderSidecar(t *testing.T) {
	all, underWay := longHistory()
	syncs := 0
	options := Options{}
	options.writer.Fault = func(step string) error {
		if strings.HasPrefix(step, "sync") {
			syncs++
		}
		return nil
	}
	s := open(t, leaveOld(t, oldFileOf(t, all...)), options)
	if most := 2*(importFinished+len(underWay)) + 10; syncs > most {
		t.Errorf("an import of %d tasks needed %d fsyncs, want %d at most", len(all), syncs, most)
	}
	if got := unfinished(t, s); !slices.Equal(got, ids(underWay)) {
		t.Errorf("unfinished: %v, want %v", got, ids(underWay))
	}
	got, err := s.List(len(all))
	if err != nil || len(got) != importFinished+len(underWay) || got[0].ID != all[len(all)-1].ID {
		t.Errorf("%d tasks were taken over (%v), want the newest %d and those under way", len(got), err, importFinished)
	}
	if next := put(t, s, Task{Status: Running, Run: 1}); next.Seq <= uint64(len(all)) {
		t.Errorf("place %d is given again", next.Seq)
	}
}

// On a disk that is full soon, what is under way is safe before what has ended.
func TestAFullDiskDuringAnImport(t *testing.T) {
	all, underWay := longHistory()
	room := len(underWay) + 1 // one more file says which places are reserved
	options := Options{}
	options.writer.Fault = func(step string) error {
		if step == "write" {
			if room--; room < 0 {
				return syscall.ENOSPC
			}
		}
		return nil
	}
	s := open(t, leaveOld(t, oldFileOf(t, all...)), options)
	if _, err := s.Unfinished(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("unfinished tasks on a full disk: %v", err)
	}
	for _, task := range underWay {
		if !exists(file(s.dir, task.ID)) {
			t.Errorf("the task in place %d, which is under way, is not safe", task.Seq)
		}
	}
	room = len(all)
	if got := unfinished(t, s); !slices.Equal(got, ids(underWay)) {
		t.Errorf("with space again, unfinished: %v, want %v", got, ids(underWay))
	}
}

// An older sidecar was back for a while. It knew nothing of the newer tasks, and counted
// anew: which of two came later is not certain. A release could end a hold that came
// after it, so what has not begun has to be asked for again; a hold always counts.
func TestAnOlderSidecarThatCameBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	shared := put(t, s, Task{ID: uuid.UUID{1}, Type: "new", Status: Running, Run: 1})
	hold := put(t, s, Task{ID: uuid.UUID{2}, Type: "mark-not-ready", Status: Running, Run: 1})
	release := put(t, s, Task{ID: uuid.UUID{3}, Type: "release-hold", Status: Running, Run: 1})
	begun := put(t, s, Task{ID: uuid.UUID{4}, Type: "restart-seid", Status: Running, Run: 1})
	ended := put(t, s, Task{ID: uuid.UUID{5}, Type: "release-hold", Status: Completed, Run: 1, CompletedAt: time.Now()})
	if err := errors.Join(s.SaveCheckpoint(begun, raw(`1`)), s.Close()); err != nil {
		t.Fatal(err)
	}
	overwrite(t, filepath.Join(dir, "tasks.db"), oldFileOf(t,
		Task{ID: shared.ID, Type: "old", Status: Completed, Run: 1, Seq: 1, CompletedAt: time.Now()},
		Task{ID: uuid.UUID{9}, Type: "mark-not-ready", Status: Running, Run: 1, Seq: 2},
		Task{ID: uuid.UUID{8}, Type: "release-hold", Status: Running, Run: 1, Seq: 3},
		Task{ID: uuid.UUID{7}, Type: "mark-not-ready", Status: Running, Run: 1, Seq: 4}))
	now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	s = open(t, dir, Options{Clock: now})
	if got, want := unfinished(t, s), []uuid.UUID{hold.ID, begun.ID, {9}, {7}}; !slices.Equal(got, want) {
		t.Errorf("unfinished: %v, want %v", got, want)
	}
	if got, err := s.Get(shared.ID); err != nil || got.Type != "old" || got.Status != Completed {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.Get(ended.ID); err != nil || got.Status != Completed {
		t.Errorf("%+v, %v", got, err)
	}
	for _, id := range []uuid.UUID{release.ID, {8}} {
		got, err := s.Get(id)
		if err != nil || got.Status != Failed || got.Reason != "Superseded" || !got.Retryable || got.Error == "" || !got.CompletedAt.Equal(now.Now()) {
			t.Errorf("a release that may be older than a hold: %+v, %v", got, err)
		}
	}
}
