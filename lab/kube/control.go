package kube

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// obey takes orders on a socket in the cluster's directory, one per connection, for as
// long as the cluster runs. The one there is, "restart NAME", kills a daemon and starts
// it again: a daemon that ends otherwise is the end of the cluster. The answer is "ok",
// or what is wrong.
func (c *Cluster) obey(ctx context.Context) (stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", c.paths.control())
	if err != nil {
		return nil, fmt.Errorf("cannot take orders: %w", err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return // We are ending.
			}
			// Whoever says nothing must not keep others, or the end of the cluster, waiting.
			_ = connection.SetReadDeadline(time.Now().Add(orderTimeout))
			fmt.Fprintln(connection, c.order(connection))
			connection.Close()
		}
	})
	return func() {
		listener.Close()
		serving.Wait()
	}, nil
}

// orderTimeout is how long somebody may take to say what is wanted.
const orderTimeout = 5 * time.Second

func (c *Cluster) order(connection net.Conn) string {
	line, err := bufio.NewReader(connection).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	name, ok := strings.CutPrefix(strings.TrimSpace(line), "restart ")
	if !ok {
		return "the only order is: restart NAME"
	}
	if err := c.group.Restart(name); err != nil {
		return err.Error()
	}
	return "ok"
}
