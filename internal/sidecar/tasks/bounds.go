package tasks

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/sei-operator/sei-operator/internal/seid"
)

// Bounds of what params may hold. They are far beyond what anybody needs; they keep
// a mistake from filling the volume.
const (
	maxText    = 64 << 10
	maxEntries = 1000
	maxShort   = 300
)

func bounded(what, text string, limit int) error {
	if len(text) > limit {
		return fmt.Errorf("%s has %d bytes, more than %d", what, len(text), limit)
	}
	return nil
}

// checkPublicKey takes nothing or a signing key's public half.
func checkPublicKey(text string) error {
	if raw, err := base64.StdEncoding.DecodeString(text); text != "" && (err != nil || len(raw) != 32) {
		return errors.New("publicKey is not the base64 of 32 bytes")
	}
	return nil
}

// checkNodeID takes nothing or a node id.
func checkNodeID(text string) error {
	if raw, err := hex.DecodeString(text); text != "" && (err != nil || len(raw) != 20 || strings.ToLower(text) != text) {
		return errors.New("nodeId does not have 40 lower-case hexadecimal digits")
	}
	return nil
}

// checkChainID takes the id of a chain.
func checkChainID(text string) error {
	switch {
	case text == "":
		return errors.New("chainId is missing")
	case len(text) > 50:
		return errors.New("chainId has more than 50 characters")
	case strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "":
		return fmt.Errorf("chainId %q has characters that are no letters, digits, dots, hyphens or underscores", text)
	}
	return nil
}

// checkDocument bounds a document. What it says is checked when it is applied.
func checkDocument(document *seid.Intent) error {
	if len(document.Overrides) > maxEntries || len(document.Peers) > maxEntries {
		return fmt.Errorf("document has more than %d overrides or peers", maxEntries)
	}
	if document.Serial < 1 {
		return errors.New("document.serial is not 1 or more")
	}
	if err := checkChainID(document.ChainID); err != nil {
		return fmt.Errorf("document: %w", err)
	}
	for key, value := range document.Overrides {
		if err := errors.Join(bounded("the name of an override", key, maxShort), bounded("the override "+key, value, maxText)); err != nil {
			return err
		}
	}
	for _, peer := range document.Peers {
		if err := bounded("a peer", peer, maxShort); err != nil {
			return err
		}
	}
	return bounded("document.externalAddress", document.ExternalAddress, maxShort)
}
