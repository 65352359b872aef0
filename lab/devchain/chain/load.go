package chain

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sei-operator/sei-operator/lab/devchain/app"
	"github.com/sei-operator/sei-operator/lab/devchain/home"
)

// loadKeys is how many keys the load writes to, so that the state does not grow for
// ever.
const loadKeys = 2000

// Load sends transactions at a rate, to all nodes in turn.
type Load struct {
	accepted, refused atomic.Int64
	work              sync.WaitGroup
	cancel            context.CancelFunc
}

// sendTimeout bounds one question: what a node that hangs does not take, the next one
// gets.
const sendTimeout = time.Second

// StartLoad begins to send, unless the rate is zero. The nodes are asked for anew each
// time, so some may come and go.
func StartLoad(ctx context.Context, nodes func() []*Node, perSecond int) *Load {
	ctx, cancel := context.WithCancel(ctx)
	load := &Load{cancel: cancel}
	if perSecond <= 0 {
		return load
	}
	var number atomic.Int64
	// Some at once, so that a node that is slow to answer does not slow the others.
	const senders = 4
	for range senders {
		load.work.Go(func() {
			ticker := time.NewTicker(time.Second * senders / time.Duration(perSecond))
			defer ticker.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				n := number.Add(1)
				tx := app.SetTx(fmt.Sprintf("load/%d", n%loadKeys), fmt.Sprintf("%d at %d", n, time.Now().UnixNano()))
				switch err := send(ctx, inTurn(nodes(), int(n)), tx); {
				case err == nil:
					load.accepted.Add(1)
				case ctx.Err() == nil:
					load.refused.Add(1)
				}
			}
		})
	}
	return load
}

// inTurn is the nodes that take transactions, which seeds do not, another one first each
// time.
func inTurn(nodes []*Node, n int) []*Node {
	takers := slices.DeleteFunc(slices.Clone(nodes), func(node *Node) bool { return node.Mode == home.Seed })
	if len(takers) == 0 {
		return nil
	}
	first := n % len(takers)
	return slices.Concat(takers[first:], takers[:first])
}

// send gives a transaction to the first node that answers. What that one refuses is
// refused.
func send(ctx context.Context, nodes []*Node, tx []byte) error {
	err := errors.New("there is no node to send to")
	for _, node := range nodes {
		bounded, cancel := context.WithTimeout(ctx, sendTimeout)
		err = node.Send(bounded, tx)
		cancel()
		if _, silent := errors.AsType[*url.Error](err); !silent {
			return err
		}
	}
	return err
}

// Accepted is how many transactions were taken by a node so far.
func (l *Load) Accepted() int64 { return l.accepted.Load() }

// Refused is how many transactions no node took.
func (l *Load) Refused() int64 { return l.refused.Load() }

// Stop ends the load.
func (l *Load) Stop() {
	l.cancel()
	l.work.Wait()
}
