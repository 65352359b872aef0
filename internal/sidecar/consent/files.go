package consent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sei-operator/sei-operator/internal/durable"
)

// maxFile is far more than either file has.
const maxFile = 64 << 10

// directory is where the files are.
type directory struct {
	path string
	durable.Writer
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

// write replaces a file as a whole.
func write(d directory, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := d.MkdirAll(d.path, 0o755); err != nil {
		return err
	}
	return d.Replace(filepath.Join(d.path, name), append(data, '\n'), 0o644)
}

// remove deletes a file for good; one that is not there is deleted.
func (d directory) remove(name string) error { return d.Remove(filepath.Join(d.path, name)) }
