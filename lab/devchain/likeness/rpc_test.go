package likeness

import (
	"context"
	"strconv"
	"strings"
	"testing"

	rpchttp "github.com/tendermint/tendermint/rpc/client/http"
	"github.com/tendermint/tendermint/types"

	"github.com/sei-operator/sei-operator/lab/devchain/chain"
	"github.com/sei-operator/sei-operator/lab/devchain/home"
)

// Answers of the RPC: bare for a GET, in an envelope for a POST, errors with HTTP 200.
func TestRPCShapes(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	configure(t, n, map[string]string{"mode": `"validator"`}, nil)
	start(t, n, v1)
	untilHeight(t, n, 2)
	for path, want := range map[string]struct {
		code  int
		parts []string
	}{
		"/status":                {200, []string{`"node_info":{`, `"network":"loop-1"`, `"catching_up":false`, `"last_committed_block_height":"`, `"voting_power":"7000000000"`, `"application_info":{"version":"0"}`, `"rpc_address":"tcp://` + port(n, "26657")}},
		"/health":                {200, []string{"{}"}},
		"/lag_status":            {200, []string{`"lag":"0"`, `"max_peer_height":"0"`}},
		"/net_info":              {200, []string{`"listening":true`, `"n_peers":"0"`, `"peers":null`, `"peer_connections":null`}},
		"/abci_info":             {200, []string{`"data":"sei"`, `"version":"v1"`, `"minimum_gas_prices":"0.01usei"`}},
		"/block?height=1":        {200, []string{`"block_id":{"hash":"`, `"height":"1"`, `"evidence":[]`}},
		"/validators":            {200, []string{`"total":"1"`}},
		"/block?height=99999999": {200, []string{`"code":-32603`, `"message":"Internal error"`, "height must be less than or equal"}},
		"/block?height=x":        {200, []string{`"code":-32602`, `"message":"Invalid params"`}},
		"/nosuch":                {404, []string{"404 page not found"}},
	} {
		code, body := get(t.Context(), t, n.RPC()+path)
		if code != want.code || strings.Contains(body, "jsonrpc") || strings.Contains(body, "light_client_info") {
			t.Errorf("%s: %d %s", path, code, body)
		}
		for _, part := range want.parts {
			if !strings.Contains(body, part) {
				t.Errorf("%s has no %s: %s", path, part, body)
			}
		}
	}
	for request, parts := range map[[2]string][]string{
		{"status", "{}"}:                   {`"result":{`, `"last_committed_block_height":"`},
		{"lag_status", "[]"}:               {`"result":{`, `"lag":"0"`},
		{"health", "{}"}:                   {`"result":{}`},
		{"block", `{"height":"1"}`}:        {`"result":{`, `"block_id":{"hash":"`, `"evidence":[]`},
		{"block", `{"height":"99999999"}`}: {`"error":{"code":-32603,"message":"Internal error"`, "height must be less than or equal"},
		{"nosuch", "{}"}:                   {`"error":{"code":-32601,`},
	} {
		code, body := call(t.Context(), t, n.RPC(), request[0], request[1])
		for _, part := range append(parts, `"jsonrpc":"2.0"`, `"id":7`) {
			if code != 200 || !strings.Contains(body, part) {
				t.Errorf("POST %v has no %s: %d %s", request, part, code, body)
			}
		}
	}
}

