package tasks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// ConfigureStateSync makes seid restore a snapshot at its next start, instead of
// replaying the chain. What it trusts is a block on which at least two servers agree.
type ConfigureStateSync struct {
	// RPCServers are URLs, or host:port.
	RPCServers     []string `json:"rpcServers"`
	TrustPeriod    string   `json:"trustPeriod,omitempty"`
	BackfillBlocks *int64   `json:"backfillBlocks,omitempty"`
	// CheckOnly asks the servers and writes nothing, also where the volume holds data:
	// whoever is about to remove that data wants to know first whether it can be had
	// again.
	CheckOnly bool `json:"checkOnly,omitempty"`
}

// Validate refuses what seid would refuse at its start.
func (p *ConfigureStateSync) Validate() error {
	servers, err := normalised(p.RPCServers)
	if err != nil {
		return err
	}
	if len(servers) < 2 {
		return fmt.Errorf("rpcServers has %d different servers; seid needs two that check each other", len(servers))
	}
	if p.TrustPeriod != "" {
		if period, err := time.ParseDuration(p.TrustPeriod); err != nil || period <= 0 {
			return fmt.Errorf("trustPeriod %q is not a duration like 168h", p.TrustPeriod)
		}
	}
	if p.BackfillBlocks != nil && *p.BackfillBlocks < 0 {
		return errors.New("backfillBlocks is negative")
	}
	return nil
}

// maxServers bounds how many servers are asked.
const maxServers = 16

// normalised is the servers in the one form in which they are compared and written,
// each once.
func normalised(servers []string) ([]string, error) {
	if len(servers) > maxServers {
		return nil, fmt.Errorf("rpcServers has more than %d entries", maxServers)
	}
	var out []string
	for _, server := range servers {
		one, err := normalise(server)
		if err != nil {
			return nil, fmt.Errorf("rpcServers: %w", err)
		}
		if !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out, nil
}

// normalise writes scheme and port out. seid puts http before what has no scheme,
// so a server that is only reached by https would be asked in plain text.
func normalise(server string) (string, error) {
	wrong := fmt.Errorf("%q is no RPC server; write host:port or an http or https URL", server)
	if len(server) > maxShort || strings.ContainsAny(server, ", \t\r\n") {
		return "", wrong
	}
	if !strings.Contains(server, "://") {
		_, port, err := net.SplitHostPort(server)
		if err != nil {
			return "", wrong
		}
		scheme := "http"
		if port == "443" {
			scheme = "https"
		}
		server = scheme + "://" + server
	}
	parsed, err := url.Parse(server)
	if err != nil || parsed.Hostname() == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return "", wrong
	}
	port := parsed.Port()
	switch parsed.Scheme {
	case "http":
		port = orDefault(port, "80")
	case "https":
		port = orDefault(port, "443")
	default:
		return "", wrong
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", wrong
	}
	host := net.JoinHostPort(strings.ToLower(parsed.Hostname()), port)
	return parsed.Scheme + "://" + host + strings.TrimRight(parsed.EscapedPath(), "/"), nil
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// ConfigureStateSyncResult tells what seid will trust.
type ConfigureStateSyncResult struct {
	Changed     bool   `json:"changed"`
	TrustHeight int64  `json:"trustHeight,omitempty"`
	TrustHash   string `json:"trustHash,omitempty"`
	// Servers are those that answered and agreed, and are written.
	Servers []string `json:"servers,omitempty"`
	// Left are those that did not answer, and why.
	Left []string `json:"left,omitempty"`
	Note string   `json:"note,omitempty"`
}

// configureStateSync asks for a block to trust each time it runs, also where state
// sync is on already: what is trusted grows old, and then seid refuses it.
//
// A server that does not answer is not written: seid does not start with one.
func (t *tasks) configureStateSync(ctx context.Context, _ engine.Execution, p ConfigureStateSync) (any, error) {
	hasData, err := t.Home.HasChainData()
	if err != nil {
		return nil, volumeError(err)
	}
	if hasData && !p.CheckOnly {
		return ConfigureStateSyncResult{Note: "the volume holds data of the chain, so seid goes on from there and does no state sync"}, nil
	}
	servers, err := normalised(p.RPCServers)
	if err != nil {
		return nil, engine.Terminal(ReasonInvalidConfiguration, "%w", err)
	}
	chainID, err := t.ownChainID()
	if err != nil {
		return nil, err
	}
	trust, err := t.agreeOnBlock(ctx, servers, chainID)
	if err != nil {
		return nil, err
	}
	agreed := ConfigureStateSyncResult{TrustHeight: trust.height, TrustHash: trust.hash, Servers: trust.servers, Left: trust.left}
	if p.CheckOnly {
		return agreed, nil
	}
	changes := seid.Changes{
		stateSyncKey("enable"):       "true",
		stateSyncKey("rpc-servers"):  strings.Join(trust.servers, ","),
		stateSyncKey("trust-height"): strconv.FormatInt(trust.height, 10),
		stateSyncKey("trust-hash"):   trust.hash,
	}
	if period, err := time.ParseDuration(p.TrustPeriod); err == nil {
		changes[stateSyncKey("trust-period")] = period.String()
	}
	if p.BackfillBlocks != nil {
		changes[stateSyncKey("backfill-blocks")] = strconv.FormatInt(*p.BackfillBlocks, 10)
	}
	done, err := t.edit(changes)
	if err != nil {
		return nil, err
	}
	agreed.Changed = len(done) > 0
	return agreed, nil
}

func stateSyncKey(name string) seid.Key {
	return seid.Key{File: seid.ConfigTOML, Path: "statesync." + name}
}

// ownChainID is the chain of this node; empty where it is not known yet.
func (t *tasks) ownChainID() (string, error) {
	record, err := t.Config.Record()
	if err != nil {
		return "", configFailure(err)
	}
	if record.Document != nil {
		return record.Document.ChainID, nil
	}
	chainID, _, err := t.genesisChainID()
	return chainID, err
}
