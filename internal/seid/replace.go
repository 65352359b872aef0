package seid

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ReplaceFile gives a file another content so that at every moment, also after a
// crash or a loss of power, either the old or the new one is there in full.
func ReplaceFile(path string, content []byte, mode fs.FileMode) error {
	staged, err := stage(path, content, mode)
	if err != nil {
		return err
	}
	return staged.commit()
}

// stagedFile is a new content that is safely on disk beside the file it will
// replace.
type stagedFile struct{ path, temp string }

// stage writes the new content. The name of the temporary file is fixed, so that
// crashes leave at most one behind, which the next attempt overwrites.
func stage(path string, content []byte, mode fs.FileMode) (stagedFile, error) {
	staged := stagedFile{path: path, temp: filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")}
	file, err := os.OpenFile(staged.temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return stagedFile{}, fmt.Errorf("cannot write %s: %w", path, err)
	}
	_, err = file.Write(content)
	// The mode given to open is subject to the umask, and a file that was left
	// behind keeps its own.
	err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
	if err != nil {
		staged.discard()
		return stagedFile{}, fmt.Errorf("cannot write %s: %w", path, err)
	}
	return staged, nil
}

// commit puts the new content in place.
func (s stagedFile) commit() error {
	if err := os.Rename(s.temp, s.path); err != nil {
		s.discard()
		return fmt.Errorf("cannot replace %s: %w", s.path, err)
	}
	// Without this a loss of power may undo the rename.
	dir, err := os.Open(filepath.Dir(s.path))
	if err != nil {
		return fmt.Errorf("cannot make the new %s durable: %w", s.path, err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("cannot make the new %s durable: %w", s.path, err)
	}
	return nil
}

// discard removes the new content. It is an attempt: what stays is overwritten by
// the next one.
func (s stagedFile) discard() { _ = os.Remove(s.temp) }
