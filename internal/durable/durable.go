// Package durable replaces files so that at every moment, also after a crash or a loss
// of power, either the old or the new content is there in full.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Writer writes files. The zero value is one.
type Writer struct {
	// Fault is called before every step that changes the disk, and fails it; nil for
	// none. It is for tests.
	Fault func(step string) error
}

func (w Writer) do(step string, fn func() error) error {
	if w.Fault != nil {
		if err := w.Fault(step); err != nil {
			return err
		}
	}
	return fn()
}

// Replace gives a file another content.
func Replace(path string, content []byte, mode fs.FileMode) error {
	return Writer{}.Replace(path, content, mode)
}

// Replace gives a file another content.
func (w Writer) Replace(path string, content []byte, mode fs.FileMode) error {
	staged, err := w.Stage(path, content, mode)
	if err != nil {
		return err
	}
	return staged.Commit()
}

// Stage makes a new content durable beside the file that it will replace.
func (w Writer) Stage(path string, content []byte, mode fs.FileMode) (*File, error) {
	file, err := w.Create(path, mode)
	if err != nil {
		return nil, err
	}
	err = w.do("write", func() error { _, err := file.Write(content); return err })
	if err == nil {
		err = file.Finish()
	}
	if err != nil {
		file.Discard()
		return nil, fmt.Errorf("cannot write %s: %w", path, err)
	}
	return file, nil
}

// File is a new content, beside the file that it will replace.
type File struct {
	*os.File

	writer    Writer
	path      string
	mode      fs.FileMode
	finished  bool
	committed bool
}

// Create begins a new content. The name of the temporary file is fixed, so that
// crashes leave at most one behind, which the next attempt overwrites.
func (w Writer) Create(path string, mode fs.FileMode) (*File, error) {
	f := &File{writer: w, path: path, mode: mode}
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	err := w.do("create", func() (err error) {
		f.File, err = os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode|0o200)
		if errors.Is(err, fs.ErrPermission) && os.Remove(temp) == nil { // one that was left behind, for reading only
			f.File, err = os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode|0o200)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", path, err)
	}
	return f, nil
}

// Finish makes the content durable, and ends the writing.
func (f *File) Finish() error {
	if f.finished {
		return nil
	}
	f.finished = true
	return errors.Join(
		// The mode given to open is subject to the umask, and a file that was left behind
		// keeps its own.
		f.Chmod(f.mode),
		f.writer.do("sync file", f.Sync),
		f.Close())
}

// Commit puts the new content in place for good.
func (f *File) Commit() error {
	if err := f.Finish(); err != nil {
		f.Discard()
		return fmt.Errorf("cannot write %s: %w", f.path, err)
	}
	if err := f.writer.do("rename", func() error { return os.Rename(f.Name(), f.path) }); err != nil {
		f.Discard()
		return fmt.Errorf("cannot replace %s: %w", f.path, err)
	}
	f.committed = true
	// Without this a loss of power may undo the rename.
	if err := f.writer.SyncDirectory(filepath.Dir(f.path)); err != nil {
		return fmt.Errorf("cannot make the new %s durable: %w", f.path, err)
	}
	return nil
}

// Discard removes the new content, unless it is in place. It is an attempt: what stays
// is overwritten by the next one.
func (f *File) Discard() {
	if f.committed {
		return
	}
	if !f.finished {
		f.finished = true
		_ = f.Close()
	}
	_ = os.Remove(f.Name())
}

// Remove deletes a file for good; one that is not there is deleted.
func (w Writer) Remove(path string) error {
	err := w.do("remove", func() error { return os.Remove(path) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = w.SyncDirectory(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// MkdirAll makes a directory and its parents. Its name is made durable also where it is
// there already: whoever made it may not have done so.
func (w Writer) MkdirAll(path string, mode fs.FileMode) error {
	if err := w.do("mkdir", func() error { return os.MkdirAll(path, mode) }); err != nil {
		return err
	}
	return w.do("sync parent", func() error { return Sync(filepath.Dir(path)) })
}

// SyncDirectory makes the names in a directory durable.
func (w Writer) SyncDirectory(path string) error {
	return w.do("sync directory", func() error { return Sync(path) })
}

// Sync makes a file, or the names in a directory, durable.
func Sync(path string) error {
	opened, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
