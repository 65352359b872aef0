package seid

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Mode is the mode of a node as its SeiNode names it.
type Mode string

// The modes.
const (
	ModeFullNode  Mode = "fullNode"
	ModeValidator Mode = "validator"
	ModeArchive   Mode = "archive"
	ModeSeed      Mode = "seed"
	ModeReplayer  Mode = "replayer"
)

// Intent is the configuration that a node shall have. The operator writes it as
// a document, and the node's sidecar makes it true.
//
// The two may be of different versions, so fields may be added to it, and none may get
// another meaning or type. See Unknown.
type Intent struct {
	// Serial orders the documents of one node. Not its content does, because a
	// mounted document may be minutes old, and an older one must not win.
	Serial             int64               `json:"serial"`
	ChainID            string              `json:"chainId"`
	Mode               Mode                `json:"mode"`
	Overrides          map[string]string   `json:"overrides,omitempty"`
	Peers              []string            `json:"peers,omitempty"`
	ExternalAddress    string              `json:"externalAddress,omitempty"`
	SnapshotGeneration *SnapshotGeneration `json:"snapshotGeneration,omitempty"`
	Unknown            Unknown             `json:"-"`
}

// SnapshotGeneration says how often a node makes a snapshot for others to sync
// from, in blocks, and how many it keeps.
type SnapshotGeneration struct {
	Interval   int64   `json:"interval"`
	KeepRecent int64   `json:"keepRecent"`
	Unknown    Unknown `json:"-"`
}

// ParseIntent reads the document.
func ParseIntent(document []byte) (Intent, error) {
	var intent Intent
	if err := json.Unmarshal(document, &intent); err != nil {
		return Intent{}, fmt.Errorf("the document with the node's configuration cannot be read: %w", err)
	}
	return intent, nil
}

// Hash identifies the configuration. Neither the serial nor the peers count: a
// changed peer set alone is no reason to restart a node.
func Hash(intent Intent) string {
	intent.Serial, intent.Peers = 0, nil
	return hashOf(intent)
}

// hashedFirst are the fields of the first version, in the order in which they are
// hashed. A field that comes later is hashed after them, in the order of the names: so
// a hash stays what it is, and a version that does not know a field has the same one.
var hashedFirst = []string{"serial", "chainId", "mode", "overrides", "externalAddress", "snapshotGeneration"}

// hashOf is the hash of a document, whatever the order of its keys is.
func hashOf(document any) string {
	// Nothing in the types can fail, and what was encoded can be decoded.
	content, _ := json.Marshal(document)
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber() // a number stays as it was written
	_ = decoder.Decode(&fields)
	later := slices.DeleteFunc(slices.Sorted(maps.Keys(fields)), func(name string) bool { return slices.Contains(hashedFirst, name) })
	var hashed [][]byte
	for _, name := range slices.Concat(hashedFirst, later) {
		if value, there := fields[name]; there {
			field, _ := json.Marshal(map[string]any{name: value})
			hashed = append(hashed, field[1:len(field)-1])
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "{%s}", bytes.Join(hashed, []byte(","))))
	return hex.EncodeToString(sum[:])
}
