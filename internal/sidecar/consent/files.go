package consent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFile is far more than either file has.
const maxFile = 64 << 10

// directory is where the files are. Every step that changes it goes through do, so
// that a test can fail each of them.
type directory struct {
	path  string
	fault func(step string) error
}

func (d directory) do(step string, fn func() error) error {
	if d.fault != nil {
		if err := d.fault(step); err != nil {
			return err
		}
	}
	return fn()
}

// read parses a file. What it does not know is left to the sidecar that wrote it: a
// field that a newer one added must not stop a node that goes back. A file that is not certainly absent never is
// fs.ErrNotExist.
func read[T interface{ validate() error }](d directory, name string) (T, error) {
	var v T
	path := filepath.Join(d.path, name)
	file, err := os.Open(path)
	if _, there := os.Lstat(path); err != nil && there == nil {
		// Not wrapped: a link to nowhere says that it does not exist.
		return v, errors.New(path + " is there and cannot be opened: " + err.Error())
	}
	if err != nil {
		return v, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return v, fmt.Errorf("%s: %w", file.Name(), err)
	}
	if len(data) > maxFile {
		return v, fmt.Errorf("%s: it is larger than %d bytes", file.Name(), maxFile)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&v); err != nil {
		return v, fmt.Errorf("%s: %w", file.Name(), err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return v, fmt.Errorf("%s: there is more after the end", file.Name())
	}
	if err := v.validate(); err != nil {
		return v, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return v, nil
}

// write replaces a file as a whole: after a crash there is the old one or the new.
func write(d directory, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	final := filepath.Join(d.path, name)
	temp := final + ".tmp"
	if err := d.do("mkdir", func() error { return os.MkdirAll(d.path, 0o755) }); err != nil {
		return err
	}
	var file *os.File
	err = d.do("create", func() (err error) {
		file, err = os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		return err
	})
	if err != nil {
		return err
	}
	err = errors.Join(
		d.do("write", func() error { _, err := file.Write(append(data, '\n')); return err }),
		d.do("sync file", file.Sync))
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := d.do("rename", func() error { return os.Rename(temp, final) }); err != nil {
		return err
	}
	return d.sync()
}

// remove deletes a file for good; one that is not there is deleted.
func (d directory) remove(name string) error {
	err := d.do("remove", func() error { return os.Remove(filepath.Join(d.path, name)) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.sync()
}

// sync makes renames and removals durable, of the directory itself too, which may
// be new.
func (d directory) sync() error {
	return d.do("sync directory", func() error {
		for _, path := range []string{d.path, filepath.Dir(d.path)} {
			dir, err := os.Open(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}
