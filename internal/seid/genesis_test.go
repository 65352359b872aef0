package seid

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func TestParseGenesis(t *testing.T) {
	for _, content := range []string{
		`{"chain_id":"loop-1"}`,
		"{\n \"genesis_time\": \"x\", \"app_state\": {\"chain_id\": \"inner\", \"a\": [[], {}, [1, null, true, \"}\"]]},\n \"chain_id\": \"loop-1\", \"n\": 5 }\n\n",
		`{"chain_id":"loop-1","app_hash":"","validators":null}`,
	} {
		sum := sha256.Sum256([]byte(content))
		want := Genesis{ChainID: "loop-1", SHA256: hex.EncodeToString(sum[:])}
		got, err := ParseGenesis(iotest.OneByteReader(strings.NewReader(content)))
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", content, got, err)
		}
	}
}

func TestParseGenesisRefuses(t *testing.T) {
	const good = `{"app_state":{"a":[1,2]},"chain_id":"loop-1","x":"y"}`
	bad := []string{
		"", "[]", "null", `"chain_id"`, "{}", `{"chain_id":""}`, `{"chain_id":5}`, `{"chain_id":{}}`, `{"chain_id":"a","chain_id":"b"}`,
		`{"app_state":{"chain_id":"inner"}}`, good + "x", good + good, `{"chain_id":"a",}`, `{"a":tru,"chain_id":"b"}`,
	}
	// A download that broke off, at every byte.
	for i := range good {
		bad = append(bad, good[:i])
	}
	for _, content := range bad {
		if got, err := ParseGenesis(strings.NewReader(content)); err == nil {
			t.Errorf("%q: %+v", content, got)
		}
	}
}

// many is a long list that is never in memory as a whole.
type many struct{ left int }

func (m *many) Read(p []byte) (int, error) {
	if m.left == 0 {
		return 0, io.EOF
	}
	m.left--
	return copy(p, `"some","values",{"of":"state"},`), nil
}

func TestParseGenesisOfManyEntries(t *testing.T) {
	content := io.MultiReader(strings.NewReader(`{"app_state":[`), &many{left: 1 << 16}, strings.NewReader(`0],"chain_id":"loop-1"}`))
	if got, err := ParseGenesis(content); err != nil || got.ChainID != "loop-1" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestReadGenesis(t *testing.T) {
	path := filepath.Join(t.TempDir(), "genesis.json")
	if _, err := ReadGenesis(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	write(t, path, "{")
	if _, err := ReadGenesis(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	write(t, path, `{"chain_id":"loop-1"}`)
	genesis, err := ReadGenesis(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, sum := range []string{"", genesis.SHA256, strings.ToUpper(genesis.SHA256)} {
		if err := genesis.Check("loop-1", sum); err != nil {
			t.Error(err)
		}
	}
	if err := genesis.Check("loop-2", ""); err == nil || !strings.Contains(err.Error(), "loop-1") {
		t.Error(err)
	}
	if err := genesis.Check("loop-1", strings.Repeat("0", 64)); err == nil || !strings.Contains(err.Error(), genesis.SHA256) {
		t.Error(err)
	}
}
