package seid

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sei-operator/sei-operator/internal/seid/toml"
)

// Originals are the values that keys had before they were first changed, by the
// name of the key, as TOML writes them; nil where there was none.
type Originals map[string]*string

// With is both together; where both know a key, they agree or the first is older.
func (o Originals) With(other Originals) Originals {
	out := maps.Clone(other)
	maps.Copy(out, o)
	return out
}

// Converge is Edit for all that shall be changed at once: a key that was changed
// before and is not wanted any more gets its original value back. It returns the
// originals of what is changed then.
func (f Files) Converge(want Changes, before Originals) (Files, []Change, Originals, error) {
	restored, back, err := f.restore(want, before)
	if err != nil {
		return nil, nil, nil, err
	}
	out, done, err := restored.Edit(want)
	if err != nil {
		return nil, nil, nil, err
	}
	after := Originals{}
	for key := range want {
		if original, known := before[key.String()]; known {
			after[key.String()] = original
		}
	}
	for _, change := range done {
		name := change.Key.String()
		if _, known := after[name]; known {
			continue
		}
		after[name] = nil
		if change.Old != "" {
			after[name] = new(change.Old)
		}
	}
	return out, append(back, done...), after, nil
}

// Begin makes values part of what the files began with: they are no changes that
// could go back, and what is changed on top of them goes back to them.
func (f Files) Begin(with Changes, before Originals) (Files, []Change, Originals, error) {
	out, done, err := f.Edit(with)
	if err != nil {
		return nil, nil, nil, err
	}
	after := maps.Clone(before)
	for key := range with {
		delete(after, key.String())
	}
	return out, done, after, nil
}

// Following is one list of changes after another: what went there and back is none.
func Following(first, second []Change) []Change {
	out := slices.Clone(first)
	for _, change := range second {
		at := slices.IndexFunc(out, func(c Change) bool { return c.Key == change.Key })
		if at < 0 {
			out = append(out, change)
			continue
		}
		out[at].New = change.New
	}
	return slices.DeleteFunc(out, func(c Change) bool { return c.Old == c.New })
}

// Text is the value of a key that is a string; empty if the file has none.
func (f Files) Text(key Key) (string, error) {
	doc, err := toml.Decode(f[key.File])
	if err != nil {
		return "", fmt.Errorf("%s: %w", key.File, err)
	}
	path, err := toml.ParsePath(key.Path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", key.File, err)
	}
	value, _ := toml.Lookup(doc, path)
	text, _ := value.(string)
	return text, nil
}

// restore gives the keys that are not wanted any more their original value.
func (f Files) restore(want Changes, before Originals) (Files, []Change, error) {
	out := maps.Clone(f)
	var done []Change
	for name, original := range before {
		key, err := ParseKey(name)
		if err != nil {
			return nil, nil, err
		}
		if _, wanted := want[key]; wanted {
			continue
		}
		path, err := toml.ParsePath(key.Path)
		if err != nil {
			return nil, nil, err
		}
		value, err := parseOriginal(original)
		if err != nil {
			return nil, nil, fmt.Errorf("the value that %s had before cannot be read: %w", name, err)
		}
		content, edits, err := toml.Edit(out[key.File], []toml.Assignment{{Path: path, Value: value}})
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", key.File, err)
		}
		out[key.File] = content
		for _, edit := range edits {
			done = append(done, describeEdit(key.File, edit))
		}
	}
	return out, done, nil
}

// parseOriginal is the value, or its absence.
func parseOriginal(text *string) (any, error) {
	if text == nil {
		return toml.Absent, nil
	}
	doc, err := toml.Decode([]byte("x = " + *text))
	if err != nil {
		return nil, err
	}
	value, ok := doc["x"]
	if !ok || len(doc) != 1 {
		return nil, errors.New("it is not one value")
	}
	return value, nil
}

// describeEdit is an edit as people read it.
func describeEdit(file File, edit toml.Change) Change {
	change := Change{Key: Key{file, edit.Path.String()}}
	if edit.Old != nil {
		change.Old = toml.Format(edit.Old)
	}
	if edit.New != nil {
		change.New = toml.Format(edit.New)
	}
	return change
}
