// Package toml edits TOML files that belong to somebody else: it changes the
// values it is told to and leaves every other byte as it is, comments, order,
// spacing and line ends included.
//
// Decoding and encoding again would lose the comments of a file that people
// read. So a file is edited at byte positions, and every edit is checked before
// it is returned: the result decodes to exactly the old values with the wanted
// ones in place, or there is no result.
//
// The positions come from go-toml's parser, which its authors call unstable. What
// github.com/creachadair/tomledit offers instead was tried: its formatter writes the
// whole document anew (line ends, blank lines, indentation and quotes of keys change,
// and a key that is removed takes the comment above it along), its parser knows lines
// but no bytes, and its scanner needs more code here and refuses documents that Decode
// reads, such as one with the key 1.a.
package toml

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	gotoml "github.com/pelletier/go-toml/v2"
)

// Path is the position of a value: the names of the tables it is in, and its own.
type Path []string

// ParsePath reads a path as people write it, for example "p2p.laddr". A name
// that itself contains a dot cannot be written this way; build the Path instead.
func ParsePath(text string) (Path, error) {
	path := Path(strings.Split(text, "."))
	if slices.Contains(path, "") {
		return nil, fmt.Errorf("%q is no path of a value: write the names of its tables and its own, separated by single dots", text)
	}
	return path, nil
}

// String is the path as TOML writes it, with quotes where a name needs them.
func (p Path) String() string {
	names := make([]string, len(p))
	for i, name := range p {
		names[i] = formatKey(name)
	}
	return strings.Join(names, ".")
}

// absent is the type of Absent.
type absent struct{}

// Absent as the value of an assignment wants the key not to be there.
var Absent any = absent{}

// Assignment is a value that is wanted at a path. Value is a string, bool,
// int64, float64, []string, []any of these, or Absent.
type Assignment struct {
	Path  Path
	Value any
}

// Change is a value that an edit changed. Old or New is nil where there is none.
type Change struct {
	Path Path
	Old  any
	New  any
}

// SyntaxError says where a document is not TOML.
type SyntaxError struct {
	Line, Column int
	Err          error
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("line %d, column %d: %v", e.Line, e.Column, e.Err)
}

func (e *SyntaxError) Unwrap() error { return e.Err }

// PathError says why a value cannot be set at a path of a document.
type PathError struct {
	Path    Path
	Problem string
}

func (e *PathError) Error() string {
	return fmt.Sprintf("cannot set %s: %s", e.Path, e.Problem)
}

// Decode is the document as values: string, int64, float64, bool, dates and
// times, []any and map[string]any.
func Decode(src []byte) (map[string]any, error) {
	doc := map[string]any{}
	if err := gotoml.Unmarshal(src, &doc); err != nil {
		if where, ok := errors.AsType[*gotoml.DecodeError](err); ok {
			line, column := where.Position()
			return nil, &SyntaxError{Line: line, Column: column, Err: err}
		}
		return nil, &SyntaxError{Err: err}
	}
	return doc, nil
}

// Get is the value at the path, and whether there is one.
func Get(src []byte, path Path) (any, bool, error) {
	doc, err := Decode(src)
	if err != nil {
		return nil, false, err
	}
	value, ok := Lookup(doc, path)
	return value, ok, nil
}

// Lookup is the value at the path of a decoded document, and whether there is one.
func Lookup(doc map[string]any, path Path) (any, bool) {
	var value any = doc
	for _, name := range path {
		table, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = table[name]; !ok {
			return nil, false
		}
	}
	return value, true
}

