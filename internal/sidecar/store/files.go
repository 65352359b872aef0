package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// A file is a checksum, a line break and JSON. It is replaced as a whole, so a crash
// leaves the old content or the new one; the checksum is for what a disk does to it
// later.
const (
	tasksDir = "tasks"
	// rowSuffix comes after the id of a task, which is a UUID in its one canonical
	// spelling: no id leads out of the directory.
	rowSuffix = ".json"
	// sequenceFile holds the number up to which places are reserved. Without it the
	// places of tasks that were deleted, or whose files were damaged, would be given
	// to others after a restart.
	sequenceFile = "sequence"
	// reserveAhead is how many places are reserved at a time, so that a submission
	// writes one file only.
	reserveAhead = 1000
	// patience is how long a disk may go on failing to read a file before it counts as
	// damaged.
	patience = time.Minute
	// keptAside is how many damaged files are kept for a person to look at.
	keptAside = 20
)

// row is the content of a task's file. Both are in one, so that a checkpoint can
// neither outlive its run nor get lost without it.
type row struct {
	Task       Task        `json:"task"`
	Checkpoint *checkpoint `json:"checkpoint,omitempty"`
}

type checkpoint struct {
	Run  int             `json:"run"`
	Data json.RawMessage `json:"data"`
}

type sequence struct {
	Reserved uint64 `json:"reserved"`
}

// entry is what has to be known of a task without reading its file.
type entry struct {
	seq         uint64
	status      Status
	completedAt time.Time
	size        int64
}

// load makes the index from the files.
func (s *Store) load() error {
	dir := s.path("")
	if err := s.opts.writer.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// Who finds a task here acknowledges it. The one who wrote it may have died before
	// it was durable.
	if err := s.opts.writer.SyncDirectory(dir); err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	s.index = map[uuid.UUID]entry{}
	for _, file := range files {
		if strings.HasPrefix(file.Name(), ".") && strings.HasSuffix(file.Name(), ".new") {
			_ = os.Remove(s.path(file.Name())) // a write that a crash cut short
			continue
		}
		if err := s.loadRow(file); err != nil {
			return err
		}
	}
	if err := s.loadSequence(); err != nil {
		return err
	}
	if err := s.importOld(); err != nil {
		return err
	}
	// Old tasks are collected soon, but not now: an open writes nothing, so that it
	// works on a full disk too. Only the import does, once in the life of a volume.
	s.finished = collectEvery
	return nil
}

func (s *Store) loadRow(file fs.DirEntry) error {
	id, _ := uuid.Parse(strings.TrimSuffix(file.Name(), rowSuffix))
	if rowName(id) != file.Name() {
		return nil // not ours
	}
	if !file.Type().IsRegular() {
		return s.moveAside(s.path(file.Name()), fmt.Errorf("%w: it is not a file but %s", errDamaged, file.Type()))
	}
	s.index[id] = entry{}
	r, err := s.readRow(id)
	if errors.Is(err, ErrNotFound) {
		return nil // it was damaged
	}
	s.remember(r.Task)
	return err
}

func (s *Store) loadSequence() error {
	var found sequence
	switch err := s.readFile(sequenceFile, &found); {
	case errors.Is(err, errDamaged):
		// It may have said as much.
		s.last += reserveAhead
		return s.moveAside(s.path(sequenceFile), err)
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	}
	s.reserved = found.Reserved
	s.last = max(s.last, s.reserved)
	return nil
}

// reserve makes durable that the place of the next task may have been given away. It
// comes before the task.
func (s *Store) reserve() error {
	if s.last <= s.reserved {
		return nil
	}
	upTo := s.last + reserveAhead
	if err := s.writeFile(sequenceFile, sequence{Reserved: upTo}); err != nil {
		return err
	}
	s.reserved = upTo
	return nil
}

func (s *Store) remember(t Task) {
	s.index[t.ID] = entry{seq: t.Seq, status: t.Status, completedAt: t.CompletedAt, size: int64(len(t.Params) + len(t.Result))}
	s.last = max(s.last, t.Seq)
}

func rowName(id uuid.UUID) string { return id.String() + rowSuffix }

