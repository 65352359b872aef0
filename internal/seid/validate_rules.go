package seid

import (
	"encoding/hex"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid/toml"
)

// The rules below are about what a user can set. What the operator always writes and
// no override may change, such as mode, addresses to listen on and paths, needs none.

// base checks the values of config.toml that seid has a closed list for.
func (v *validator) base() {
	if v.docs[ConfigTOML] == nil {
		return
	}
	v.dbBackend()
	if level, ok := v.text(config("log-level")); ok {
		if new(slog.Level).UnmarshalText([]byte(level)) != nil {
			v.add(config("log-level"), SeverityError, "%q is no level: write debug, info, warn or error", level)
		}
	}
	v.indexer()
	if mode, _ := v.text(config("mode")); mode == "seed" && !v.flag(config("p2p.pex")) {
		v.add(config("p2p.pex"), SeverityError, "a seed does not start without it: set it to true")
	}
}

func (v *validator) dbBackend() {
	key := config("db-backend")
	switch backend, ok := v.text(key); {
	case !ok, backend == "goleveldb", backend == "goleveldb-bloom":
	case backend == "memdb":
		v.add(key, SeverityError, "%q keeps nothing on the volume: every restart would lose the blocks; write goleveldb", backend)
	case slices.Contains([]string{"cleveldb", "boltdb", "rocksdb", "badgerdb"}, backend):
		// No error: the seid of an adopted node may be a custom build, and its data is in this
		// database.
		v.add(key, SeverityWarning, "seid starts with %q only if it was built with support for it; goleveldb always works", backend)
	default:
		v.add(key, SeverityError, "%q is no database that seid is built with: write goleveldb", backend)
	}
}

func (v *validator) indexer() {
	items, _ := v.value(config("tx-index.indexer")).([]any)
	for _, item := range items {
		if item != "null" && item != "kv" && item != "psql" {
			v.add(config("tx-index.indexer"), SeverityError, "%s is no indexer: write null, kv or psql", toml.Format(item))
		}
	}
}

// peers checks the lists of peers, in which seid ignores spaces and empty entries.
func (v *validator) peers() {
	for _, path := range []string{"p2p.persistent-peers", "p2p.bootstrap-peers", "p2p.blocksync-peers"} {
		list, _ := v.text(config(path))
		for peer := range splitText(list) {
			peer = strings.Trim(peer, " ")
			if problem := peerProblem(peer); peer != "" && problem != "" {
				v.add(config(path), SeverityError, "the peer %q cannot be used: %s", peer, problem)
			}
		}
	}
	for _, path := range []string{"p2p.private-peer-ids", "p2p.unconditional-peer-ids"} {
		list, _ := v.text(config(path))
		for id := range splitText(list) {
			if id = strings.Trim(id, " "); id != "" && (!isNodeID(id) || strings.ToLower(id) != id) {
				v.add(config(path), SeverityError, "%q is no node id: it must have 40 hexadecimal digits, in lower case", id)
			}
		}
	}
	// seid reads it as the address of a peer, with its own node id before it.
	address, _ := v.text(config("p2p.external-address"))
	if problem := peerProblem(strings.Repeat("0", 40) + "@" + strings.TrimPrefix(address, "tcp://")); address != "" && problem != "" {
		v.add(config("p2p.external-address"), SeverityError, "%q is no address of this node: write host:port", address)
	}
}

// splitText is the entries of a list in a text; an empty text has none.
func splitText(list string) func(func(string) bool) {
	return func(yield func(string) bool) {
		if strings.TrimSpace(list) != "" {
			strings.SplitSeq(list, ",")(yield)
		}
	}
}

// peerProblem is why seid refuses a peer, and with it to start; empty: it does not.
func peerProblem(peer string) string {
	if _, after, ok := strings.Cut(peer, "://"); ok {
		peer = after
	}
	id, host, ok := strings.Cut(peer, "@")
	switch {
	case !ok:
		return "it has no node id; write nodeId@host:port"
	case !isNodeID(id):
		return "its node id must have 40 hexadecimal digits"
	case host == "" || strings.HasPrefix(host, ":") || strings.ContainsAny(host, " \t\r\n@/"):
		return "it has no usable host; write nodeId@host:port"
	}
	if _, port, err := net.SplitHostPort(host); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "its port must be a number from 1 to 65535"
		}
	}
	return ""
}

func isNodeID(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == 20
}

// stateSync checks what seid asks for when state sync is on.
func (v *validator) stateSync() {
	if !v.flag(config("statesync.enable")) {
		return
	}
	servers, _ := v.text(config("statesync.rpc-servers"))
	count := 0
	for server := range splitText(servers) {
		if count++; strings.TrimSpace(server) == "" {
			v.add(config("statesync.rpc-servers"), SeverityError, "there is an empty entry in it")
		}
	}
	if count < 2 && !v.flag(config("statesync.use-p2p")) {
		v.add(config("statesync.rpc-servers"), SeverityError, "state sync needs at least 2 RPC servers, separated by a comma; there are %d", count)
	}
	if v.number(config("statesync.trust-height")) < 1 {
		v.add(config("statesync.trust-height"), SeverityError, "state sync needs the height of a block to trust")
	}
	hash, _ := v.text(config("statesync.trust-hash"))
	if raw, err := hex.DecodeString(hash); err != nil || len(raw) != 32 {
		v.add(config("statesync.trust-hash"), SeverityError, "state sync needs the hash of the block to trust: 64 hexadecimal digits")
	}
	period, _ := v.text(config("statesync.trust-period"))
	if duration, err := time.ParseDuration(period); err == nil && duration == 0 {
		v.add(config("statesync.trust-period"), SeverityError, "state sync needs a period to trust, for example 168h")
	}
}

// gasPrice is one price: an amount and a denomination.
var gasPrice = regexp.MustCompile(`^(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([a-zA-Z][a-zA-Z0-9/:._-]{2,127})$`)

// application checks app.toml.
func (v *validator) application() {
	doc := v.docs[AppTOML]
	if doc == nil {
		return
	}
	v.gasPrices()
	if telemetry, ok := doc["telemetry"].(map[string]any); ok && telemetry["global-labels"] == nil {
		v.add(app("telemetry.global-labels"), SeverityError, "it is missing, and seid does not start without it: write []")
	}
	if pruning, ok := v.text(app("pruning")); ok && !slices.Contains([]string{"default", "nothing", "everything", "custom"}, strings.ToLower(pruning)) {
		v.add(app("pruning"), SeverityError, "%q is not one of default, nothing, everything, custom", pruning)
	}
}

func (v *validator) gasPrices() {
	key := app("minimum-gas-prices")
	prices, ok := v.text(key)
	if !ok {
		return
	}
	seen := map[string]bool{}
	for price := range splitText(prices) {
		parts := gasPrice.FindStringSubmatch(strings.TrimSpace(price))
		if parts == nil {
			v.add(key, SeverityError, "%q is no price, and seid crashes at its start with it: write for example 0.01usei", price)
			continue
		}
		if seen[parts[1]] {
			v.add(key, SeverityError, "there are two prices in %s", parts[1])
		}
		seen[parts[1]] = true
	}
}

// client checks client.toml, of which seid itself reads one key.
func (v *validator) client(chainID string) {
	if v.docs[ClientTOML] == nil || chainID == "" {
		return
	}
	if got, _ := v.text(client("chain-id")); got != chainID {
		v.add(client("chain-id"), SeverityError, "it is %q, but the genesis file is that of %q; seid crashes at its start", got, chainID)
	}
}
