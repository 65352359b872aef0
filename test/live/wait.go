package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/test/cluster"
)

// patience is how long anything is waited for. It is far more than anything takes.
const patience = 3 * time.Minute

// again is how soon something is asked anew that cannot be watched.
const again = 50 * time.Millisecond

// Until waits for an object to be as wanted, by a watch. An API server that does not
// answer is waited for: stories end it too.
func Until[T client.Object](ctx context.Context, c *Cluster, key types.NamespacedName, what string, ok func(T) bool) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last T
	err := Poll(ctx, what, func() (bool, error) {
		var err error
		last, err = cluster.Until(ctx, c.Client, key, what, ok)
		return err == nil, err
	})
	return last, err
}

// Poll asks until the answer is yes, where there is nothing to watch.
func Poll(ctx context.Context, what string, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(again)
	defer ticker.Stop()
	for {
		yes, err := ask()
		switch {
		case yes:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("waited for %s: %w", what, errors.Join(err, context.Cause(ctx)))
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}
