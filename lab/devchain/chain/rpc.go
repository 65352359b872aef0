package chain

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sei-operator/sei-operator/lab/devchain/app"
)

// client asks nodes. An answer that takes this long is none.
var client = &http.Client{Timeout: 10 * time.Second}

// Get asks a node by GET, and decodes the bare answer. The status of HTTP is told,
// because seid means something by it.
func (n *Node) Get(ctx context.Context, path string, query url.Values, result any) (int, error) {
	target := n.RPC() + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	var refused struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    string `json:"data"`
	}
	if json.Unmarshal(body, &refused) == nil && refused.Message != "" {
		return response.StatusCode, fmt.Errorf("%s%s: %s: %s", n.Name, path, refused.Message, refused.Data)
	}
	if err := json.Unmarshal(body, result); err != nil {
		return response.StatusCode, fmt.Errorf("%s%s answered %.200q: %w", n.Name, path, body, err)
	}
	return response.StatusCode, nil
}

// Status is the part of /status that matters here.
type Status struct {
	Height     int64
	Earliest   int64
	MaxPeer    int64
	CatchingUp bool
}

// Status asks for it.
func (n *Node) Status(ctx context.Context) (Status, error) {
	var body struct {
		Sync struct {
			Height     int64 `json:"latest_block_height,string"`
			Earliest   int64 `json:"earliest_block_height,string"`
			MaxPeer    int64 `json:"max_peer_block_height,string"`
			CatchingUp bool  `json:"catching_up"`
		} `json:"sync_info"`
	}
	_, err := n.Get(ctx, "/status", nil, &body)
	return Status(body.Sync), err
}

// AppHash is the hash of the application's state, and the height of that state.
func (n *Node) AppHash(ctx context.Context) (int64, string, error) {
	var body struct {
		Response struct {
			Height int64  `json:"last_block_height,string"`
			Hash   []byte `json:"last_block_app_hash"`
		} `json:"response"`
	}
	_, err := n.Get(ctx, "/abci_info", nil, &body)
	return body.Response.Height, fmt.Sprintf("%X", body.Response.Hash), err
}

// Version is that of the binary that runs.
func (n *Node) Version(ctx context.Context) (string, error) {
	var body struct {
		Response struct {
			Version string `json:"version"`
		} `json:"response"`
	}
	_, err := n.Get(ctx, "/abci_info", nil, &body)
	return body.Response.Version, err
}

// Send puts a transaction into the node's mempool.
func (n *Node) Send(ctx context.Context, tx []byte) error {
	var answer struct {
		Code int    `json:"code"`
		Log  string `json:"log"`
	}
	if _, err := n.Get(ctx, "/broadcast_tx_sync", txQuery(tx), &answer); err != nil {
		return err
	}
	if answer.Code != 0 {
		return errors.New(answer.Log)
	}
	return nil
}

func txQuery(tx []byte) url.Values { return url.Values{"tx": {"0x" + hex.EncodeToString(tx)}} }

// Schedule schedules an upgrade and returns when the chain has the plan. A node
// without an index, as validators are, cannot tell what became of a transaction, so
// it is asked for the plan.
func (n *Node) Schedule(ctx context.Context, plan app.Plan) error {
	tx, err := app.PlanTx(plan)
	if err != nil {
		return err
	}
	if err := n.Send(ctx, tx); err != nil {
		return err
	}
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		height, there, err := n.plan(ctx)
		switch {
		case err != nil:
			return err
		case there == plan:
			return nil
		case height >= plan.Height:
			return fmt.Errorf("the chain is at height %d and took no plan for %d", height, plan.Height)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// plan is the upgrade that is scheduled, and the height at which that was so.
func (n *Node) plan(ctx context.Context) (int64, app.Plan, error) {
	var body struct {
		Response struct {
			Value  []byte `json:"value"`
			Height int64  `json:"height,string"`
		} `json:"response"`
	}
	query := url.Values{"data": {"0x" + hex.EncodeToString([]byte(app.PlanKey))}}
	if _, err := n.Get(ctx, "/abci_query", query, &body); err != nil {
		return 0, app.Plan{}, err
	}
	plan := app.Plan{}
	if len(body.Response.Value) == 0 {
		return body.Response.Height, plan, nil
	}
	return body.Response.Height, plan, json.Unmarshal(body.Response.Value, &plan)
}

// Block is the part of a block that is recorded.
type Block struct {
	Height   int64
	Time     time.Time
	Hash     string
	AppHash  string // of the state before this block
	Proposer string
	Txs      int
	Evidence int
	// Signed are the addresses of those that signed the block before.
	Signed []string
}

// Block asks for one.
func (n *Node) Block(ctx context.Context, height int64) (Block, error) {
	var body struct {
		ID struct {
			Hash string `json:"hash"`
		} `json:"block_id"`
		Block *struct {
			Header struct {
				Height   int64     `json:"height,string"`
				Time     time.Time `json:"time"`
				AppHash  string    `json:"app_hash"`
				Proposer string    `json:"proposer_address"`
			} `json:"header"`
			Data struct {
				Txs []json.RawMessage `json:"txs"`
			} `json:"data"`
			Evidence   []json.RawMessage `json:"evidence"`
			LastCommit struct {
				Signatures []struct {
					Flag    int    `json:"block_id_flag"`
					Address string `json:"validator_address"`
				} `json:"signatures"`
			} `json:"last_commit"`
		} `json:"block"`
	}
	if _, err := n.Get(ctx, "/block", url.Values{"height": {strconv.FormatInt(height, 10)}}, &body); err != nil {
		return Block{}, err
	}
	if body.Block == nil {
		return Block{}, fmt.Errorf("%s has no block %d", n.Name, height)
	}
	block := Block{
		Height: body.Block.Header.Height, Time: body.Block.Header.Time, Hash: body.ID.Hash,
		AppHash: body.Block.Header.AppHash, Proposer: body.Block.Header.Proposer,
		Txs: len(body.Block.Data.Txs), Evidence: len(body.Block.Evidence),
	}
	const forBlock = 2
	for _, signature := range body.Block.LastCommit.Signatures {
		if signature.Flag == forBlock {
			block.Signed = append(block.Signed, signature.Address)
		}
	}
	return block, nil
}
