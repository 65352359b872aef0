package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	bolt "go.etcd.io/bbolt"
)

// testdata/tasks.db was written by the last sidecar that kept its tasks in one file.
// Its counter is at 7: the tasks in the places 6 and 7 were deleted.
func oldTasks() []Task {
	at := func(sec int64) time.Time { return time.Unix(1.79e9+sec, 5).UTC() }
	id := func(n byte) uuid.UUID { return uuid.UUID{n, 0, 0, 0, 0, 0, 0x40, 0, 0x80} }
	return []Task{
		{
			ID: id(9), Type: "config-apply", Status: Completed, Run: 1, Params: raw(`{"document":{"serial":1}}`), Result: raw(`{"changed":true}`),
			SubmittedAt: at(1), StartedAt: at(1), CompletedAt: at(2), Deadline: at(61), Seq: 1,
		},
		{ID: id(2), Type: "stop-seid", Status: Running, Run: 2, Params: raw(`{}`), SubmittedAt: at(3), StartedAt: at(3), Deadline: at(63), Seq: 2},
		{ID: id(1), Type: "discover-peers", Status: Running, Run: 1, Params: raw(`{"peers":["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa@host:26656"]}`), SubmittedAt: at(4), Seq: 3},
		{
			ID: id(8), Type: "config-validate", Status: Running, Run: 1, Params: raw(`{"document":{"serial":2,"text":"<&>","wei":123456789012345678901234567890}}`),
			SubmittedAt: at(5), StartedAt: at(5), Deadline: at(65), Seq: 4,
		},
		{
			ID: id(3), Type: "restart-seid", Status: Failed, Run: 1, Params: raw(`{}`), Error: "e", Reason: "R", Retryable: true,
			SubmittedAt: at(6), StartedAt: at(6), CompletedAt: at(7), Deadline: at(66), Seq: 5,
		},
	}
}

const oldCheckpoint = `{"instance":12345678901234567890}`

// leaveOld puts the file of an older sidecar into a new home.
func leaveOld(tb testing.TB, data []byte) (dir string) {
	tb.Helper()
	dir = tb.TempDir()
	overwrite(tb, filepath.Join(dir, "tasks.db"), data)
	return dir
}

func golden(tb testing.TB) []byte {
	tb.Helper()
	return content(tb, filepath.Join("testdata", "tasks.db"))
}

