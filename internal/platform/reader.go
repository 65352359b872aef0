package platform

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader walks through a file and collects what is wrong with it, so that a person
// gets to see all of it at once.
type reader struct {
	name     string
	problems []problem
}

type problem struct {
	line int
	text string
}

// value is one value of the file and where it stands.
type value struct {
	*yaml.Node
	path string
}

func (v value) at(name string) string {
	if v.path == "" {
		return name
	}
	return v.path + "." + name
}

func (r *reader) report(v value, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if v.path != "" {
		text = v.path + ": " + text
	}
	r.problems = append(r.problems, problem{v.Line, text})
}

// err is everything that is wrong, in the order of the file.
func (r *reader) err() error {
	slices.SortFunc(r.problems, func(a, b problem) int {
		return cmp.Or(a.line-b.line, strings.Compare(a.text, b.text))
	})
	var all []error
	for _, found := range r.problems {
		all = append(all, fmt.Errorf("%s:%d: %s", r.name, found.line, found.text))
	}
	return errors.Join(all...)
}

// syntaxLine finds the line that the parser tells within its message.
var syntaxLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// document is the one document of a file; nil when there is nothing in it.
func document(name string, content []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(strings.NewReader(string(content)))
	var first, second yaml.Node
	if err := decode(decoder, &first); err != nil {
		return nil, syntaxError(name, err)
	}
	if err := decode(decoder, &second); err != nil {
		return nil, syntaxError(name, err)
	}
	if second.Kind != 0 {
		return nil, fmt.Errorf("%s:%d: there is a second document: write all settings into one", name, second.Line)
	}
	if first.Kind == 0 {
		return nil, nil
	}
	return first.Content[0], nil
}

// decode reads the next document, and leaves the node empty at the end.
func decode(decoder *yaml.Decoder, node *yaml.Node) error {
	if err := decoder.Decode(node); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func syntaxError(name string, err error) error {
	line := "1"
	if match := syntaxLine.FindStringSubmatch(err.Error()); match != nil && match[1] != "" {
		line = match[1]
	}
	return fmt.Errorf("%s:%s: this is not valid YAML: %s", name, line, syntaxLine.ReplaceAllString(err.Error(), ""))
}

// given resolves an alias. A value that is left empty is not given.
func given(v value) (value, bool) {
	if v.Kind == yaml.AliasNode {
		// The anchor may stand elsewhere; the line of the alias is the one to correct.
		line := v.Line
		resolved := *v.Alias
		resolved.Line = line
		v.Node = &resolved
	}
	return v, v.ShortTag() != "!!null"
}

// entries are the keys and values of a mapping, in the order of the file.
func (r *reader) entries(v value, example string) []entry {
	if v.Kind != yaml.MappingNode {
		r.report(v, "it is %s, but must have fields: write %s", kindOf(v), example)
		return nil
	}
	var all []entry
	seen := map[string]bool{}
	for i := 0; i+1 < len(v.Content); i += 2 {
		key := v.Content[i]
		found := entry{value{v.Content[i+1], v.at(key.Value)}, value{key, v.at(key.Value)}, key.Value}
		if seen[key.Value] {
			r.report(found.name, "it is there twice: remove one of them")
			continue
		}
		seen[key.Value] = true
		var ok bool
		if found.value, ok = given(found.value); ok {
			all = append(all, found)
		}
	}
	return all
}

// entry is a value and the key it stands under.
type entry struct {
	value
	name value
	key  string
}

// fields hands every field of a mapping to the function that reads it.
func (r *reader) fields(v value, known map[string]func(value)) {
	names := slices.Sorted(maps.Keys(known))
	for _, found := range r.entries(v, strings.Join(names, ", ")) {
		read, ok := known[found.key]
		if !ok {
			r.report(found.name, "there is no such field: write one of %s", strings.Join(names, ", "))
			continue
		}
		read(found.value)
	}
}

// text is a value that must be text.
func (r *reader) text(v value, example string) (string, bool) {
	if v.Kind != yaml.ScalarNode || v.ShortTag() != "!!str" {
		r.report(v, "it is %s, but must be text: write for example %s", kindOf(v), example)
		return "", false
	}
	return v.Value, true
}

// list are the values of a list.
func (r *reader) list(v value, example string) ([]value, bool) {
	if v.Kind != yaml.SequenceNode {
		r.report(v, "it is %s, but must be a list: write for example %s", kindOf(v), example)
		return nil, false
	}
	var all []value
	for i, item := range v.Content {
		found, ok := given(value{item, fmt.Sprintf("%s[%d]", v.path, i)})
		if !ok {
			r.report(found, "it is empty: write for example %s, or remove it", example)
			continue
		}
		all = append(all, found)
	}
	return all, true
}

// kindOf says for people what a value is.
func kindOf(v value) string {
	switch {
	case v.Kind == yaml.MappingNode:
		return "a mapping"
	case v.Kind == yaml.SequenceNode:
		return "a list"
	case v.ShortTag() == "!!bool":
		return "true or false"
	case v.ShortTag() == "!!int", v.ShortTag() == "!!float":
		return "a number"
	case v.ShortTag() == "!!str":
		return "text"
	default:
		return "something else"
	}
}
