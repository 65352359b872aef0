package seid

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Client asks seid's RPC.
type Client struct {
	http *http.Client
	base *url.URL
}

// NewClient is a client for the RPC at a base URL, for example
// http://127.0.0.1:26657. Deadlines are the caller's, by context.
func NewClient(client *http.Client, base string) (*Client, error) {
	parsed, err := url.Parse(base)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return nil, fmt.Errorf("%q is no address of an RPC: write scheme, host and port, for example http://127.0.0.1:26657", base)
	}
	return &Client{http: client, base: parsed}, nil
}

// Status is what /status says of the node.
type Status struct {
	NodeID  string
	Network string
	Moniker string
	// CatchingUp false does not mean at the tip: a node can fall behind without
	// limit with it false, and with one peer it stays true for ever. See LagStatus.
	CatchingUp          bool
	LatestBlockHeight   int64
	LatestBlockHash     string
	LatestBlockTime     time.Time
	EarliestBlockHeight int64
	MaxPeerBlockHeight  int64
	// ValidatorAddress is that of the key a validator signs with. On a full node it is
	// that of a key of zeros, not of its own: it says nothing about who the node is.
	ValidatorAddress string
}

// Status asks /status.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var body struct {
		NodeInfo *struct {
			ID      *string `json:"id"`
			Network *string `json:"network"`
			Moniker string  `json:"moniker"`
		} `json:"node_info"`
		SyncInfo *struct {
			LatestBlockHeight   *wireInt  `json:"latest_block_height"`
			LatestBlockHash     string    `json:"latest_block_hash"`
			LatestBlockTime     time.Time `json:"latest_block_time"`
			EarliestBlockHeight wireInt   `json:"earliest_block_height"`
			MaxPeerBlockHeight  wireInt   `json:"max_peer_block_height"`
			CatchingUp          *bool     `json:"catching_up"`
		} `json:"sync_info"`
		ValidatorInfo struct {
			Address string `json:"address"`
		} `json:"validator_info"`
	}
	if _, err := c.get(ctx, "/status", nil, &body); err != nil {
		return Status{}, err
	}
	node, sync := body.NodeInfo, body.SyncInfo
	if node == nil || sync == nil || empty(node.ID) || empty(node.Network) || sync.LatestBlockHeight == nil || sync.CatchingUp == nil {
		return Status{}, c.incomplete("/status", "node_info.id, node_info.network, sync_info.latest_block_height, sync_info.catching_up")
	}
	return Status{
		NodeID: *node.ID, Network: *node.Network, Moniker: node.Moniker,
		CatchingUp:          *sync.CatchingUp,
		LatestBlockHeight:   int64(*sync.LatestBlockHeight),
		LatestBlockHash:     sync.LatestBlockHash,
		LatestBlockTime:     sync.LatestBlockTime,
		EarliestBlockHeight: int64(sync.EarliestBlockHeight),
		MaxPeerBlockHeight:  int64(sync.MaxPeerBlockHeight),
		ValidatorAddress:    body.ValidatorInfo.Address,
	}, nil
}

// LagStatus is how far the node is behind the highest peer it knows.
type LagStatus struct {
	CurrentHeight int64
	// MaxPeerHeight is 0 while no peer has told its height, which is so in the
	// first second of every start: no lag is then no proof of being at the tip.
	MaxPeerHeight int64
	Lag           int64
	// Lagging says that seid itself considers the lag too large.
	Lagging bool
}

// LagStatus asks /lag_status. That the node lags is an answer, not an error.
func (c *Client) LagStatus(ctx context.Context) (LagStatus, error) {
	var body struct {
		CurrentHeight *wireInt `json:"current_height"`
		MaxPeerHeight *wireInt `json:"max_peer_height"`
		Lag           *wireInt `json:"lag"`
	}
	code, err := c.get(ctx, "/lag_status", nil, &body)
	if err != nil {
		return LagStatus{}, err
	}
	if body.CurrentHeight == nil || body.MaxPeerHeight == nil || body.Lag == nil {
		return LagStatus{}, c.incomplete("/lag_status", "current_height, max_peer_height, lag")
	}
	return LagStatus{
		CurrentHeight: int64(*body.CurrentHeight),
		MaxPeerHeight: int64(*body.MaxPeerHeight),
		Lag:           int64(*body.Lag),
		Lagging:       code == http.StatusExpectationFailed,
	}, nil
}

