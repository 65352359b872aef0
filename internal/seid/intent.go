package seid

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
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
}

// SnapshotGeneration says how often a node makes a snapshot for others to sync
// from, in blocks, and how many it keeps.
type SnapshotGeneration struct {
	Interval   int64 `json:"interval"`
	KeepRecent int64 `json:"keepRecent"`
}

// ParseIntent reads the document. Fields it does not know are left out: a node
// must be able to start from what a newer operator wrote.
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
	// Keys of maps are sorted, and nothing in the type can fail.
	document, _ := json.Marshal(intent)
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:])
}