// Edit sets values in a document. A value that is already as wanted is left as
// it is written; without any change the result is src itself. On an error there
// is no result.
//
// A key that does not exist is added at the end of its table, a table that does
// not exist at the end of the document. An array that is changed is written on
// one line, so comments inside it go with the elements they were about.
func Edit(src []byte, set []Assignment) ([]byte, []Change, error) {
	doc, err := Decode(src)
	if err != nil {
		return nil, nil, err
	}
	out, changes := src, []Change(nil)
	for i, want := range set {
		if err := checkDuplicate(set[:i], want.Path); err != nil {
			return nil, nil, err
		}
		old, exists, err := current(doc, want.Path)
		if err != nil {
			return nil, nil, err
		}
		if want.Value == Absent {
			if !exists {
				continue
			}
			if out, err = remove(out, want.Path); err != nil {
				return nil, nil, err
			}
			if doc, err = confirm(out, without(doc, want.Path), want.Path); err != nil {
				return nil, nil, err
			}
			changes = append(changes, Change{Path: want.Path, Old: old})
			continue
		}
		value, err := normalize(want.Value)
		if err != nil {
			return nil, nil, &PathError{Path: want.Path, Problem: err.Error()}
		}
		if exists && equal(old, value) {
			continue
		}
		out, err = set1(out, doc, want.Path, value, exists)
		if err != nil {
			return nil, nil, err
		}
		if doc, err = confirm(out, merged(doc, want.Path, value), want.Path); err != nil {
			return nil, nil, err
		}
		changes = append(changes, Change{Path: want.Path, Old: old, New: value})
	}
	return out, changes, nil
}

// checkDuplicate refuses a path that is set twice: whichever value won, the
// caller would believe the other.
func checkDuplicate(before []Assignment, path Path) error {
	for _, other := range before {
		if samePath(other.Path, path) {
			return &PathError{Path: path, Problem: "it is set twice; set it once"}
		}
	}
	return nil
}

// current is the value that stands at the path, if the path can be set at all.
func current(doc map[string]any, path Path) (any, bool, error) {
	if len(path) == 0 {
		return nil, false, &PathError{Path: path, Problem: "the path is empty"}
	}
	table := doc
	for i, name := range path {
		value, ok := table[name]
		if !ok {
			return nil, false, nil
		}
		inner, isTable := value.(map[string]any)
		last := i == len(path)-1
		switch {
		case last && isTable:
			return nil, false, &PathError{Path: path, Problem: "it is a table; set the keys in it"}
		case last && hasTables(value):
			return nil, false, &PathError{Path: path, Problem: "it is an array of tables, which cannot be replaced by a value"}
		case last:
			return value, true, nil
		case !isTable:
			return nil, false, &PathError{Path: path, Problem: fmt.Sprintf("%s is %s, not a table", path[:i+1], describe(value))}
		}
		table = inner
	}
	return nil, false, nil
}

// confirm decodes what an edit made and compares it with what was wanted. TOML
// has corners (tables that dotted keys define, super-tables after their
// sub-tables) in which text that looks right means something else.
func confirm(out []byte, want map[string]any, path Path) (map[string]any, error) {
	after, err := Decode(out)
	if err != nil {
		return nil, &PathError{Path: path, Problem: fmt.Sprintf("the document is written in a way that leaves no place for it (%v); add it by hand", err)}
	}
	if !equal(after, want) {
		return nil, &PathError{Path: path, Problem: "the document is written in a way that leaves no place for it; add it by hand"}
	}
	return after, nil
}

// merged is the document with the value in place. It shares what did not change.
func merged(doc map[string]any, path Path, value any) map[string]any {
	out := make(map[string]any, len(doc)+1)
	maps.Copy(out, doc)
	if len(path) == 1 {
		out[path[0]] = value
		return out
	}
	inner, _ := doc[path[0]].(map[string]any)
	out[path[0]] = merged(inner, path[1:], value)
	return out
}

// without is the document without the value. It shares what did not change.
func without(doc map[string]any, path Path) map[string]any {
	out := maps.Clone(doc)
	if len(path) == 1 {
		delete(out, path[0])
		return out
	}
	inner, _ := doc[path[0]].(map[string]any)
	out[path[0]] = without(inner, path[1:])
	return out
}

// newline is how the document ends its lines.
func newline(src []byte) string {
	if i := bytes.IndexByte(src, '\n'); i > 0 && src[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}