// A client of the engine subscribes through a websocket.
func TestWebsocket(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	start(t, n, v1)
	untilHeight(t, n, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := rpchttp.New("tcp://" + port(n, "26657"))
	if err == nil {
		err = client.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Stop() }()
	blocks, err := client.Subscribe(ctx, "likeness", "tm.event = 'NewBlock'")
	if err != nil {
		t.Fatal(err)
	}
	select {
	case block := <-blocks:
		if data, ok := block.Data.(types.EventDataNewBlock); !ok || data.Block.ChainID != "loop-1" {
			t.Errorf("%+v", block)
		}
	case <-ctx.Done():
		t.Error("no block came")
	}
}

// What a full node tells, and what a validator tells otherwise. The only peer of this full
// node is the only validator, so it is for ever catching up.
func TestFullNodeAndValidator(t *testing.T) {
	t.Parallel()
	local, validator := newSole(t)
	configure(t, validator, nil, map[string]string{"api.enable": "true"})
	full := addNode(t, local, "full", home.Full, nil, map[string]string{"evm.http_enabled": "true", "evm.ws_enabled": "true"})
	startAll(t, local, v1)
	untilHeight(t, validator, 2)
	untilHeight(t, full, 2)

	expectStatus(t, full, validator)
	expectMetrics(t, full, validator)
	for n, syncing := range map[*chain.Node]string{full: "true", validator: "false"} {
		until(t, "REST is open", func(ctx context.Context) bool { return open(ctx, port(n, "1317")) })
		body := fetch(t.Context(), t, "http://"+port(n, "1317")+"/cosmos/base/tendermint/v1beta1/syncing")
		if strings.TrimSpace(body) != `{"syncing":`+syncing+`}` {
			t.Errorf("REST of %s: %s", n.Name, body)
		}
	}
	for method, part := range map[string]string{
		"eth_blockNumber": `"result":"0x`, "eth_chainId": `"result":"0xae3f2"`,
		"eth_syncing": `"error":{"code":-32000,"message":"not supported on Sei EVM RPC"}`, "net_peerCount": `"error":{"code":-32601`,
	} {
		for _, number := range []string{"8545", "8546"} {
			if code, body := call(t.Context(), t, "http://"+port(full, number), method, "[]"); code != 200 || !strings.Contains(body, part) {
				t.Errorf("%s at port %s: %d %s", method, number, code, body)
			}
		}
	}
}

// expectStatus looks at /status, and at the command that asks for it and writes the outer
// keys in another way.
func expectStatus(t *testing.T, full, validator *chain.Node) {
	t.Helper()
	camel := strings.NewReplacer("node_info", "NodeInfo", "sync_info", "SyncInfo", "validator_info", "ValidatorInfo")
	for n, parts := range map[*chain.Node][]string{
		// That of a key of zeros, not of its own.
		full:      {`"validator_info":{"address":"66687AADF862BD776C8FC18B8E9F8E2008971485"`, `"voting_power":"0"`},
		validator: {`"validator_info":{"address":"` + validator.Address + `"`, `"voting_power":"7000000000"`},
	} {
		body := fetch(t.Context(), t, n.RPC()+"/status")
		_, printed, _ := seid(t, "status", "--node", "tcp://"+port(n, "26657"), "--home", t.TempDir())
		for _, part := range append(parts, `"node_info":{`, `"sync_info":{`, `"latest_block_height":"`) {
			if !strings.Contains(body, part) || !strings.Contains(printed, camel.Replace(part)) {
				t.Errorf("%s has no %s: %s\n%s", n.Name, part, body, printed)
			}
		}
	}
}

// expectMetrics looks for the names that the operator reads.
func expectMetrics(t *testing.T, full, validator *chain.Node) {
	t.Helper()
	const consensus = "tendermint_consensus_"
	for _, one := range []struct {
		n      *chain.Node
		sample string
		want   string // "" is none, "+" something above zero
	}{
		{full, consensus + "block_syncing{", "1"},
		{full, consensus + "latest_block_height{", "+"},
		{full, consensus + "validator_power{", ""},
		{full, "tendermint_p2p_peers{", "1"},
		{full, "cosmos_upgrade_plan_height ", "0"},
		{full, "cosmos_upgrade_plan_height{", ""},
		{validator, consensus + "latest_block_height{", "+"},
		{validator, consensus + "validator_last_signed_height{", "+"},
		{validator, consensus + "validator_power{", "7e+09"},
		{validator, consensus + "block_syncing{", ""},
		{validator, `seid_version_and_commit{commit="",seid_version="v1"}`, "1"},
	} {
		got, _ := metric(t.Context(), t, one.n, one.sample)
		if above, err := strconv.ParseFloat(got, 64); got != one.want && (one.want != "+" || err != nil || above <= 0) {
			t.Errorf("%s of %s is %q, not %q", one.sample, one.n.Name, got, one.want)
		}
	}
}
