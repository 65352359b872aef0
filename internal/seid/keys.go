package seid

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// The names Tendermint gives the two halves of the only kind of key it makes.
const (
	privateKeyType = "tendermint/PrivKeyEd25519"
	publicKeyType  = "tendermint/PubKeyEd25519"
)

// SigningKey is the public side of a validator's signing key.
type SigningKey struct {
	// PublicKey is in base64, as it stands in the key file.
	PublicKey string
	// Address is the consensus address in 40 upper-case hexadecimal digits, which
	// is how Tendermint shows it: in the key file, in /status and in metrics.
	Address string
}

type typedKey struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// ParseSigningKey reads the content of a priv_validator_key.json. A public key or
// an address in it that does not belong to the private key is an error: the file
// was put together from two, and nobody can say which one was meant.
//
// No error of this function contains anything of the private key.
func ParseSigningKey(content []byte) (SigningKey, error) {
	var file struct {
		Address    string   `json:"address"`
		PublicKey  typedKey `json:"pub_key"`
		PrivateKey typedKey `json:"priv_key"`
	}
	if err := parseKeyFile(content, &file); err != nil {
		return SigningKey{}, fmt.Errorf("this is no signing key: %w", err)
	}
	public, err := publicOf(file.PrivateKey)
	if err != nil {
		return SigningKey{}, fmt.Errorf("this is no usable signing key: %w", err)
	}
	key := SigningKey{
		PublicKey: base64.StdEncoding.EncodeToString(public),
		Address:   strings.ToUpper(addressOf(public)),
	}
	if file.PublicKey != (typedKey{}) && file.PublicKey != (typedKey{publicKeyType, key.PublicKey}) {
		return SigningKey{}, fmt.Errorf("the signing key's pub_key %q does not belong to its priv_key, whose public key is %q: restore the file from its backup", file.PublicKey.Value, key.PublicKey)
	}
	if file.Address != "" && !strings.EqualFold(file.Address, key.Address) {
		return SigningKey{}, fmt.Errorf("the signing key's address %q does not belong to its priv_key, whose address is %q: restore the file from its backup", file.Address, key.Address)
	}
	return key, nil
}

// ReadSigningKey reads a priv_validator_key.json.
func ReadSigningKey(path string) (SigningKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return SigningKey{}, fmt.Errorf("cannot read the signing key: %w", err)
	}
	key, err := ParseSigningKey(content)
	if err != nil {
		return SigningKey{}, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// ParseNodeKey reads the content of a node_key.json and gives the node id: 40
// lower-case hexadecimal digits. It is computed from the private key, as seid
// does; the id that may stand in the file is not looked at, by seid neither.
//
// No error of this function contains anything of the private key.
func ParseNodeKey(content []byte) (string, error) {
	var file struct {
		PrivateKey typedKey `json:"priv_key"`
	}
	if err := parseKeyFile(content, &file); err != nil {
		return "", fmt.Errorf("this is no node key: %w", err)
	}
	public, err := publicOf(file.PrivateKey)
	if err != nil {
		return "", fmt.Errorf("this is no usable node key: %w", err)
	}
	return addressOf(public), nil
}

// ReadNodeID reads a node_key.json and gives the node id.
func ReadNodeID(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the node key: %w", err)
	}
	id, err := ParseNodeKey(content)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return id, nil
}

func parseKeyFile(content []byte, file any) error {
	if len(bytes.TrimSpace(content)) == 0 {
		return errors.New("it is empty")
	}
	if err := json.Unmarshal(content, file); err != nil {
		// The decoder's own words may quote the file, and the file is a secret.
		if where, ok := errors.AsType[*json.SyntaxError](err); ok {
			return fmt.Errorf("it is not complete, valid JSON (byte %d)", where.Offset)
		}
		return errors.New("it does not have the fields of a Tendermint key file")
	}
	return nil
}

// publicOf is the public key of a private one, which Tendermint keeps as the 32
// bytes of the seed followed by the 32 bytes of the public key.
func publicOf(private typedKey) (ed25519.PublicKey, error) {
	if private == (typedKey{}) {
		return nil, errors.New("priv_key is missing")
	}
	if private.Type != privateKeyType {
		return nil, fmt.Errorf("priv_key is of type %q; only %q is supported", private.Type, privateKeyType)
	}
	raw, err := base64.StdEncoding.DecodeString(private.Value)
	if err != nil {
		return nil, errors.New("the value of priv_key is not base64")
	}
	if len(raw) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("the value of priv_key has %d bytes, not %d", len(raw), ed25519.PrivateKeySize)
	}
	key := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
	if !bytes.Equal(key, raw) {
		// Signatures of such a key verify against no public key.
		return nil, errors.New("the two halves of priv_key do not belong together: restore the file from its backup")
	}
	public := make(ed25519.PublicKey, ed25519.PublicKeySize)
	copy(public, key[ed25519.SeedSize:])
	return public, nil
}

// addressOf is the short form of a public key that Tendermint uses as node id and
// as consensus address, in lower case.
func addressOf(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:20])
}
