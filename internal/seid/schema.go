package seid

import "strings"

// kind is the type of a key of seid's configuration.
type kind int

const (
	kindUnknown kind = iota
	kindString
	kindInt
	kindFloat
	kindBool
	kindDuration
	kindList
)

// keys are the keys of one table by type, separated by white space.
type keys map[kind]string

// schema is the type of every key that seid v6.5 or v6.6 has in its files, or
// reads from them though it does not write it there. seid takes a key it does not
// know without a word, so this is the only way to find one that is mistyped.
var schema = map[File]map[string]kind{
	ConfigTOML: flatten(map[string]keys{
		"": {
			kindString: "moniker mode db-backend db-dir log-level log-format genesis-file node-key-file proxy-app abci",
			kindBool:   "filter-peers",
		},
		"rpc": {
			kindString: "laddr tls-cert-file tls-key-file pprof-laddr",
			kindList:   "cors-allowed-origins cors-allowed-methods cors-allowed-headers",
			kindBool:   "unsafe experimental-disable-websocket",
			kindInt: `max-open-connections max-subscription-clients max-subscriptions-per-client event-log-max-items
				max-body-bytes max-header-bytes max-tx-search-results lag-threshold`,
			kindDuration: "event-log-window-size timeout-broadcast-tx-commit timeout-read timeout-read-header timeout-write",
		},
		"p2p": {
			kindString: `queue-type laddr external-address bootstrap-peers persistent-peers blocksync-peers
				private-peer-ids unconditional-peer-ids`,
			kindBool: "upnp pex allow-duplicate-ip",
			kindInt: `max-connections max-incoming-connection-attempts max-packet-msg-payload-size
				send-rate recv-rate`,
			kindDuration: "handshake-timeout dial-timeout accept-interval flush-throttle-timeout",
		},
		"mempool": {
			kindBool: "broadcast keep-invalid-txs-in-cache check-tx-error-blacklist-enabled",
			kindInt: `size max-txs-bytes cache-size duplicate-txs-cache-size max-tx-bytes max-batch-bytes ttl-num-blocks
				tx-notify-threshold check-tx-error-threshold pending-size max-pending-txs-bytes pending-ttl-num-blocks
				drop-priority-reservoir-size`,
			kindFloat:    "drop-priority-threshold drop-utilisation-threshold",
			kindDuration: "ttl-duration pending-ttl-duration",
		},
		"statesync": {
			kindBool:   "enable use-p2p use-local-snapshot",
			kindString: "rpc-servers trust-hash temp-dir",
			kindInt:    "trust-height backfill-blocks fetchers",
			kindDuration: `trust-period backfill-duration discovery-time chunk-request-timeout
				verify-light-block-timeout blacklist-ttl`,
		},
		"consensus": {
			kindString: "wal-file",
			kindInt:    "double-sign-check-height",
			kindBool:   "create-empty-blocks gossip-tx-key-only",
			kindDuration: `create-empty-blocks-interval peer-gossip-sleep-duration peer-query-maj23-sleep-duration
				unsafe-propose-timeout-override unsafe-propose-timeout-delta-override unsafe-vote-timeout-override
				unsafe-vote-timeout-delta-override unsafe-commit-timeout-override`,
		},
		"tx-index":        {kindList: "indexer", kindString: "psql-conn"},
		"instrumentation": {kindBool: "prometheus", kindString: "prometheus-listen-addr namespace", kindInt: "max-open-connections"},
		"priv-validator":  {kindString: "key-file state-file laddr client-certificate-file client-key-file root-ca-file"},
		"self-remediation": {
			kindInt: `p2p-no-peers-available-window-seconds statesync-no-peers-available-window-seconds
				blocks-behind-threshold blocks-behind-check-interval restart-cooldown-seconds`,
			kindString: "autobahn-config-file",
		},
	}),
	AppTOML: flatten(map[string]keys{
		"": {
			kindString: "minimum-gas-prices orphan-dir pruning",
			kindInt: `min-retain-blocks concurrency-workers halt-height halt-time freeze-height compaction-interval
				separate-orphan-versions-to-keep num-orphan-per-file pruning-keep-recent pruning-keep-every pruning-interval`,
			kindBool: "occ-enabled inter-block-cache iavl-disable-fastnode no-versioning separate-orphan-storage",
			kindList: "index-events",
		},
		"state-sync": {kindInt: "snapshot-interval snapshot-keep-recent", kindString: "snapshot-directory"},
		"state-commit": {
			kindBool:   "sc-enable sc-enable-lattice-hash",
			kindString: "sc-directory sc-write-mode sc-read-mode",
			kindInt: `sc-historical-proof-max-inflight sc-historical-proof-burst
				sc-async-commit-buffer sc-keep-recent sc-snapshot-interval sc-snapshot-min-time-interval
				sc-snapshot-write-rate-mbps sc-keys-to-migrate-per-block`,
			kindFloat: "sc-snapshot-prefetch-threshold sc-historical-proof-rate-limit",
		},
		"state-commit.flatkv": {kindBool: "fsync", kindInt: "async-write-buffer snapshot-interval snapshot-keep-recent"},
		"state-store": {
			kindBool:   "ss-enable evm-ss-split evm-ss-separate-dbs",
			kindString: "ss-db-directory ss-backend evm-ss-db-directory",
			kindInt:    "ss-async-write-buffer ss-keep-recent ss-prune-interval ss-import-num-workers",
		},
		"receipt-store": {kindString: "rs-backend db-directory", kindInt: "async-write-buffer prune-interval-seconds"},
		"evm": {
			kindBool: "http_enabled ws_enabled slow enable_parallelized_block_trace trace_bake_enabled trace_bake_use_snapshot",
			kindInt: `http_port ws_port simulation_gas_limit max_log_no_block max_blocks_for_log max_subscriptions_new_head
				max_concurrent_trace_calls max_trace_lookback_blocks worker_pool_size worker_queue_size trace_bake_workers
				trace_bake_queue_size trace_bake_window_blocks trace_bake_snapshot_window ip_rate_limit_burst`,
			kindFloat: "ip_rate_limit_rps",
			kindDuration: `read_timeout read_header_timeout write_timeout idle_timeout simulation_evm_timeout filter_timeout
				checktx_timeout trace_timeout`,
			kindString: "cors_origins ws_origins",
			kindList:   "deny_list enabled_legacy_sei_apis trace_bake_tracers",
		},
		"giga_executor": {kindBool: "enabled occ_enabled"},
		"admin_server":  {kindBool: "admin_enabled", kindString: "admin_address"},
		"telemetry": {
			kindString: "service-name",
			kindBool:   "enabled enable-hostname enable-hostname-label enable-service-label",
			kindInt:    "prometheus-retention-time",
			kindList:   "global-labels",
		},
		"api": {
			kindBool: "enable swagger enabled-unsafe-cors", kindString: "address",
			kindInt: "max-open-connections rpc-read-timeout rpc-write-timeout rpc-max-body-bytes",
		},
		"rosetta":          {kindBool: "enable offline", kindString: "address blockchain network", kindInt: "retries"},
		"grpc":             {kindBool: "enable", kindString: "address"},
		"grpc-web":         {kindBool: "enable enable-unsafe-cors", kindString: "address"},
		"genesis":          {kindBool: "stream-import", kindString: "genesis-stream-file"},
		"wasm":             {kindInt: "query_gas_limit lru_size"},
		"eth_replay":       {kindBool: "eth_replay_enabled eth_replay_contract_state_checks", kindString: "eth_rpc eth_data_dir"},
		"eth_blocktest":    {kindBool: "eth_blocktest_enabled", kindString: "eth_blocktest_test_data_path"},
		"evm_query":        {kindInt: "evm_query_gas_limit"},
		"light_invariance": {kindBool: "supply_enabled"},
		"iavl":             {kindString: "pruning", kindInt: "pruning-keep-recent pruning-keep-every pruning-interval"},
	}),
	ClientTOML: flatten(map[string]keys{
		"": {kindString: "chain-id keyring-backend output node broadcast-mode"},
	}),
}

// flatten is the types of keys by their dotted path.
func flatten(tables map[string]keys) map[string]kind {
	out := map[string]kind{}
	for table, byKind := range tables {
		for kind, names := range byKind {
			for name := range strings.FieldsSeq(names) {
				if table != "" {
					name = table + "." + name
				}
				out[name] = kind
			}
		}
	}
	return out
}
