package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/sei-operator/sei-operator/lab/devchain/app"
)

// facts are the answers that seid gives otherwise than the engine.
type facts struct {
	app          *app.Application
	rpc          string
	gasPrices    string
	lagThreshold int64
	validator    bool

	// ask asks the engine.
	ask func(ctx context.Context, path, query string) (json.RawMessage, error)
	// live are the peers that the node is connected to.
	live func() []connection
}

// A node that does not validate tells of a key of zeros, not of its own.
var nobody = map[string]any{
	"address":      "66687AADF862BD776C8FC18B8E9F8E2008971485",
	"pub_key":      map[string]any{"type": "tendermint/PubKeyEd25519", "value": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="},
	"voting_power": "0",
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func integer(text any) int64 {
	number, _ := strconv.ParseInt(fmt.Sprint(text), 10, 64)
	return number
}

func (f *facts) object(ctx context.Context, path, query string) (map[string]any, error) {
	raw, err := f.ask(ctx, path, query)
	if err != nil {
		return nil, err
	}
	var result map[string]any
	return result, json.Unmarshal(raw, &result)
}

// status is that of the engine, with what seid adds to it.
func (f *facts) status(ctx context.Context) (int, any, error) {
	status, err := f.object(ctx, "/status", "")
	if err != nil {
		return 0, nil, err
	}
	sync, _ := status["sync_info"].(map[string]any)
	node, _ := status["node_info"].(map[string]any)
	other, _ := node["other"].(map[string]any)
	if sync == nil || other == nil {
		return 0, nil, fmt.Errorf("the engine answered %v", status)
	}
	other["rpc_address"] = f.rpc
	status["application_info"] = map[string]any{"version": "0"}
	sync["last_committed_block_height"] = decimal(f.app.Height())
	sync["max_peer_block_height"] = decimal(highest(integer(sync["max_peer_block_height"]), f.live()))
	if err := f.earliest(ctx, sync); err != nil {
		return 0, nil, err
	}
	if !f.validator {
		status["validator_info"] = nobody
	}
	return http.StatusOK, status, nil
}

// earliest is the block below the snapshot on a node that began with one. The engine
// has fetched headers of older blocks by then, but not the blocks.
func (f *facts) earliest(ctx context.Context, sync map[string]any) error {
	height := f.app.RestoredAt() - 1
	if height <= integer(sync["earliest_block_height"]) {
		return nil
	}
	page, err := f.object(ctx, "/blockchain", fmt.Sprintf("minHeight=%d&maxHeight=%d", height, height))
	if err != nil {
		return err
	}
	metas, _ := page["block_metas"].([]any)
	if len(metas) == 0 {
		return nil
	}
	meta, _ := metas[0].(map[string]any)
	header, _ := meta["header"].(map[string]any)
	id, _ := meta["block_id"].(map[string]any)
	sync["earliest_block_height"] = decimal(height)
	sync["earliest_block_hash"], sync["earliest_app_hash"] = id["hash"], header["app_hash"]
	sync["earliest_block_time"] = header["time"]
	return nil
}

// highest is the height of the highest peer. Block sync knows it only until it ends.
func highest(known int64, peers []connection) int64 {
	for _, peer := range peers {
		known = max(known, peer.height)
	}
	return known
}

// lagStatus says with its HTTP status whether the node is too far behind.
func (f *facts) lagStatus(ctx context.Context) (int, any, error) {
	_, result, err := f.status(ctx)
	if err != nil {
		return 0, nil, err
	}
	sync := result.(map[string]any)["sync_info"].(map[string]any)
	current, highest := integer(sync["latest_block_height"]), integer(sync["max_peer_block_height"])
	lag := max(0, highest-current)
	code := http.StatusOK
	if lag > f.lagThreshold {
		code = http.StatusExpectationFailed
	}
	return code, map[string]string{
		"current_height": decimal(current), "max_peer_height": decimal(highest), "lag": decimal(lag),
	}, nil
}

// netInfo counts the addresses that are known as peers, connected or not; the
// connections stand beside them.
func (f *facts) netInfo(ctx context.Context) (int, any, error) {
	info, err := f.object(ctx, "/net_info", "")
	if err != nil {
		return 0, nil, err
	}
	var connections []any // null when there are none
	for _, peer := range f.live() {
		connections = append(connections, map[string]any{"node_id": peer.id, "state": "ready,connected", "score": "100"})
	}
	info["peer_connections"] = connections
	return http.StatusOK, info, nil
}

// abciInfo gives the version of the binary.
func (f *facts) abciInfo(ctx context.Context) (int, any, error) {
	info, err := f.object(ctx, "/abci_info", "")
	if err != nil {
		return 0, nil, err
	}
	if response, ok := info["response"].(map[string]any); ok {
		response["minimum_gas_prices"] = f.gasPrices
	}
	return http.StatusOK, info, nil
}
