package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	clocktesting "k8s.io/utils/clock/testing"
)

var (
	filledOnce sync.Once
	filledData []byte
	filledID   uuid.UUID
)

// filled returns the bytes of a sound store with branch pages, long rows and free
// pages, and a task in it.
func filled(tb testing.TB) ([]byte, uuid.UUID) {
	tb.Helper()
	filledOnce.Do(func() { filledData, filledID = fillOnce(tb) })
	return filledData, filledID
}

func fillOnce(tb testing.TB) ([]byte, uuid.UUID) {
	tb.Helper()
	dir := tb.TempDir()
	s := open(tb, dir, Options{})
	var task Task
	for i := range 60 {
		task = put(tb, s, Task{Type: "a", Status: Running, Run: 1, Params: raw(`{"x":"` + strings.Repeat("x", 100*i) + `"}`)})
	}
	if err := s.SaveCheckpoint(task, raw(`{"a":1}`)); err != nil {
		tb.Fatal(err)
	}
	if err := s.Close(); err != nil {
		tb.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		tb.Fatal(err)
	}
	return data, task.ID
}

// reopen opens a store over these bytes and proves that it works.
func reopen(tb testing.TB, data []byte) *Store {
	tb.Helper()
	dir := tb.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), data, 0o600); err != nil {
		tb.Fatal(err)
	}
	s := open(tb, dir, Options{})
	works(tb, s)
	return s
}

func works(tb testing.TB, s *Store) {
	tb.Helper()
	task := put(tb, s, Task{Type: "b", Status: Running, Run: 1})
	if err := s.SaveCheckpoint(task, raw(`1`)); err != nil {
		tb.Fatal(err)
	}
	if _, err := s.List(100); err != nil {
		tb.Fatal(err)
	}
	if _, err := s.Unfinished(); err != nil {
		tb.Fatal(err)
	}
	if err := s.Delete(task.ID); err != nil {
		tb.Fatal(err)
	}
}

func TestADamagedFileIsMovedAside(t *testing.T) {
	sound, _ := filled(t)
	zeroed := func(from, to int) []byte {
		data := bytes.Clone(sound)
		clear(data[from:to])
		return data
	}
	for name, data := range map[string][]byte{
		"not a database":          []byte("hello"),
		"no database, but large":  bytes.Repeat([]byte("hello"), 10000),
		"only zeros":              make([]byte, len(sound)),
		"cut off in the middle":   sound[:len(sound)/2],
		"cut off in a page":       sound[:len(sound)/2+100],
		"two pages left":          sound[:2*pageSize],
		"one byte":                sound[:1],
		"both meta pages zeroed":  zeroed(0, 2*pageSize),
		"the tree zeroed":         zeroed(2*pageSize, len(sound)),
		"one byte of a row wrong": bytes.ReplaceAll(sound, []byte("xxxxxxxx"), []byte("xxxxyxxx")),
	} {
		t.Run(name, func(t *testing.T) {
			s := reopen(t, data)
			kept := s.listAside()
			if len(kept) != 1 {
				t.Fatalf("kept aside: %v", kept)
			}
			if got, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(got, data) {
				t.Errorf("what was kept is not the damaged file: %v", err)
			}
			problems := s.Problems()
			if len(problems) != 1 || problems[0].Reason != "TaskStoreMovedAside" || !strings.Contains(problems[0].Message, kept[0]) {
				t.Errorf("problems: %v", problems)
			}
		})
	}
}

// What bbolt itself would not notice, or not survive: it would go round in a circle
// for ever, and it would write over live data.
func TestDamageThatABareDatabaseMisses(t *testing.T) {
	sound, _ := filled(t)
	meta, err := newestMeta(bytes.NewReader(sound), int64(len(sound)))
	if err != nil {
		t.Fatal(err)
	}
	branch := 0
	for id := 2; branch == 0; id++ {
		if native.Uint16(sound[id*pageSize+8:]) == flagBranch && native.Uint64(sound[id*pageSize:]) == uint64(id) {
			branch = id
		}
	}
	for name, change := range map[string]func(data []byte){
		"a branch that contains itself": func(data []byte) {
			native.PutUint64(data[branch*pageSize+pageHeader+8:], uint64(branch))
		},
		"a page in use that is offered": func(data []byte) {
			native.PutUint64(data[meta.freelist*pageSize+pageHeader:], meta.root)
		},
		"a free page that does not exist": func(data []byte) {
			native.PutUint64(data[meta.freelist*pageSize+pageHeader:], 1<<40)
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := bytes.Clone(sound)
			change(data)
			if kept := reopen(t, data).listAside(); len(kept) != 1 {
				t.Errorf("kept aside: %v", kept)
			}
		})
	}
}

