package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/seid/toml"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// ConfigPatch sets single values of seid's configuration files. It is for values
// beside the document of config-apply, which wins where both set one. A key keeps
// the type it has.
type ConfigPatch struct {
	// Files are trees of values by the names of the files.
	Files map[string]Tree `json:"files"`
}

// Tree is a part of a TOML document: tables, and in them strings, booleans,
// numbers, and arrays of these. Numbers stay as they were written.
type Tree map[string]any

// UnmarshalJSON keeps numbers exact.
func (t *Tree) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var tree map[string]any
	if err := decoder.Decode(&tree); err != nil {
		return err
	}
	*t = tree
	return nil
}

// Validate refuses what cannot or must not be set.
func (p *ConfigPatch) Validate() error {
	changes, err := p.changes()
	if err == nil && len(changes) == 0 {
		err = errors.New("files has no values to set")
	}
	return err
}

// patchFiles are all the names that a patch may have.
var patchFiles = []string{string(seid.ConfigTOML), string(seid.AppTOML), string(seid.ClientTOML)}

// changes are the leaves of the trees.
func (p *ConfigPatch) changes() (seid.Changes, error) {
	out := seid.Changes{}
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		if !slices.Contains(patchFiles, name) {
			return nil, fmt.Errorf("files has %q; the files are %s", name, strings.Join(patchFiles, ", "))
		}
		if err := flatten(out, strings.TrimSuffix(name, ".toml"), p.Files[name], 1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// maxDepth is more than seid's tables have.
const maxDepth = 8

func flatten(out seid.Changes, prefix string, tree map[string]any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s is nested too deeply", prefix)
	}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if strings.Contains(name, ".") {
			return fmt.Errorf("%q in %s has a dot; nest tables instead", name, prefix)
		}
		path := prefix + "." + name
		if inner, ok := tree[name].(map[string]any); ok {
			if err := flatten(out, path, inner, depth+1); err != nil {
				return err
			}
			continue
		}
		key, err := seid.ParseKey(path)
		if err != nil {
			return err
		}
		if because := seid.Forbidden(path); because != "" {
			return fmt.Errorf("%s must not be set: %s", path, because)
		}
		text, err := leaf(tree[name])
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if out[key] = text; len(out) > maxEntries {
			return fmt.Errorf("files has more than %d values", maxEntries)
		}
	}
	return nil
}

// leaf is a value as text.
func leaf(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, bounded("the value", v, maxText)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			var err error
			if items[i], err = leafItem(item); err != nil {
				return "", err
			}
		}
		text := "[" + strings.Join(items, ", ") + "]"
		return text, bounded("the array", text, maxText)
	default:
		return leafItem(v)
	}
}

func leafItem(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return toml.Format(v), nil
	case bool:
		return fmt.Sprint(v), nil
	case json.Number:
		return v.String(), bounded("the number", v.String(), maxShort)
	case nil:
		return "", errors.New("null is no value; a key cannot be removed")
	default:
		return "", errors.New("an array has only strings, booleans and numbers")
	}
}

// ConfigPatchResult tells what changed.
type ConfigPatchResult struct {
	Changed bool     `json:"changed"`
	Changes []Change `json:"changes"`
	Omitted int      `json:"omitted,omitempty"`
}

func (t *tasks) configPatch(_ context.Context, _ engine.Execution, p ConfigPatch) (any, error) {
	changes, err := p.changes()
	if err != nil {
		return nil, engine.Terminal(ReasonInvalidConfiguration, "%w", err)
	}
	if err := t.arraysStayArrays(p, changes); err != nil {
		return nil, configFailure(err)
	}
	done, err := t.edit(changes)
	if err != nil {
		return nil, err
	}
	result := ConfigPatchResult{Changed: len(done) > 0}
	result.Changes, result.Omitted = listed(done)
	return result, nil
}

// arraysStayArrays refuses an array for a key that takes a string. seid has lists
// that are one string with commas, and would take the brackets for a part of it.
func (t *tasks) arraysStayArrays(p ConfigPatch, changes seid.Changes) error {
	files, _, err := t.Config.Preview(nil)
	if err != nil {
		return err
	}
	_, done, err := files.Edit(changes)
	if err != nil {
		return err
	}
	for _, change := range done {
		var value any = map[string]any(p.Files[string(change.Key.File)])
		for name := range strings.SplitSeq(change.Key.Path, ".") {
			table, _ := value.(map[string]any)
			value = table[name]
		}
		if _, isArray := value.([]any); isArray && !strings.HasPrefix(change.New, "[") {
			return fmt.Errorf("%s cannot be an array: it takes a string, with commas if it is a list", change.Key)
		}
	}
	return nil
}

// edit changes single values of the files.
func (t *tasks) edit(changes seid.Changes) (done []seid.Change, err error) {
	err = t.do("configuration", func() (err error) {
		done, err = t.Config.Edit(changes)
		return err
	})
	if err != nil {
		return nil, configFailure(err)
	}
	return done, nil
}
