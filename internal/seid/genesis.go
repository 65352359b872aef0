package seid

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Genesis is what identifies a genesis file.
type Genesis struct {
	ChainID string
	// SHA256 of the whole file, in lower-case hexadecimal digits.
	SHA256 string
}

// ReadGenesis reads a genesis.json to its end, in constant memory: an exported
// state has gigabytes.
func ReadGenesis(path string) (Genesis, error) {
	file, err := os.Open(path)
	if err != nil {
		return Genesis{}, fmt.Errorf("cannot read the genesis file: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	genesis, err := ParseGenesis(file)
	if err != nil {
		return Genesis{}, fmt.Errorf("%s: %w", path, err)
	}
	return genesis, nil
}

// ParseGenesis reads a genesis file to its end, in constant memory. A file that
// breaks off is an error.
func ParseGenesis(content io.Reader) (Genesis, error) {
	hash := sha256.New()
	decoder := json.NewDecoder(io.TeeReader(bufio.NewReader(content), hash))
	chainID, err := genesisChainID(decoder)
	if err != nil {
		return Genesis{}, fmt.Errorf("this is no genesis file: %w", err)
	}
	// What the decoder has not read yet belongs to the hash too; what is not white
	// space does not belong to the file.
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Genesis{}, errors.New("this is no genesis file: something follows after its end")
	}
	return Genesis{ChainID: chainID, SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

func genesisChainID(decoder *json.Decoder) (string, error) {
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return "", errors.New("it is not a JSON object")
	}
	var chainID string
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return "", brokenJSON(err)
		}
		value, err := decoder.Token()
		if err != nil {
			return "", brokenJSON(err)
		}
		if key == "chain_id" {
			text, ok := value.(string)
			if !ok || text == "" || chainID != "" {
				return "", errors.New("chain_id is empty, no text, or there twice")
			}
			chainID = text
			continue
		}
		if err := skipValue(decoder, value); err != nil {
			return "", brokenJSON(err)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return "", brokenJSON(err)
	}
	if chainID == "" {
		return "", errors.New("it has no chain_id")
	}
	return chainID, nil
}

// skipValue reads to the end of the value that begins with the token.
func skipValue(decoder *json.Decoder, token json.Token) error {
	for depth := 0; ; {
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		var err error
		if token, err = decoder.Token(); err != nil {
			return err
		}
	}
}

func brokenJSON(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it breaks off before its end")
	}
	return fmt.Errorf("it is not valid JSON: %w", err)
}

// Check says whether this is the genesis file of a chain, and, where a checksum
// is given, exactly the file that was meant.
func (g Genesis) Check(chainID, sum string) error {
	if g.ChainID != chainID {
		return fmt.Errorf("the genesis file is that of chain %q, not of %q: correct spec.genesis or spec.chainId", g.ChainID, chainID)
	}
	if sum != "" && !strings.EqualFold(sum, g.SHA256) {
		return fmt.Errorf("the genesis file of chain %q has the SHA-256 %s, not %s: correct spec.genesis, or find out who changed the file", chainID, g.SHA256, sum)
	}
	return nil
}
