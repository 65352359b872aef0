package kube

import (
	"context"
	"errors"
	"fmt"

	"github.com/sei-operator/sei-operator/lab/build"
)

// Run runs a cluster until the context is done or one of its daemons dies.
func Run(ctx context.Context, dir string, binaries *build.ControlPlane, ready func(Info) error, options Options) error {
	c, err := Start(ctx, dir, binaries, options)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("the cluster was ended before it was ready: %w", context.Cause(ctx))
		}
		return fmt.Errorf("the cluster did not start: %w", err)
	}
	stopListening, err := c.obey(ctx)
	if err != nil {
		return errors.Join(err, c.Stop())
	}
	defer stopListening()
	if err := ready(c.Info); err != nil {
		return errors.Join(err, c.Stop())
	}
	select {
	case <-ctx.Done():
		return c.Stop()
	case dead := <-c.Exited():
		return errors.Join(dead.Err(), c.Stop())
	}
}