// expectOld sees that everything of the golden file is there.
func expectOld(tb testing.TB, s *Store) {
	tb.Helper()
	got, err := s.List(100)
	if err != nil {
		tb.Fatal(err)
	}
	slices.Reverse(got)
	if diff := cmp.Diff(oldTasks(), got); diff != "" {
		tb.Errorf("not the tasks that were under way (-want +got):\n%s", diff)
	}
	if data, err := s.LoadCheckpoint(oldTasks()[1].ID, 2); err != nil || string(data) != oldCheckpoint {
		tb.Errorf("the checkpoint is %s, %v", data, err)
	}
	if problems := s.Problems(); len(problems) != 0 {
		tb.Errorf("problems: %v", problems)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// What was under way when the sidecar was updated goes on: types, params, checkpoints
// and the order are what they were.
func TestTheTasksOfAnOlderSidecar(t *testing.T) {
	dir := leaveOld(t, golden(t))
	s := open(t, dir, Options{})
	expectOld(t, s)
	if next := put(t, s, Task{Status: Running, Run: 1}); next.Seq <= 7 {
		t.Errorf("place %d is given again", next.Seq)
	}
	// It is taken over once: what happens after that counts.
	if err := errors.Join(s.Delete(oldTasks()[1].ID), s.Close()); err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(dir, "tasks.db")) || !exists(filepath.Join(dir, "tasks.db.imported")) {
		t.Error("the old file is still in place, or gone")
	}
	if _, err := open(t, dir, Options{}).Get(oldTasks()[1].ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted task is back: %v", err)
	}
}

func TestACrashInTheMiddleOfAnImport(t *testing.T) {
	deaths := 0
	for at, died := 1, true; died; at++ {
		dir := leaveOld(t, golden(t))
		steps := 0
		died = life(dir, Options{writer: mortal(at, &steps)}, func(s *Store) { expectOld(t, s) })
		if died {
			deaths++
		} else {
			// It died when all was done but the last: the file has its old name.
			overwrite(t, filepath.Join(dir, "tasks.db"), golden(t))
		}
		s := open(t, dir, Options{})
		expectOld(t, s)
		if next := put(t, s, Task{Status: Running, Run: 1}); next.Seq <= 7 {
			t.Errorf("death at step %d: place %d is given again", at, next.Seq)
		}
		noTemporaryFiles(t, dir)
	}
	if deaths < 5*len(oldTasks()) {
		t.Errorf("the process died %d times only", deaths)
	}
}

// Without room for them the old tasks are waited for, and not passed over.
func TestAnImportThatFails(t *testing.T) {
	failure := errors.New("no space left on device")
	for room := range len(oldTasks()) + 1 { // one more file says which places are reserved
		left, broken := room, true
		options := Options{}
		options.writer.Fault = func(step string) error {
			if broken && step == "write" {
				if left--; left < 0 {
					return failure
				}
			}
			return nil
		}
		s := open(t, leaveOld(t, golden(t)), options)
		if _, err := s.Unfinished(); !errors.Is(err, ErrUnavailable) || !errors.Is(err, failure) {
			t.Errorf("unfinished tasks, with room for %d: %v", room, err)
		}
		broken = false
		expectOld(t, s)
	}
}

func TestAnOldFileInUse(t *testing.T) {
	dir := leaveOld(t, golden(t))
	db, err := bolt.Open(filepath.Join(dir, "tasks.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("opened with %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	expectOld(t, open(t, dir, Options{}))
}

// oldFileOf makes a file as an older sidecar did.
func oldFileOf(tb testing.TB, tasks ...Task) []byte {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "tasks.db")
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: 4096})
	if err != nil {
		tb.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		var buckets []*bolt.Bucket
		for _, name := range []string{"tasks", "order", "checkpoints"} {
			bucket, err := tx.CreateBucket([]byte(name))
			if err != nil {
				return err
			}
			buckets = append(buckets, bucket)
		}
		for _, t := range tasks {
			document, err := json.Marshal(t)
			if err != nil {
				return err
			}
			value := binary.BigEndian.AppendUint32(nil, crc32.Checksum(document, crc32.MakeTable(crc32.Castagnoli)))
			if err := errors.Join(
				buckets[0].Put(t.ID[:], append(value, document...)),
				buckets[1].Put(binary.BigEndian.AppendUint64(nil, t.Seq), t.ID[:]),
				buckets[1].SetSequence(t.Seq)); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		tb.Fatal(err)
	}
	return content(tb, path)
}

// branched are tasks that need branch pages and pages that go on.
func branched() (tasks []Task) {
	for i := range 6 {
		tasks = append(tasks, Task{
			ID: uuid.UUID{byte(i), 1}, Type: "a", Status: Running, Run: 1, Seq: uint64(i + 1),
			Params: raw(`{"x":"` + strings.Repeat("x", 1000*i) + `"}`),
		})
	}
	return tasks
}

func TestADamagedOldFileIsMovedAside(t *testing.T) {
	sound := oldFileOf(t, branched()...)
	zeroed := func(from, to int) []byte {
		data := bytes.Clone(sound)
		clear(data[from:to])
		return data
	}
	for name, data := range map[string][]byte{
		"not a database":         []byte("hello"),
		"no database, but large": bytes.Repeat([]byte("hello"), 10000),
		"only zeros":             make([]byte, len(sound)),
		"cut off in the middle":  sound[:len(sound)/2],
		"cut off in a page":      sound[:len(sound)/2+100],
		"two pages left":         sound[:2*4096],
		"one page left":          sound[:4096],
		"one byte":               sound[:1],
		"both meta pages zeroed": zeroed(0, 2*4096),
		"the tree zeroed":        zeroed(2*4096, len(sound)),
	} {
		t.Run(name, func(t *testing.T) {
			dir := leaveOld(t, data)
			s := open(t, dir, Options{})
			works(t, s)
			kept := s.listAside()
			if len(kept) != 1 || exists(filepath.Join(dir, "tasks.db")) {
				t.Fatalf("kept aside: %v", kept)
			}
			if !bytes.Equal(content(t, kept[0]), data) {
				t.Error("what was kept is not the damaged file")
			}
			if problems := s.Problems(); len(problems) != 1 || problems[0].Reason != "TaskStoreMovedAside" || !strings.Contains(problems[0].Message, kept[0]) {
				t.Errorf("problems: %v", problems)
			}
		})
	}
	t.Run("a directory", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "tasks.db"), 0o755); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir, Options{})
		works(t, s)
		if kept := s.listAside(); len(kept) != 1 {
			t.Errorf("kept aside: %v", kept)
		}
	})
	t.Run("empty", func(t *testing.T) {
		s := open(t, leaveOld(t, nil), Options{})
		works(t, s)
		if len(s.Problems()) != 0 {
			t.Error(s.Problems())
		}
	})
	t.Run("without buckets", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "db")
		db, err := bolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		s := open(t, leaveOld(t, content(t, path)), Options{})
		works(t, s)
		if len(s.Problems()) != 0 {
			t.Error(s.Problems())
		}
	})
}

