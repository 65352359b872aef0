package seid

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

// commitFrom asks a node that answers with the golden commit, which Tendermint's own
// code made and signed: see lab/devchain/node/commit_test.go.
func commitFrom(t *testing.T, change func([]byte) []byte) (Commit, error) {
	t.Helper()
	content, err := os.ReadFile("testdata/commit.json")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/commit" || r.URL.RawQuery != "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, string(change(content)))
	}))
	defer server.Close()
	client, err := NewClient(server.Client(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return client.Commit(context.WithoutCancel(t.Context()), 0)
}

// publicKeyOf is that of the validator with this index in the golden commit.
func publicKeyOf(index byte) string {
	seed := sha256.Sum256([]byte{index})
	return base64.StdEncoding.EncodeToString(ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey))
}

func TestACommitProvesWhoSigned(t *testing.T) {
	t.Parallel()
	commit, err := commitFrom(t, func(content []byte) []byte { return content })
	if err != nil || commit.Height != 178123457 {
		t.Fatalf("%+v, %v", commit, err)
	}
	for name, c := range map[string]struct {
		chain, key string
		change     func(*Commit)
		want       bool
	}{
		"for the block":             {"atlantic-2", publicKeyOf(0), nil, true},
		"for no block":              {"atlantic-2", publicKeyOf(1), nil, true},
		"it did not sign":           {"atlantic-2", publicKeyOf(2), nil, false},
		"a later one":               {"atlantic-2", publicKeyOf(3), nil, true},
		"not among the validators":  {"atlantic-2", publicKeyOf(4), nil, false},
		"on another chain":          {"pacific-1", publicKeyOf(0), nil, false},
		"no key":                    {"atlantic-2", "", nil, false},
		"a key that is too short":   {"atlantic-2", "AAAA", nil, false},
		"claimed for later heights": {"atlantic-2", publicKeyOf(0), func(c *Commit) { c.Height++ }, false},
		"claimed for another round": {"atlantic-2", publicKeyOf(0), func(c *Commit) { c.Round = 0 }, false},
		"claimed for another block": {"atlantic-2", publicKeyOf(0), func(c *Commit) { c.BlockID.Hash = make([]byte, 32) }, false},
		"claimed at another time":   {"atlantic-2", publicKeyOf(0), func(c *Commit) { c.Signatures[0].Time = time.Unix(1, 0) }, false},
		"the signature of another":  {"atlantic-2", publicKeyOf(0), func(c *Commit) { c.Signatures[0].Signature = c.Signatures[3].Signature }, false},
		"no signature":              {"atlantic-2", publicKeyOf(0), func(c *Commit) { c.Signatures[0].Signature = nil }, false},
		"after one that is forged":  {"atlantic-2", publicKeyOf(0), func(c *Commit) { c.forge(make([]byte, 64)) }, false},
		"after one that is none":    {"atlantic-2", publicKeyOf(0), func(c *Commit) { c.forge(make([]byte, 63)) }, true},
		"an address without a vote": {"atlantic-2", publicKeyOf(2), func(c *Commit) { c.Signatures[2].Address = addressOf(mustDecode(publicKeyOf(2))) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := commit
			changed.Signatures = append([]CommitSignature(nil), commit.Signatures...)
			if c.change != nil {
				c.change(&changed)
			}
			if got := changed.Signed(c.chain, c.key); got != c.want {
				t.Errorf("proven: %t", got)
			}
		})
	}
}

// forge puts a vote in front that the first validator is said to have made. A liar can
// send as many as fit into an answer, and each takes time to verify.
func (c *Commit) forge(signature []byte) {
	vote := c.Signatures[0]
	vote.Signature = signature
	c.Signatures = append([]CommitSignature{vote}, c.Signatures...)
}

func TestACommitOfAHeight(t *testing.T) {
	t.Parallel()
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = r.URL.RequestURI() }))
	defer server.Close()
	client, err := NewClient(server.Client(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Commit(t.Context(), 178123450); err == nil || asked != "/commit?height=178123450" {
		t.Errorf("%q was asked for, and the answer is %v", asked, err)
	}
}

func mustDecode(key string) []byte {
	raw, _ := base64.StdEncoding.DecodeString(key)
	return raw
}

func TestAnAnswerThatIsNoCommit(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		`{}`, `{"signed_header":{}}`, `{"signed_header":{"commit":{}}}`, `no json`,
		`{"signed_header":{"commit":{"height":"7","block_id":{"hash":"xyz"}}}}`,
		`{"signed_header":{"commit":{"height":"7","block_id":{"hash":"","parts":{"hash":"xyz"}}}}}`,
	} {
		if commit, err := commitFrom(t, func([]byte) []byte { return []byte(answer) }); err == nil {
			t.Errorf("%s is taken for %+v", answer, commit)
		}
	}
}
