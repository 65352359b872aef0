package toml

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/pelletier/go-toml/v2/unstable"
)

// span is a range of bytes of a document.
type span struct{ start, end int }

// keyValue is one "key = value" of a document, at the top level or in an inline
// table.
type keyValue struct {
	// table is the path of the table whose header it stands under, or of the
	// inline table it stands in; path is its own, from the root.
	table, path Path
	all, value  span
	inline      *inlineTable
}

// inlineTable is the content of a value in braces.
type inlineTable struct {
	open  int
	items []keyValue
}

// header is one "[table]" of a document, with the keys under it.
type header struct {
	path   Path
	name   span
	values []keyValue
}

// scan lists the headers of a document. The first one stands for the top of the
// document, which has none. src is known to be valid.
func scan(src []byte) ([]header, error) {
	headers := []header{{}}
	var parser unstable.Parser
	parser.Reset(src)
	for parser.NextExpression() {
		node := parser.Expression()
		if node.Kind == unstable.KeyValue {
			last := &headers[len(headers)-1]
			last.values = append(last.values, readKeyValue(src, last.path, node))
			continue
		}
		path, name := readKey(node.Key())
		headers = append(headers, header{path: path, name: name})
	}
	if err := parser.Error(); err != nil {
		return nil, &SyntaxError{Err: fmt.Errorf("the document cannot be scanned: %w", err)}
	}
	return headers, nil
}

// readKey is a possibly dotted key and where it is written.
func readKey(it unstable.Iterator) (Path, span) {
	var path Path
	var where span
	for it.Next() {
		raw := it.Node().Raw
		if path == nil {
			where.start = int(raw.Offset)
		}
		where.end = int(raw.Offset + raw.Length)
		path = append(path, string(it.Node().Data))
	}
	return path, where
}

func readKeyValue(src []byte, table Path, node *unstable.Node) keyValue {
	key, name := readKey(node.Key())
	kv := keyValue{
		table: table,
		path:  slices.Concat(table, key),
		all:   span{int(node.Raw.Offset), int(node.Raw.Offset + node.Raw.Length)},
	}
	// Not every value node knows where it starts; the text between the key and
	// the value is known, though: white space and one equals sign.
	start := name.end + bytes.IndexByte(src[name.end:], '=') + 1
	for src[start] == ' ' || src[start] == '\t' {
		start++
	}
	kv.value = span{start, kv.all.end}
	if value := node.Value(); value.Kind == unstable.InlineTable {
		kv.inline = &inlineTable{open: start}
		for it := value.Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				kv.inline.items = append(kv.inline.items, readKeyValue(src, kv.path, it.Node()))
			}
		}
	}
	return kv
}

// set1 writes one value. That the path can be set has been checked: nothing on
// the way to it is an array or a value.
func set1(src []byte, doc map[string]any, path Path, value any, exists bool) ([]byte, error) {
	headers, err := scan(src)
	if err != nil {
		return nil, err
	}
	if inside := innermost(headers, path); inside != nil && !exists {
		return addInline(src, *inside, path, value), nil
	}
	if exists {
		where, ok := find(headers, path)
		if !ok {
			return nil, &PathError{Path: path, Problem: "its place in the document was not found; set it by hand"}
		}
		return splice(src, where, Format(value)), nil
	}
	return add(src, headers, doc, path, value), nil
}

// remove takes the line of a key away, with the comment that stands on it. A key
// inside braces is left to people.
func remove(src []byte, path Path) ([]byte, error) {
	headers, err := scan(src)
	if err != nil {
		return nil, err
	}
	for _, h := range headers {
		for _, kv := range h.values {
			if !samePath(kv.path, path) {
				continue
			}
			line := span{start: bytes.LastIndexByte(src[:kv.all.start], '\n') + 1, end: len(src)}
			if i := bytes.IndexByte(src[kv.all.end:], '\n'); i >= 0 {
				line.end = kv.all.end + i + 1
			}
			return splice(src, line, ""), nil
		}
	}
	return nil, &PathError{Path: path, Problem: "its place in the document was not found; remove it by hand"}
}

// find is where the value of an existing key is written.
func find(headers []header, path Path) (span, bool) {
	for _, h := range headers {
		if kv, ok := findIn(h.values, path); ok {
			return kv.value, true
		}
	}
	return span{}, false
}

func findIn(values []keyValue, path Path) (keyValue, bool) {
	for _, kv := range values {
		if samePath(kv.path, path) {
			return kv, true
		}
		if kv.inline != nil && hasPrefix(path, kv.path) {
			if inner, ok := findIn(kv.inline.items, path); ok {
				return inner, true
			}
		}
	}
	return keyValue{}, false
}