// What can be read of a damaged file is taken over, and a person is told of the rest.
func TestOneRowOfAnOldFile(t *testing.T) {
	data := bytes.ReplaceAll(golden(t), []byte(`"type":"discover-peers"`), []byte(`"type":"discover-beers"`))
	s := open(t, leaveOld(t, data), Options{})
	old := oldTasks()
	if got, want := unfinished(t, s), []uuid.UUID{old[1].ID, old[3].ID}; !slices.Equal(got, want) {
		t.Errorf("unfinished: %v, want %v", got, want)
	}
	if data, err := s.LoadCheckpoint(old[1].ID, 2); err != nil || string(data) != oldCheckpoint {
		t.Errorf("the checkpoint is %s, %v", data, err)
	}
	if next := put(t, s, Task{Status: Running, Run: 1}); next.Seq <= 7 {
		t.Errorf("place %d is given again", next.Seq)
	}
	if problems := s.Problems(); len(problems) != 1 || problems[0].Reason != "TaskStoreMovedAside" {
		t.Errorf("problems: %v", problems)
	}
}

// A task without the checkpoint that it had would do things twice.
func TestADamagedCheckpointOfAnOldFile(t *testing.T) {
	data := bytes.ReplaceAll(golden(t), []byte(`"instance":1234`), []byte(`"instance":9234`))
	s := open(t, leaveOld(t, data), Options{})
	old := oldTasks()
	if got, want := unfinished(t, s), []uuid.UUID{old[2].ID, old[3].ID}; !slices.Equal(got, want) {
		t.Errorf("unfinished: %v, want %v", got, want)
	}
}

// Whatever an older sidecar left, the store opens and works.
func FuzzImport(f *testing.F) {
	sound := oldFileOf(f, branched()...)
	for i := range 20 {
		f.Add(uint32(i*len(sound)/20+i%16), []byte{0xff, byte(i)})
	}
	for _, header := range []uint32{8, 10, 12, 16, 20, 24, 28, 32, 40, 48} {
		for page := range uint32(4) {
			f.Add(page*4096+header, []byte{0x01, 0x80})
		}
	}
	f.Add(uint32(0), []byte("short"))
	f.Fuzz(func(t *testing.T, at uint32, mask []byte) {
		data := bytes.Clone(sound)
		for i, b := range mask {
			data[(int(at)+i)%len(data)] ^= b
		}
		works(t, open(t, leaveOld(t, data), Options{}))
	})
}