func TestASoundFileStaysWhereItIs(t *testing.T) {
	sound, id := filled(t)
	torn := bytes.Clone(sound)
	// A crash in the middle of a commit leaves the newer meta page torn.
	meta, err := newestMeta(bytes.NewReader(sound), int64(len(sound)))
	if err != nil {
		t.Fatal(err)
	}
	clear(torn[int(meta.tx%2)*pageSize+30 : int(meta.tx%2)*pageSize+60])
	for name, data := range map[string][]byte{"sound": sound, "torn commit": torn, "empty": nil} {
		t.Run(name, func(t *testing.T) {
			s := reopen(t, data)
			if kept := s.listAside(); len(kept) != 0 {
				t.Errorf("moved aside: %v", kept)
			}
			if problems := s.Problems(); len(problems) != 0 {
				t.Errorf("problems: %v", problems)
			}
			if _, err := s.Get(id); data != nil && err != nil {
				t.Errorf("a task is gone: %v", err)
			}
		})
	}
}

func TestADirectoryInPlaceOfTheFileIsMovedAside(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, fileName), 0o755); err != nil {
		t.Fatal(err)
	}
	works(t, open(t, dir, Options{}))
}

// A page that is cut off under the memory map is a SIGBUS for whoever reads it.
func TestAFileThatIsCutOffWhileOpen(t *testing.T) {
	data, id := filled(t)
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, Options{})
	lost, err := s.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 2*pageSize); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(id); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("reading a page that is gone: %v", err)
	}
	works(t, s)
	if kept := s.listAside(); len(kept) != 1 {
		t.Errorf("kept aside: %v", kept)
	}

	// What runs is written again by whoever runs it, and keeps its place.
	if err := s.SaveCheckpoint(lost, raw(`1`)); err != nil {
		t.Fatal(err)
	}
	for range lost.Seq + 1 {
		put(t, s, Task{Status: Running, Run: 1})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir, Options{})
	if got, err := again.Get(lost.ID); err != nil || got.Seq != lost.Seq {
		t.Errorf("the task came back with %d, %v", got.Seq, err)
	}
	if kept := again.listAside(); len(kept) != 1 {
		t.Errorf("kept aside: %v", kept)
	}
}

func TestDamagedFilesThatAreKeptAreBounded(t *testing.T) {
	dir := t.TempDir()
	now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	for range keptAside + 2 {
		now.SetTime(now.Now().Add(time.Second))
		if err := os.WriteFile(filepath.Join(dir, fileName), []byte("hello"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir, Options{Clock: now})
		works(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	found, _ := filepath.Glob(filepath.Join(dir, fileName+".damaged-*"))
	if len(found) != keptAside {
		t.Errorf("%d damaged files are kept, want %d", len(found), keptAside)
	}
}

// Whatever is on the disk, a store opens and works.
func FuzzOpen(f *testing.F) {
	sound, _ := filled(f)
	for i := range 20 {
		f.Add(uint32(i*len(sound)/20+i%16), []byte{0xff, byte(i)})
	}
	for _, header := range []uint32{8, 10, 12, 16, 20, 24, 28, 32, 40, 48} {
		for page := range uint32(4) {
			f.Add(page*pageSize+header, []byte{0x01, 0x80})
		}
	}
	f.Add(uint32(0), []byte("short"))
	f.Fuzz(func(t *testing.T, at uint32, mask []byte) {
		data := bytes.Clone(sound)
		for i, b := range mask {
			data[(int(at)+i)%len(data)] ^= b
		}
		reopen(t, data)
	})
}
