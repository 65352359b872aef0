package store

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The tests of a full disk limit the size of files, which is for a whole
	// process: they run in a child.
	if dir := os.Getenv(fullDiskChild); dir != "" {
		os.Exit(fullDisk(dir))
	}
	// A thousand files are made durable here, and no test pulls the plug: in memory it
	// takes a fraction of the time.
	if _, err := os.Stat("/dev/shm"); err == nil {
		if err := os.Setenv("TMPDIR", "/dev/shm"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

func open(tb testing.TB, dir string, options Options) *Store {
	tb.Helper()
	s, err := Open(dir, options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func put(tb testing.TB, s *Store, t Task) Task {
	tb.Helper()
	if t.ID == uuid.Nil {
		t.ID = uuid.New()
	}
	kept, err := s.Put(t)
	if err != nil {
		tb.Fatal(err)
	}
	return kept
}

func ids(tasks []Task) []uuid.UUID {
	found := []uuid.UUID{}
	for _, t := range tasks {
		found = append(found, t.ID)
	}
	return found
}

func raw(text string) json.RawMessage { return json.RawMessage(text) }
