package seid

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// answer is a transport that gives one answer to everything.
type answer struct {
	code int
	body string
	got  *http.Request
}

func (a *answer) RoundTrip(request *http.Request) (*http.Response, error) {
	if a.code == 0 {
		return nil, errors.New("connection refused")
	}
	a.got = request
	return &http.Response{StatusCode: a.code, Body: io.NopCloser(strings.NewReader(a.body)), Header: http.Header{}, Request: request}, nil
}

func clientFor(t interface{ Fatal(...any) }, transport http.RoundTripper) *Client {
	c, err := NewClient(&http.Client{Transport: transport}, "http://node.test:26657")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const statusBody = `{"node_info":{"id":"ef0e","network":"loop-1","moniker":"v0","protocol_version":{"p2p":"8"}},
	"sync_info":{"latest_block_hash":"AB","latest_block_height":"289","latest_block_time":"2026-11-01T10:00:00.5Z",
	"earliest_block_height":"1","max_peer_block_height":"300","catching_up":true},
	"validator_info":{"address":"66687AADF862BD776C8FC18B8E9F8E2008971485","voting_power":"0"}}`

const hash64 = "00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF"

// calls are all calls as functions of one shape, each with an answer it takes.
var calls = []struct {
	name string
	call func(context.Context, *Client) (any, error)
	good string
	want any
}{
	{
		"status", func(ctx context.Context, c *Client) (any, error) { return c.Status(ctx) }, statusBody,
		Status{
			NodeID: "ef0e", Network: "loop-1", Moniker: "v0", CatchingUp: true, LatestBlockHeight: 289, LatestBlockHash: "AB",
			LatestBlockTime: time.Date(2026, 11, 1, 10, 0, 0, 5e8, time.UTC), EarliestBlockHeight: 1, MaxPeerBlockHeight: 300,
			ValidatorAddress: "66687AADF862BD776C8FC18B8E9F8E2008971485",
		},
	},
	{
		"lag", func(ctx context.Context, c *Client) (any, error) { return c.LagStatus(ctx) },
		`{"current_height":"290","max_peer_height":300,"lag":"10"}`,
		LagStatus{CurrentHeight: 290, MaxPeerHeight: 300, Lag: 10},
	},
	{
		"net", func(ctx context.Context, c *Client) (any, error) { return c.NetInfo(ctx) },
		`{"listening":true,"n_peers":"4","peers":[{"node_id":"a"}],"peer_connections":[
			{"node_id":"a","state":"ready,connected"},{"node_id":"b","state":"dialing"},{"node_id":"c","state":"disconnected"},{"node_id":"d","state":"connected"},{"node_id":"e","state":"ready,connected,evict"}]}`,
		NetInfo{Listening: true, Known: 4, Connected: []string{"a", "e"}},
	},
	{
		"block", func(ctx context.Context, c *Client) (any, error) { return c.BlockHash(ctx, 7) },
		`{"block_id":{"hash":"` + strings.ToLower(hash64) + `"},"block":{"header":{"height":"7"}}}`, hash64,
	},
	{
		"validators", func(ctx context.Context, c *Client) (any, error) { return c.Validators(ctx) },
		`{"total":"31","validators":[{"address":"A","voting_power":"1"},{"address":"B"}],"count":"2"}`,
		ValidatorSet{Total: 31, Addresses: []string{"A", "B"}},
	},
}

func TestRPC(t *testing.T) {
	for _, tc := range calls {
		for shape, body := range map[string]string{
			"flat":     tc.good,
			"envelope": `{"jsonrpc":"2.0","id":-1,"error":null,"result":` + tc.good + `}`,
		} {
			got, err := tc.call(t.Context(), clientFor(t, &answer{code: 200, body: body}))
			if err != nil {
				t.Errorf("%s, %s: %v", tc.name, shape, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s, %s: -want +got\n%s", tc.name, shape, diff)
			}
		}
	}
}

// Whatever is not the answer is an error, and never a node at height 0.
func TestRPCRefusesWhatIsNoAnswer(t *testing.T) {
	for _, tc := range calls {
		for _, body := range []string{
			"", "{}", "null", "[]", "7", "<html>", tc.good[:len(tc.good)-1], tc.good + "x",
			`{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","result":null}`, `{"jsonrpc":"2.0","result":{}}`, `{"result":` + tc.good + `}`,
			strings.NewReplacer(`"7"`, `"x"`, `"289"`, `""`, `"290"`, `null`, `"4"`, `"4.5"`, `"291"`, `true`, `"31"`, `31.5`).Replace(tc.good),
		} {
			got, err := tc.call(t.Context(), clientFor(t, &answer{code: 200, body: body}))
			if err == nil {
				t.Errorf("%s: %q is read as %+v", tc.name, body, got)
			}
			if !errors.Is(err, ErrIncomplete) && tc.name != "block" {
				t.Errorf("%s: %q: not ErrIncomplete: %v", tc.name, body, err)
			}
		}
	}
}

func TestRPCError(t *testing.T) {
	want := RPCError{Code: -32603, Message: "Internal error", Data: "height must be less"}
	flat := `{"code":-32603,"message":"Internal error","data":"height must be less"}`
	for _, tc := range calls {
		for _, response := range []*answer{
			{code: 200, body: flat},
			{code: 500, body: flat},
			{code: 200, body: `{"jsonrpc":"2.0","id":1,"error":` + flat + `}`},
			{code: 417, body: `{"jsonrpc":"2.0","id":1,"result":{},"error":` + flat + `}`},
		} {
			_, err := tc.call(t.Context(), clientFor(t, response))
			got, ok := errors.AsType[*RPCError](err)
			if !ok || *got != want || !strings.Contains(err.Error(), "height must be less") {
				t.Errorf("%s: %+v: %v", tc.name, response, err)
			}
		}
	}
	for body, want := range map[string]RPCError{
		`{"code":"7","message":"m","data":{"a":1}}`: {Code: 7, Message: "m", Data: `{"a":1}`},
		`{"code":1,"message":"m"}`:                  {Code: 1, Message: "m"},
		`{"code":{},"message":"m"}`:                 {Message: `{"code":{},"message":"m"}`},
		`{"jsonrpc":"2.0","error":"odd"}`:           {Message: `"odd"`},
	} {
		_, err := clientFor(t, &answer{code: 200, body: body}).Status(t.Context())
		if got, ok := errors.AsType[*RPCError](err); !ok || *got != want {
			t.Errorf("%s: %+v", body, err)
		}
	}
}

func TestLaggingIsAnAnswer(t *testing.T) {
	got, err := clientFor(t, &answer{code: 417, body: `{"current_height":"10","max_peer_height":"311","lag":"301"}`}).LagStatus(t.Context())
	if want := (LagStatus{10, 311, 301, true}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNetInfoWithNullLists(t *testing.T) {
	got, err := clientFor(t, &answer{code: 200, body: `{"listening":true,"n_peers":"0","peers":null,"peer_connections":null}`}).NetInfo(t.Context())
	if err != nil || len(got.Connected) != 0 || got.Known != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRPCTransport(t *testing.T) {
	for _, code := range []int{404, 502, 204, 301} {
		_, err := clientFor(t, &answer{code: code, body: "404 page not found"}).Status(t.Context())
		if got, ok := errors.AsType[*HTTPError](err); !ok || got.StatusCode != code || got.Error() == "" {
			t.Errorf("%d: %v", code, err)
		}
	}
	if _, err := clientFor(t, &answer{}).Status(t.Context()); err == nil {
		t.Error("a refused connection is an answer")
	}
	large := statusBody + strings.Repeat(" ", maxBody)
	if _, err := clientFor(t, &answer{code: 200, body: large}).Status(t.Context()); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a huge body: %v", err)
	}
	seen := &answer{code: 200, body: calls[3].good}
	if _, err := clientFor(t, seen).BlockHash(t.Context(), 7); err != nil || seen.got.URL.String() != "http://node.test:26657/block?height=7" {
		t.Errorf("%v, %v", seen.got.URL, err)
	}
	if _, err := clientFor(t, seen).BlockHash(t.Context(), 8); err == nil {
		t.Error("the hash of another block is taken")
	}
	if _, err := clientFor(t, seen).BlockHash(t.Context(), 0); err == nil {
		t.Error("there is a block 0")
	}
	for _, bad := range []string{"", "127.0.0.1:26657", "tcp://127.0.0.1:26657", "http://", "http://a b"} {
		if _, err := NewClient(http.DefaultClient, bad); err == nil {
			t.Errorf("%q is an address", bad)
		}
	}
}

func TestWireIntProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64().Draw(t, "n")
		bare, _ := json.Marshal(want)
		for _, text := range []string{string(bare), `"` + string(bare) + `"`} {
			var got wireInt
			if err := json.Unmarshal([]byte(text), &got); err != nil || int64(got) != want {
				t.Fatalf("%s: %d, %v", text, got, err)
			}
		}
	})
	for _, bad := range []string{`""`, `"1.5"`, `1.5`, `1e3`, `"9223372036854775808"`, `true`, `{}`, `"\ud800"`} {
		var got wireInt
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s is %d", bad, got)
		}
	}
}

func FuzzRPCBody(f *testing.F) {
	for _, c := range calls {
		f.Add(200, c.good)
		f.Add(417, `{"jsonrpc":"2.0","result":`+c.good+`}`)
	}
	f.Add(200, `{"code":-1,"message":"x","data":null}`)
	f.Add(500, `{"jsonrpc":"2.0","error":{"code":"1"}}`)
	f.Fuzz(func(t *testing.T, code int, body string) {
		for _, c := range calls {
			response := &answer{code: max(code, 1), body: body}
			got, err := c.call(t.Context(), clientFor(t, response))
			if err == nil && code != 200 && code != 417 {
				t.Errorf("HTTP %d is read as %+v", code, got)
			}
			if status, ok := got.(Status); ok && err == nil && (status.NodeID == "" || status.Network == "") {
				t.Errorf("%q is read as %+v", body, got)
			}
		}
	})
}