// readRow returns what is known of a task, or ErrNotFound. A damaged file is moved
// aside.
func (s *Store) readRow(id uuid.UUID) (row, error) {
	var r row
	if _, known := s.index[id]; !known {
		return r, ErrNotFound
	}
	err := s.readFile(rowName(id), &r)
	if err == nil && r.Task.ID != id {
		err = fmt.Errorf("%w: it is that of task %s", errDamaged, r.Task.ID)
	}
	if errors.Is(err, errDamaged) {
		if err = s.moveAside(s.path(rowName(id)), err); err == nil {
			err = ErrNotFound
		}
	}
	if errors.Is(err, ErrNotFound) {
		delete(s.index, id)
	}
	return r, err
}

func (s *Store) writeRow(r row) error {
	if err := s.writeFile(rowName(r.Task.ID), r); err != nil {
		return err
	}
	s.remember(r.Task)
	return nil
}

func (s *Store) readFile(name string, into any) error {
	var content bytes.Buffer
	if err := s.read(s.path(name), &content); err != nil {
		return err
	}
	return decode(content.Bytes(), into)
}

// read copies a file. One that the disk has failed to give back for long is damaged.
func (s *Store) read(path string, into io.Writer) error {
	err := s.opts.read(path, into)
	switch {
	case err == nil:
		delete(s.unreadable, filepath.Base(path))
	case errors.Is(err, fs.ErrNotExist):
		return ErrNotFound
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.EBADMSG), errors.Is(err, syscall.EUCLEAN):
		// The disk cannot give it back: perhaps only now, and one block must not keep
		// all tasks away for ever.
		if s.failedFor(filepath.Base(path)) >= patience {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	return err
}

func readFile(path string, into io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(into, file)
	return errors.Join(err, file.Close())
}

// failing is when the disk first failed to read a file, and when it last did.
type failing struct {
	since, latest time.Time
}

// failedFor notes that the disk failed to read a file just now, and returns for how long
// it has done so. A failure with no other near it begins anew: two of them, hours apart,
// are two moments, and the file may be a hold that was accepted.
func (s *Store) failedFor(name string) time.Duration {
	now := s.opts.Clock.Now()
	f, known := s.unreadable[name]
	if !known || now.Sub(f.latest) > patience {
		f.since = now
	}
	f.latest = now
	s.unreadable[name] = f
	return now.Sub(f.since)
}

func (s *Store) writeFile(name string, from any) error {
	content, err := encode(from)
	if err != nil {
		return err
	}
	staged, err := s.opts.writer.Stage(s.path(name), content, 0o600)
	if err != nil {
		return err // nothing has changed
	}
	if err := staged.Commit(); err != nil {
		s.loaded = false // it may have happened all the same
		return err
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encode(from any) ([]byte, error) {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	// What was submitted is compared with what is kept: "<" stays "<".
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(from); err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x\n%s", crc32.Checksum(content.Bytes(), castagnoli), content.Bytes()), nil
}

func decode(content []byte, into any) error {
	sum, document, _ := bytes.Cut(content, []byte("\n"))
	if string(sum) != fmt.Sprintf("%08x", crc32.Checksum(document, castagnoli)) {
		return fmt.Errorf("%w: it has a wrong checksum", errDamaged)
	}
	if err := json.Unmarshal(document, into); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return nil
}

// moveAside keeps a damaged file where it is not read any more.
func (s *Store) moveAside(path string, cause error) error {
	to := path + ".damaged-" + s.opts.Clock.Now().UTC().Format("20060102T150405.000000000Z")
	if err := os.Rename(path, to); err != nil {
		return fmt.Errorf("move a damaged file of the task store aside: %w", err)
	}
	delete(s.unreadable, filepath.Base(path)) // the next file of this name is another one
	s.opts.Log.Error("A file of the task store was damaged: it is kept aside and what was in it is forgotten; approval and hold are not",
		"kept", to, "cause", cause)
	kept := s.listAside()
	for _, old := range kept[:max(0, len(kept)-keptAside)] {
		_ = os.RemoveAll(old)
	}
	s.note(nil)
	return s.opts.writer.SyncDirectory(filepath.Dir(path))
}

// listAside returns the damaged files that were kept, oldest first.
func (s *Store) listAside() []string {
	const pattern = "*.damaged-*"
	inDir, _ := filepath.Glob(filepath.Join(s.dir, pattern))
	inTasks, _ := filepath.Glob(s.path(pattern))
	found := append(inDir, inTasks...)
	when := func(path string) string { return path[strings.LastIndex(path, "-"):] }
	slices.SortFunc(found, func(a, b string) int { return strings.Compare(when(a), when(b)) })
	return found
}
