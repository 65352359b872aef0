package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/mitchellh/mapstructure"
	"github.com/spf13/viper"
	"github.com/tendermint/tendermint/config"

	"github.com/sei-operator/sei-operator/lab/devchain/home"
)

// Flags are those of "seid start".
type Flags struct {
	Home    home.Dir
	ChainID string
	// Keys are flags with the name of a key of the configuration; they are above it.
	Keys map[string]string
}

// settings are all that a node is started with.
type settings struct {
	home   home.Dir
	engine *config.Config
	// rpc is where the node answers; the engine itself listens elsewhere.
	rpc          string
	lagThreshold int64
	app          appSettings
	chainID      string // of client.toml
}

type appSettings struct {
	GasPrices       string `mapstructure:"minimum-gas-prices"`
	MinRetainBlocks int64  `mapstructure:"min-retain-blocks"`
	HaltHeight      int64  `mapstructure:"halt-height"`
	HaltTime        int64  `mapstructure:"halt-time"`
	StateSync       struct {
		Interval   int64  `mapstructure:"snapshot-interval"`
		KeepRecent int    `mapstructure:"snapshot-keep-recent"`
		Directory  string `mapstructure:"snapshot-directory"`
	} `mapstructure:"state-sync"`
	Telemetry struct {
		Enabled   bool  `mapstructure:"enabled"`
		Retention int64 `mapstructure:"prometheus-retention-time"` // in seconds
	} `mapstructure:"telemetry"`
	API     endpoint `mapstructure:"api"`
	GRPC    endpoint `mapstructure:"grpc"`
	GRPCWeb endpoint `mapstructure:"grpc-web"`
	EVM     struct {
		HTTP     bool `mapstructure:"http_enabled"`
		HTTPPort int  `mapstructure:"http_port"`
		WS       bool `mapstructure:"ws_enabled"`
		WSPort   int  `mapstructure:"ws_port"`
	} `mapstructure:"evm"`
}

type endpoint struct {
	Enable  bool   `mapstructure:"enable"`
	Address string `mapstructure:"address"`
}

// load reads the three files into one store, as seid does, with the environment
// above them and the flags above that.
func load(flags Flags) (*settings, error) {
	store := viper.New()
	store.SetEnvPrefix("SEID")
	store.SetEnvKeyReplacer(strings.NewReplacer(".", "_", "-", "_"))
	store.AutomaticEnv()
	for i, name := range []string{"config.toml", "app.toml", "client.toml"} {
		store.SetConfigFile(flags.Home.Config(name))
		read, refusal := store.ReadInConfig, "%w"
		if i > 0 {
			read, refusal = store.MergeInConfig, "failed to merge configuration: %w"
		}
		if err := read(); err != nil {
			return nil, fmt.Errorf(refusal, err)
		}
	}
	for key, value := range flags.Keys {
		store.Set(key, value)
	}
	s := &settings{home: flags.Home, engine: config.DefaultConfig()}
	// Not in the file that "seid init" writes, but read from it.
	s.lagThreshold = 300
	if store.IsSet("rpc.lag-threshold") {
		s.lagThreshold = store.GetInt64("rpc.lag-threshold")
	}
	for _, part := range []any{s.engine, &s.app} {
		if err := store.Unmarshal(part); err != nil {
			return nil, decoding(err)
		}
	}
	s.chainID = store.GetString("chain-id")
	return s, s.dress(store)
}

// decoding tells values of a wrong type in the words of seid's decoder, which is newer.
func decoding(err error) error {
	if wrong, is := errors.AsType[*mapstructure.Error](err); is {
		return fmt.Errorf("decoding failed due to the following error(s):\n\n%s", strings.Join(wrong.Errors, "\n"))
	}
	return err
}

