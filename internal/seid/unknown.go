package seid

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Unknown are the fields of a document that this version does not know, because a newer
// operator wrote it. They are kept as they are, wherever the document came from, and
// count for its hash: a sidecar that refused them, or reported the hash of the rest,
// would make the operator write the same configuration anew for ever.
type Unknown map[string]json.RawMessage

// UnmarshalJSON takes fields that are not known.
func (i *Intent) UnmarshalJSON(content []byte) error {
	type fields Intent
	var known fields
	unknown, err := decodeKnown(content, &known)
	*i = Intent(known)
	i.Unknown = unknown
	return err
}

// MarshalJSON writes them again.
func (i Intent) MarshalJSON() ([]byte, error) {
	type fields Intent
	return encodeAll(fields(i), i.Unknown)
}

// UnmarshalJSON takes fields that are not known.
func (g *SnapshotGeneration) UnmarshalJSON(content []byte) error {
	type fields SnapshotGeneration
	var known fields
	unknown, err := decodeKnown(content, &known)
	*g = SnapshotGeneration(known)
	g.Unknown = unknown
	return err
}

// MarshalJSON writes them again.
func (g SnapshotGeneration) MarshalJSON() ([]byte, error) {
	type fields SnapshotGeneration
	return encodeAll(fields(g), g.Unknown)
}

// NotKnown are the names of the fields that this version does not know.
func (i Intent) NotKnown() []string {
	names := slices.Collect(maps.Keys(i.Unknown))
	if i.SnapshotGeneration != nil {
		for name := range i.SnapshotGeneration.Unknown {
			names = append(names, "snapshotGeneration."+name)
		}
	}
	slices.Sort(names)
	return names
}

// maxNamed is how many fields a message names.
const maxNamed = 8

// NotKnownMessage tells people of fields that are not known; empty: all are.
func NotKnownMessage(names []string) string {
	if len(names) == 0 {
		return ""
	}
	text := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("the sidecar is older than the operator: it does not know %s of the configuration, and applied the rest; update its image", text)
}

// decodeKnown decodes an object into a struct, and returns the fields that it has not.
func decodeKnown[T any](content []byte, known *T) (Unknown, error) {
	if err := json.Unmarshal(content, known); err != nil {
		return nil, err
	}
	var all Unknown
	if err := json.Unmarshal(content, &all); err != nil {
		return nil, err
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		// The decoder does not mind upper and lower case either.
		maps.DeleteFunc(all, func(found string, _ json.RawMessage) bool { return strings.EqualFold(found, name) && name != "-" })
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// encodeAll encodes a struct that always has a field, and further fields after it.
func encodeAll(known any, unknown Unknown) ([]byte, error) {
	content, err := json.Marshal(known)
	if err != nil || len(unknown) == 0 {
		return content, err
	}
	rest, err := json.Marshal(unknown)
	if err != nil {
		return nil, err
	}
	return slices.Concat(content[:len(content)-1], []byte(","), rest[1:]), nil
}
