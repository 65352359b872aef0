package seid

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sei-operator/sei-operator/internal/durable"
	"github.com/sei-operator/sei-operator/internal/seid/toml"
)

// File is the name of one of seid's configuration files.
type File string

// The configuration files.
const (
	ConfigTOML File = "config.toml"
	AppTOML    File = "app.toml"
	ClientTOML File = "client.toml"
)

var allFiles = []File{ConfigTOML, AppTOML, ClientTOML}

// Key is a key of a configuration file.
type Key struct {
	File File
	// Path is the path in the file, with dots.
	Path string
}

// String is the key as overrides name it, for example config.p2p.laddr.
func (k Key) String() string {
	return strings.TrimSuffix(string(k.File), ".toml") + "." + k.Path
}

// MarshalText writes the key as overrides name it.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// ParseKey reads a key as overrides name it.
func ParseKey(text string) (Key, error) {
	name, path, _ := strings.Cut(text, ".")
	key := Key{File: File(name + ".toml"), Path: path}
	if !slices.Contains(allFiles, key.File) {
		return Key{}, fmt.Errorf("%q is no key of seid's configuration: it must start with the file, \"config.\", \"app.\" or \"client.\"", text)
	}
	for part := range strings.SplitSeq(path, ".") {
		// Every key of seid is made of these. Others would need quotes, and seid
		// does not tell upper from lower case.
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return Key{}, fmt.Errorf("%q is no key of seid's configuration: write it as in seid's files, in lower case, for example config.p2p.max-connections", text)
		}
	}
	return key, nil
}

// Changes are values that configuration files shall have, as text. The type of a
// value is that of the one it replaces.
type Changes map[Key]string

// Change is one value that was changed. Old and New are as TOML writes them, and
// empty where there was or is none.
type Change struct {
	Key Key    `json:"key"`
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// Files are configuration files by name.
type Files map[File][]byte

// ReadFiles reads the configuration files of a home.
func ReadFiles(home Home) (Files, error) {
	files := Files{}
	for _, file := range allFiles {
		content, err := os.ReadFile(home.File(file))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s does not exist; \"seid init\" makes it: %w", home.File(file), err)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read seid's configuration: %w", err)
		}
		files[file] = content
	}
	return files, nil
}

// Edit is the files with the changes made, and what changed, in the order of the
// keys. It is all or nothing, and the files it is called on stay as they are.
func (f Files) Edit(changes Changes) (Files, []Change, error) {
	out := maps.Clone(f)
	var done []Change
	for _, file := range allFiles {
		set, err := f.assignments(file, changes)
		if err != nil {
			return nil, nil, err
		}
		if len(set) == 0 {
			continue
		}
		content, edits, err := toml.Edit(f[file], set)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		out[file] = content
		for _, edit := range edits {
			done = append(done, describeEdit(file, edit))
		}
	}
	return out, done, nil
}

// assignments are the changes of one file as typed values.
func (f Files) assignments(file File, changes Changes) ([]toml.Assignment, error) {
	var keys []Key
	for key := range changes {
		if key.File == file {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	slices.SortFunc(keys, func(a, b Key) int { return cmp.Compare(a.Path, b.Path) })
	doc, err := toml.Decode(f[file])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	set := make([]toml.Assignment, len(keys))
	for i, key := range keys {
		path, err := toml.ParsePath(key.Path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		old, _ := toml.Lookup(doc, path)
		value, err := coerce(old, schema[file][key.Path], changes[key])
		if err != nil {
			return nil, &ValueError{Key: key, Value: changes[key], Want: err.Error()}
		}
		set[i] = toml.Assignment{Path: path, Value: value}
	}
	return set, nil
}

// WriteFiles writes configuration files, each atomically and with the mode it
// has, and only where the content differs. Everything that can fail for want of
// space or permission is done before the first file is replaced.
func WriteFiles(home Home, files Files) error {
	var staged []*durable.File
	discard := func() {
		for _, file := range staged {
			file.Discard()
		}
	}
	for _, file := range allFiles {
		content, ok := files[file]
		if !ok {
			continue
		}
		path := home.File(file)
		next, err := stageIfDifferent(path, content)
		if err != nil {
			discard()
			return err
		}
		if next != nil {
			staged = append(staged, next)
		}
	}
	for i, file := range staged {
		if err := file.Commit(); err != nil {
			staged = staged[i:]
			discard()
			return err
		}
	}
	return nil
}

func stageIfDifferent(path string, content []byte) (*durable.File, error) {
	before, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read seid's configuration: %w", err)
	}
	if bytes.Equal(before, content) {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read seid's configuration: %w", err)
	}
	return durable.Writer{}.Stage(path, content, info.Mode().Perm())
}

// Apply makes the changes in the files of a home and says what changed. Nothing
// is written if nothing changes, or if any of the changes cannot be made.
func Apply(home Home, changes Changes) ([]Change, error) {
	before, err := ReadFiles(home)
	if err != nil {
		return nil, err
	}
	after, done, err := before.Edit(changes)
	if err != nil {
		return nil, fmt.Errorf("the configuration was not changed: %w", err)
	}
	if err := WriteFiles(home, after); err != nil {
		return nil, err
	}
	return done, nil
}