// NetInfo is what the node knows of its peers.
type NetInfo struct {
	Listening bool
	// Known is the number of addresses the node knows, whether or not anybody
	// answers there.
	Known int
	// Connected are the ids of the nodes it is connected to and exchanges messages with.
	Connected []string
}

// NetInfo asks /net_info.
func (c *Client) NetInfo(ctx context.Context) (NetInfo, error) {
	var body struct {
		Listening   *bool    `json:"listening"`
		Known       *wireInt `json:"n_peers"`
		Connections []struct {
			NodeID string `json:"node_id"`
			State  string `json:"state"`
		} `json:"peer_connections"`
	}
	if _, err := c.get(ctx, "/net_info", nil, &body); err != nil {
		return NetInfo{}, err
	}
	if body.Listening == nil || body.Known == nil {
		return NetInfo{}, c.incomplete("/net_info", "listening, n_peers")
	}
	info := NetInfo{Listening: *body.Listening, Known: int(*body.Known)}
	for _, connection := range body.Connections {
		// The state is a list. One that is not ready is still being introduced.
		state := strings.Split(connection.State, ",")
		if slices.Contains(state, "connected") && slices.Contains(state, "ready") {
			info.Connected = append(info.Connected, connection.NodeID)
		}
	}
	return info, nil
}

// ValidatorSet is who signs the next block.
type ValidatorSet struct {
	Total int64
	// Addresses are those of the first of them.
	Addresses []string
}

// Validators asks /validators.
func (c *Client) Validators(ctx context.Context) (ValidatorSet, error) {
	var body struct {
		Total      *wireInt `json:"total"`
		Validators []struct {
			Address string `json:"address"`
		} `json:"validators"`
	}
	if _, err := c.get(ctx, "/validators", nil, &body); err != nil {
		return ValidatorSet{}, err
	}
	if body.Total == nil {
		return ValidatorSet{}, c.incomplete("/validators", "total")
	}
	set := ValidatorSet{Total: int64(*body.Total)}
	for _, validator := range body.Validators {
		set.Addresses = append(set.Addresses, validator.Address)
	}
	return set, nil
}

// BlockHash asks /block for the hash of the block at a height: 64 upper-case
// hexadecimal digits.
func (c *Client) BlockHash(ctx context.Context, height int64) (string, error) {
	if height < 1 {
		return "", fmt.Errorf("there is no block at height %d", height)
	}
	var body struct {
		BlockID *struct {
			Hash string `json:"hash"`
		} `json:"block_id"`
		Block *struct {
			Header struct {
				Height wireInt `json:"height"`
			} `json:"header"`
		} `json:"block"`
	}
	query := url.Values{"height": {strconv.FormatInt(height, 10)}}
	if _, err := c.get(ctx, "/block", query, &body); err != nil {
		return "", err
	}
	if body.BlockID == nil || body.Block == nil {
		return "", c.incomplete("/block", "block_id, block")
	}
	// The hash becomes the root of trust of a state sync.
	if got := int64(body.Block.Header.Height); got != height {
		return "", fmt.Errorf("%s answered with block %d instead of %d", c.base.Host, got, height)
	}
	if raw, err := hex.DecodeString(body.BlockID.Hash); err != nil || len(raw) != 32 {
		return "", fmt.Errorf("%s answered with %q for the hash of block %d, which is none", c.base.Host, body.BlockID.Hash, height)
	}
	return strings.ToUpper(body.BlockID.Hash), nil
}

// ErrIncomplete is an answer without the fields it must have. Without this check
// an error in an unknown shape would read as a node at height 0.
var ErrIncomplete = errors.New("the answer is not what seid answers")

func (c *Client) incomplete(path, fields string) error {
	return fmt.Errorf("%s%s: %w: it must have %s", c.base.Host, path, ErrIncomplete, fields)
}

func empty(text *string) bool { return text == nil || *text == "" }
