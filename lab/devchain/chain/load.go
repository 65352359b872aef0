package chain

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sei-operator/sei-operator/lab/devchain/app"
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

// StartLoad begins to send. Nodes that do not answer are passed over. They are asked for
// anew each time, so some may come and go.
func StartLoad(ctx context.Context, nodes func() []*Node, perSecond int) *Load {
	ctx, cancel := context.WithCancel(ctx)
	load := &Load{cancel: cancel}
	var number atomic.Int64
	// Some at once, so that a node that is slow to answer does not slow the others.
	const senders = 4
	for range senders {
		load.work.Go(func() {
			ticker := time.NewTicker(time.Second * senders / time.Duration(max(1, perSecond)))
			defer ticker.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				to := nodes()
				if len(to) == 0 {
					continue
				}
				n := number.Add(1)
				tx := app.SetTx(fmt.Sprintf("load/%d", n%loadKeys), fmt.Sprintf("%d at %d", n, time.Now().UnixNano()))
				if to[int(n)%len(to)].Send(ctx, tx) == nil {
					load.accepted.Add(1)
				} else {
					load.refused.Add(1)
				}
			}
		})
	}
	return load
}

// Accepted is how many transactions were taken by a node so far, Refused how many
// were not.
func (l *Load) Accepted() int64 { return l.accepted.Load() }

// Refused is how many transactions no node took.
func (l *Load) Refused() int64 { return l.refused.Load() }

// Stop ends the load.
func (l *Load) Stop() {
	l.cancel()
	l.work.Wait()
}
