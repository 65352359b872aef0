package tasks

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

const (
	// witnessPatience is how long one answer of a server may take.
	witnessPatience = 10 * time.Second
	// trustDistance is how far below the tip the trusted block is: a server behind
	// the others has it too, and a snapshot is above it.
	trustDistance = 2000
)

// trusted is a block on which servers agree.
type trusted struct {
	height  int64
	hash    string
	servers []string
	// left are servers that did not answer, and why.
	left []string
}

// witness is a server and what it said.
type witness struct {
	url    string
	client *seid.Client
	status seid.Status
	hash   string
	err    error
}

// agreeOnBlock finds a block to trust. It takes every server that answers, and one
// that contradicts the others is reason enough to trust none of them: nobody here
// can tell who is right.
func (t *tasks) agreeOnBlock(ctx context.Context, servers []string, chainID string) (trusted, error) {
	witnesses := make([]*witness, len(servers))
	for i, server := range servers {
		client, err := seid.NewClient(t.HTTP, server)
		if err != nil {
			return trusted{}, engine.Terminal(ReasonInvalidConfiguration, "%w", err)
		}
		witnesses[i] = &witness{url: server, client: client}
	}
	out := trusted{}
	live, err := t.ask(ctx, &out, witnesses, func(ctx context.Context, w *witness) error {
		var err error
		if w.status, err = w.client.Status(ctx); err == nil && w.status.LatestBlockHeight < 1 {
			err = fmt.Errorf("it has no blocks yet")
		}
		return err
	})
	if err != nil {
		return trusted{}, err
	}
	if out.height, err = commonHeight(live, chainID); err != nil {
		return trusted{}, err
	}
	live, err = t.ask(ctx, &out, live, func(ctx context.Context, w *witness) (err error) {
		w.hash, err = w.client.BlockHash(ctx, out.height)
		return err
	})
	if err != nil {
		return trusted{}, err
	}
	out.hash = live[0].hash
	agree := true
	var said []string
	for _, w := range live {
		agree = agree && w.hash == out.hash
		said = append(said, w.url+" says "+w.hash)
		out.servers = append(out.servers, w.url)
	}
	if !agree {
		return trusted{}, engine.Terminal(ReasonWitnessesDisagree, "the RPC servers have different blocks at height %d, so none of them is trusted: %s", out.height, strings.Join(said, ", "))
	}
	return out, nil
}

// ask asks all at once and returns those that answered, at least two.
func (t *tasks) ask(ctx context.Context, out *trusted, witnesses []*witness, question func(context.Context, *witness) error) ([]*witness, error) {
	var asking sync.WaitGroup
	for _, w := range witnesses {
		asking.Go(func() {
			limited, cancel := within(ctx, t.Clock, witnessPatience)
			defer cancel()
			if w.err = question(limited, w); w.err != nil && limited.Err() != nil {
				w.err = context.Cause(limited)
			}
		})
	}
	asking.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var live []*witness
	for _, w := range witnesses {
		if w.err != nil {
			out.left = append(out.left, fmt.Sprintf("%s: %s", w.url, shortened(w.err.Error())))
			continue
		}
		live = append(live, w)
	}
	if len(live) < 2 {
		return nil, engine.Retryable(ReasonTooFewWitnesses, "%d of the RPC servers can be used, and state sync needs two; these cannot: %s", len(live), strings.Join(out.left, "; "))
	}
	return live, nil
}

// commonHeight is the height of a block that all of them have.
func commonHeight(witnesses []*witness, chainID string) (int64, error) {
	lowest, earliest := witnesses[0], witnesses[0]
	for _, w := range witnesses {
		if chainID != "" && w.status.Network != chainID {
			return 0, engine.Terminal(ReasonChainIDMismatch, "the RPC server %s belongs to chain %q, this node to %q", w.url, w.status.Network, chainID)
		}
		if w.status.LatestBlockHeight < lowest.status.LatestBlockHeight {
			lowest = w
		}
		if w.status.EarliestBlockHeight > earliest.status.EarliestBlockHeight {
			earliest = w
		}
	}
	height := max(1, lowest.status.LatestBlockHeight-trustDistance, earliest.status.EarliestBlockHeight)
	if height > lowest.status.LatestBlockHeight {
		return 0, engine.Retryable(ReasonNoCommonBlock, "the RPC server %s is at height %d, and %s has no blocks below %d", lowest.url, lowest.status.LatestBlockHeight, earliest.url, earliest.status.EarliestBlockHeight)
	}
	return height, nil
}
