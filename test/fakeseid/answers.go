package fakeseid

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxLag is the lag from which /lag_status answers 417.
const maxLag = 300

func (n *node) handler(endpoint Endpoint) http.Handler {
	mux := http.NewServeMux()
	switch endpoint {
	case RPC:
		mux.HandleFunc("GET /status", n.answer(status))
		mux.HandleFunc("GET /lag_status", n.answer(lagStatus))
		mux.HandleFunc("GET /net_info", n.answer(netInfo))
		mux.HandleFunc("GET /validators", n.answer(validators))
		mux.HandleFunc("GET /abci_info", n.answer(abciInfo))
		mux.HandleFunc("GET /health", n.answer(func(Facts) (int, any) { return http.StatusOK, struct{}{} }))
	case Metrics:
		mux.HandleFunc("GET /metrics", n.metrics)
	default:
		mux.HandleFunc("GET /cosmos/base/tendermint/v1beta1/syncing", n.answer(func(f Facts) (int, any) {
			return http.StatusOK, map[string]any{"syncing": f.CatchingUp}
		}))
	}
	return mux
}

func (n *node) answer(body func(Facts) (int, any)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		n.mu.Lock()
		facts := n.facts
		n.mu.Unlock()
		code, value := body(facts)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(value)
	}
}

// number renders a 64-bit integer as seid does: as a string.
func number(n int64) string { return strconv.FormatInt(n, 10) }

func status(f Facts) (int, any) {
	return http.StatusOK, map[string]any{
		"node_info": map[string]any{
			"id": f.NodeID, "network": f.ChainID, "moniker": "fake", "version": "0.35.0-unreleased",
			"listen_addr": "tcp://0.0.0.0:26656",
		},
		"application_info": map[string]any{"version": "0"},
		"sync_info": map[string]any{
			"latest_block_height":         number(f.Height),
			"last_committed_block_height": number(f.Height),
			"latest_block_time":           blockTime(f),
			"earliest_block_height":       number(f.Earliest),
			"max_peer_block_height":       number(f.MaxPeerHeight),
			"catching_up":                 f.CatchingUp,
		},
		"validator_info": map[string]any{"address": cmp.Or(f.Validator, zeroKey), "voting_power": "0"},
	}
}

// zeroKey is the address of an all-zero key, with which a node answers that does not
// validate.
const zeroKey = "66687AADF862BD776C8FC18B8E9F8E2008971485"

func blockTime(f Facts) time.Time {
	if f.BlockTime.IsZero() {
		return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	}
	return f.BlockTime
}

func validators(f Facts) (int, any) {
	all := []any{}
	for _, address := range f.Validators {
		all = append(all, map[string]any{"address": address, "voting_power": "1", "proposer_priority": "0"})
	}
	return http.StatusOK, map[string]any{
		"block_height": number(f.Height), "validators": all, "count": strconv.Itoa(len(all)), "total": strconv.Itoa(len(all)),
	}
}

func lagStatus(f Facts) (int, any) {
	lag := max(0, f.MaxPeerHeight-f.Height)
	code := http.StatusOK
	if lag > maxLag {
		code = http.StatusExpectationFailed
	}
	return code, map[string]any{
		"current_height": number(f.Height), "max_peer_height": number(f.MaxPeerHeight), "lag": number(lag),
	}
}

func netInfo(f Facts) (int, any) {
	var peers, connections []any // null when empty, as with seid
	for i := range f.Peers {
		id := fmt.Sprintf("%040x", i+1)
		peers = append(peers, map[string]any{"node_id": id, "url": "mconn://" + id + "@127.0.0.1:26656"})
		connections = append(connections, map[string]any{"node_id": id, "state": "ready,connected", "score": "100"})
	}
	for i := range f.Known {
		id := fmt.Sprintf("%040x", f.Peers+i+1)
		peers = append(peers, map[string]any{"node_id": id, "url": "mconn://" + id + "@192.0.2.1:26656"})
	}
	return http.StatusOK, map[string]any{
		"listening": true, "n_peers": strconv.Itoa(len(peers)), "peers": peers, "peer_connections": connections,
	}
}

func abciInfo(f Facts) (int, any) {
	return http.StatusOK, map[string]any{"response": map[string]any{
		"data": "sei", "version": Version, "last_block_height": number(f.Height),
	}}
}

func (n *node) metrics(w http.ResponseWriter, _ *http.Request) {
	n.mu.Lock()
	f := n.facts
	n.mu.Unlock()
	var page strings.Builder
	fmt.Fprintf(&page, "# TYPE tendermint_consensus_latest_block_height gauge\n")
	fmt.Fprintf(&page, "tendermint_consensus_latest_block_height{chain_id=%q} %d\n", f.ChainID, f.Height)
	if f.StateSyncing != nil {
		fmt.Fprintf(&page, "# TYPE tendermint_consensus_state_syncing gauge\n")
		fmt.Fprintf(&page, "tendermint_consensus_state_syncing{chain_id=%q} %d\n", f.ChainID, *f.StateSyncing)
	}
	if f.PlanName != "" {
		// seid's gauge is a float32: above 2^24 the height is rounded.
		fmt.Fprintf(&page, "cosmos_upgrade_plan_height{name=%q,info=\"\"} %g\n", f.PlanName, float64(float32(f.PlanHeight)))
	}
	fmt.Fprintf(&page, "tendermint_p2p_peers{chain_id=%q} %d\n", f.ChainID, f.Peers)
	_, _ = io.WriteString(w, page.String())
}