// innermost is the deepest inline table on the way to the path. What lies below
// an inline table can only be written inside it.
func innermost(headers []header, path Path) *keyValue {
	var found *keyValue
	var descend func(values []keyValue)
	descend = func(values []keyValue) {
		for i := range values {
			if kv := &values[i]; kv.inline != nil && hasPrefix(path, kv.path) {
				found = kv
				descend(kv.inline.items)
			}
		}
	}
	for _, h := range headers {
		descend(h.values)
	}
	return found
}

func addInline(src []byte, table keyValue, path Path, value any) []byte {
	text := path[len(table.path):].String() + " = " + Format(value)
	items := table.inline.items
	if len(items) == 0 {
		after := table.inline.open + 1
		return splice(src, span{after, after}, text)
	}
	// Right behind the last item, not before the brace: a comma or a comment may
	// stand between the two.
	after := items[len(items)-1].all.end
	return splice(src, span{after, after}, ", "+text)
}

// add writes a key that does not exist, outside inline tables.
func add(src []byte, headers []header, doc map[string]any, path Path, value any) []byte {
	parent := path[:len(path)-1]
	known := parent
	for len(known) > 0 {
		if _, ok := Lookup(doc, known); ok {
			break
		}
		known = known[:len(known)-1]
	}
	// A table that came to be by dotted keys must not get a header of its own, so
	// the new key is written next to them, in the same way.
	if kv, ok := lastDotted(headers, known); ok {
		return addLine(src, kv.all.end, indent(src, kv.all.start), path[len(kv.table):], value)
	}
	for i, h := range headers {
		if (i > 0 || len(parent) == 0) && samePath(h.path, parent) {
			return addToBody(src, h, i == 0, len(headers) > 1, path, value)
		}
	}
	return addTable(src, parent, path, value)
}

// lastDotted is the last key that is written as a dotted one and thereby defines
// the table.
func lastDotted(headers []header, table Path) (keyValue, bool) {
	var found keyValue
	var ok bool
	for _, h := range headers {
		for _, kv := range h.values {
			if len(kv.table) < len(table) && len(kv.path) > len(table) && hasPrefix(kv.path, table) {
				found, ok = kv, true
			}
		}
	}
	return found, ok
}

// addToBody writes a key at the end of a table's body, which is after its last
// key: the comments that follow usually belong to the next table.
func addToBody(src []byte, h header, root, more bool, path Path, value any) []byte {
	name := path[len(path)-1:]
	if n := len(h.values); n > 0 {
		last := h.values[n-1]
		return addLine(src, last.all.end, indent(src, last.all.start), name, value)
	}
	if !root {
		return addLine(src, h.name.end, indent(src, h.name.start-1), name, value)
	}
	if more {
		// Before the first table there are only comments, and where in them the
		// table's own begin is anybody's guess.
		return splice(src, span{0, 0}, name.String()+" = "+Format(value)+newline(src))
	}
	return addLine(src, len(src), "", name, value)
}

// addLine writes "key = value" on a line of its own, below the line that the
// position is on.
func addLine(src []byte, at int, indent string, key Path, value any) []byte {
	eol := newline(src)
	text := indent + key.String() + " = " + Format(value) + eol
	if i := bytes.IndexByte(src[at:], '\n'); i >= 0 {
		at += i + 1
	} else if at = len(src); at > 0 && src[at-1] != '\n' {
		text = eol + text
	}
	return splice(src, span{at, at}, text)
}

func addTable(src []byte, table, path Path, value any) []byte {
	eol := newline(src)
	text := "[" + table.String() + "]" + eol + path[len(table):].String() + " = " + Format(value) + eol
	if len(src) > 0 {
		text = eol + text
		if src[len(src)-1] != '\n' {
			text = eol + text
		}
	}
	return splice(src, span{len(src), len(src)}, text)
}

// indent is the white space at the start of the line that the position is on, or
// none if something else stands before the position.
func indent(src []byte, at int) string {
	start := bytes.LastIndexByte(src[:at], '\n') + 1
	if len(bytes.Trim(src[start:at], " \t")) > 0 {
		return ""
	}
	return string(src[start:at])
}

func splice(src []byte, where span, text string) []byte {
	return slices.Concat(src[:where.start], []byte(text), src[where.end:])
}

func samePath(a, b Path) bool { return slices.Equal(a, b) }

func hasPrefix(path, prefix Path) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}