// dress fits the engine's configuration to what seid made of it.
func (s *settings) dress(store *viper.Viper) error {
	e := s.engine
	e.SetRoot(string(s.home))
	switch e.Mode {
	case config.ModeFull, config.ModeValidator, config.ModeSeed:
	default:
		return fmt.Errorf("error creating node: %q is not a valid mode", e.Mode)
	}
	if e.DBBackend != "goleveldb" && e.DBBackend != "memdb" {
		return fmt.Errorf("error creating node: unknown db_backend %s, expected one of memdb,goleveldb,goleveldb-bloom", e.DBBackend)
	}
	// The engine's databases have a directory of their own beside the application's.
	e.DBPath = filepath.Join(e.DBPath, "tendermint")
	s.rpc = e.RPC.ListenAddress
	e.RPC.ListenAddress = fmt.Sprintf("unix://@devchain-%d-%d", os.Getpid(), time.Now().UnixNano())
	if e.Mode == config.ModeSeed {
		e.Instrumentation.Prometheus = false // A seed of v6.6.2 serves no metrics.
	}
	var servers []string
	for _, server := range e.StateSync.RPCServers {
		if server = strings.TrimSpace(server); server != "" && !strings.Contains(server, "://") {
			server = "http://" + server
		}
		if server != "" {
			servers = append(servers, server)
		}
	}
	e.StateSync.RPCServers = servers
	return s.dressTimeouts(store)
}

// dressTimeouts takes those of the genesis file, and above them the overrides of
// the configuration. The engine has them in its configuration alone.
func (s *settings) dressTimeouts(store *viper.Viper) error {
	genesis, err := os.ReadFile(s.engine.GenesisFile())
	if err != nil {
		return nil //nolint:nilerr // a missing genesis file is told later, and in another way
	}
	timeouts, err := home.ReadTimeouts(genesis)
	if err != nil {
		return fmt.Errorf("error creating node: cannot read the genesis file: %w", err)
	}
	c := s.engine.Consensus
	for _, one := range []struct {
		of       time.Duration
		override string
		targets  []*time.Duration
	}{
		{timeouts.Propose, "propose-timeout", []*time.Duration{&c.TimeoutPropose}},
		{timeouts.ProposeDelta, "propose-timeout-delta", []*time.Duration{&c.TimeoutProposeDelta}},
		{timeouts.Vote, "vote-timeout", []*time.Duration{&c.TimeoutPrevote, &c.TimeoutPrecommit}},
		{timeouts.VoteDelta, "vote-timeout-delta", []*time.Duration{&c.TimeoutPrevoteDelta, &c.TimeoutPrecommitDelta}},
		{timeouts.Commit, "commit-timeout", []*time.Duration{&c.TimeoutCommit}},
	} {
		for _, target := range one.targets {
			*target = one.of
			if other := store.GetDuration("consensus.unsafe-" + one.override + "-override"); other > 0 {
				*target = other
			}
		}
	}
	return nil
}

// checkChainID is the panic of seid over a client.toml of another chain, and that
// over a genesis file which is not there.
func (s *settings) checkChainID(flags Flags) {
	text, err := os.ReadFile(s.engine.GenesisFile())
	if err != nil {
		panic(fmt.Sprintf("runtime error: invalid memory address or nil pointer dereference (%v)", err))
	}
	var genesis struct {
		ChainID string `json:"chain_id"`
	}
	if err := json.Unmarshal(text, &genesis); err != nil {
		panic(err)
	}
	if flags.ChainID != "" && flags.ChainID != s.chainID {
		panic(fmt.Sprintf("chain-id mismatch: %s vs %s. The chain-id passed in is different from the value in ~/.sei/config/client.toml \n", flags.ChainID, s.chainID))
	}
	// Also a client.toml without a chain id is of another chain.
	if s.chainID != genesis.ChainID {
		panic(fmt.Sprintf("genesis file chain-id=%s does not equal config.toml chain-id=%s", genesis.ChainID, s.chainID))
	}
}

// coin is an amount with its denomination, as minimum-gas-prices has them.
var coin = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?|\.[0-9]+)\s*[a-zA-Z][a-zA-Z0-9/-]{2,127}$`)

// checkGasPrices is the panic of seid over prices that it does not understand. None at all
// are an error in the log.
func (s *settings) checkGasPrices(log func(string, ...any)) {
	if s.app.GasPrices == "" {
		log("WARNING: The minimum-gas-prices config in app.toml is set to the empty string.")
		return
	}
	for price := range strings.SplitSeq(s.app.GasPrices, ",") {
		if !coin.MatchString(strings.TrimSpace(price)) {
			panic("invalid minimum gas prices: invalid decimal coin expression: " + price)
		}
	}
}
