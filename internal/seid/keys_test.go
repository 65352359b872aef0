package seid

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// testKey is a key made from a byte; its halves are in base64.
func testKey(b byte) (private, public, address string) {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = b
	key := ed25519.NewKeyFromSeed(seed)
	pub := []byte(key[ed25519.SeedSize:])
	sum := sha256.Sum256(pub)
	return base64.StdEncoding.EncodeToString(key), base64.StdEncoding.EncodeToString(pub), hex.EncodeToString(sum[:20])
}

func signingKeyFile(address, public, private string) string {
	return fmt.Sprintf(`{"address":%q,"pub_key":{"type":"tendermint/PubKeyEd25519","value":%q},"priv_key":{"type":"tendermint/PrivKeyEd25519","value":%q}}`, address, public, private)
}

func TestParseSigningKey(t *testing.T) {
	private, public, address := testKey(1)
	upper := strings.ToUpper(address)
	for _, file := range []string{
		signingKeyFile(upper, public, private),
		signingKeyFile(address, public, private),
		fmt.Sprintf(`{"priv_key":{"type":"tendermint/PrivKeyEd25519","value":%q}}`, private),
	} {
		key, err := ParseSigningKey([]byte(file))
		if err != nil || key.PublicKey != public || key.Address != upper {
			t.Errorf("%+v, %v", key, err)
		}
	}
}

// The key of all zeros has an address that every full node shows in /status.
func TestAddressKnownVector(t *testing.T) {
	if got := strings.ToUpper(addressOf(make([]byte, 32))); got != "66687AADF862BD776C8FC18B8E9F8E2008971485" {
		t.Error(got)
	}
}

func TestParseSigningKeyRefuses(t *testing.T) {
	private, public, address := testKey(1)
	_, otherPublic, otherAddress := testKey(2)
	raw, _ := base64.StdEncoding.DecodeString(private)
	mixed := append([]byte{}, raw...)
	mixed[63] ^= 1
	tests := []struct{ name, file, want string }{
		{"empty", " \n", "it is empty"},
		{"torn", signingKeyFile(address, public, private)[:100], "not complete, valid JSON"},
		{"other fields", `{"priv_key":"x"}`, "does not have the fields"},
		{"nothing", `{}`, "priv_key is missing"},
		{"another type", `{"priv_key":{"type":"tendermint/PrivKeySecp256k1","value":"AA=="}}`, "PrivKeySecp256k1"},
		{"no base64", `{"priv_key":{"type":"tendermint/PrivKeyEd25519","value":"!"}}`, "not base64"},
		{"too short", `{"priv_key":{"type":"tendermint/PrivKeyEd25519","value":"AA=="}}`, "has 1 bytes, not 64"},
		{"two halves", signingKeyFile(address, public, base64.StdEncoding.EncodeToString(mixed)), "do not belong together"},
		{"public key of another", signingKeyFile(address, otherPublic, private), "pub_key"},
		{"address of another", signingKeyFile(otherAddress, public, private), "address"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseSigningKey([]byte(tc.file))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("%v does not contain %q", err, tc.want)
			}
			if strings.Contains(err.Error(), private) {
				t.Error("the error shows the private key")
			}
		})
	}
}

func TestReadKeys(t *testing.T) {
	home := Home(t.TempDir())
	private, public, address := testKey(3)
	if _, err := ReadSigningKey(home.SigningKey()); err == nil {
		t.Error("a signing key that is not there is read")
	}
	if _, err := ReadNodeID(home.NodeKey()); err == nil {
		t.Error("a node key that is not there is read")
	}
	write(t, home.SigningKey(), signingKeyFile(address, public, private))
	if key, err := ReadSigningKey(home.SigningKey()); err != nil || key.PublicKey != public {
		t.Errorf("%+v, %v", key, err)
	}
	write(t, home.NodeKey(), fmt.Sprintf(`{"id":"of another","priv_key":{"type":"tendermint/PrivKeyEd25519","value":%q}}`, private))
	if id, err := ReadNodeID(home.NodeKey()); err != nil || id != address {
		t.Errorf("%s, %v", id, err)
	}
	for _, bad := range []string{"", "{", "{}"} {
		write(t, home.NodeKey(), bad)
		if id, err := ReadNodeID(home.NodeKey()); err == nil || !strings.Contains(err.Error(), home.NodeKey()) {
			t.Errorf("%q: %s, %v", bad, id, err)
		}
		write(t, home.SigningKey(), bad)
		if key, err := ReadSigningKey(home.SigningKey()); err == nil || !strings.Contains(err.Error(), home.SigningKey()) {
			t.Errorf("%q: %+v, %v", bad, key, err)
		}
	}
}

func TestReadSignState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	if _, err := ReadSignState(path); !errors.Is(err, ErrSignStateMissing) {
		t.Errorf("missing: %v", err)
	}
	if _, err := ReadSignState(filepath.Dir(path)); err == nil || errors.Is(err, ErrSignStateMissing) {
		t.Errorf("a directory: %v", err)
	}
	tests := []struct {
		content string
		want    SignState
		err     error
	}{
		{string(FreshSignState()), SignState{}, nil},
		{`{"height":"2554","round":1,"step":3,"signature":"AA==","signbytes":"00"}`, SignState{2554, 1, 3}, nil},
		{`{"height":7,"round":"0","step":2}`, SignState{7, 0, 2}, nil},
		{"", SignState{}, ErrSignStateEmpty},
		{"\n", SignState{}, ErrSignStateEmpty},
		{`{"height":"25`, SignState{}, ErrSignStateTorn},
		{`{}`, SignState{}, ErrSignStateTorn},
		{`null`, SignState{}, ErrSignStateTorn},
		{`{"height":"5"}`, SignState{}, ErrSignStateTorn},
		{`{"height":null,"round":0,"step":0}`, SignState{}, ErrSignStateTorn},
		{`{"height":"x","round":0,"step":0}`, SignState{}, ErrSignStateTorn},
		{`{"height":"-1","round":0,"step":0}`, SignState{}, ErrSignStateTorn},
		{`{"height":"1","round":0,"step":4}`, SignState{}, ErrSignStateTorn},
	}
	for _, tc := range tests {
		write(t, path, tc.content)
		got, err := ReadSignState(path)
		if got != tc.want || !errors.Is(err, tc.err) || (tc.err == nil) != (err == nil) {
			t.Errorf("%q: %+v, %v", tc.content, got, err)
		}
	}
	if !(SignState{}).Fresh() || (SignState{Round: 1}).Fresh() {
		t.Error("Fresh")
	}
}

// However a state is cut off, it never reads as one from before.
func TestSignStateTornProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		full := fmt.Sprintf(`{"height":"%d","round":%d,"step":3}`, rapid.Int64Range(1, 1<<62).Draw(t, "height"), rapid.Int32Range(0, 9).Draw(t, "round"))
		cut := rapid.IntRange(0, len(full)-1).Draw(t, "cut")
		if state, err := parseSignState([]byte(full[:cut])); err == nil {
			t.Fatalf("%q reads as %+v", full[:cut], state)
		}
	})
}
