// Package probe answers the questions a kubelet asks: whether the sidecar lives, whether
// the node is ready, and, before a container is asked to end, whether it can be. What it
// asks listens on loopback, so the probes run inside the containers. An error is one line,
// for an event.
package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/loopback"
)

// Endpoints are where a node listens, as host:port.
type Endpoints struct {
	RPC, P2P string
}

// newClient makes a client that keeps no connection: a probe is a process of its own.
func newClient(config *tls.Config) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: config},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Live asks whether the sidecar at an address lives. With access control, loopbackDir is
// where the certificates are that it wants to see.
func Live(ctx context.Context, addr, loopbackDir string) error {
	scheme, client := "http://", newClient(nil)
	if loopbackDir != "" {
		config, err := loopback.ClientConfig(loopbackDir)
		if err != nil {
			return err
		}
		scheme, client = "https://", newClient(config)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+addr+"/v0/livez", http.NoBody)
	if err != nil {
		return fmt.Errorf("the address of the sidecar is not valid: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("the sidecar does not answer: %w", err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 4<<10))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the sidecar answers HTTP %d", response.StatusCode)
	}
	return nil
}

// Ready asks whether a node serves: whether it is not too far behind its peers or,
// of a seed, which answers nothing else, whether its p2p port is open.
func Ready(ctx context.Context, mode seid.Mode, endpoints Endpoints) error {
	if mode == seid.ModeSeed {
		return connect(ctx, endpoints.P2P)
	}
	rpc, err := seid.NewClient(newClient(nil), "http://"+endpoints.RPC)
	if err != nil {
		return err
	}
	status, err := rpc.LagStatus(ctx)
	if err != nil {
		return fmt.Errorf("the node is not ready: %w", err)
	}
	if status.Lagging {
		return fmt.Errorf("the node is not ready: at height %d it is %d blocks behind", status.CurrentHeight, status.Lag)
	}
	return nil
}

func connect(ctx context.Context, addr string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("the seed is not ready: %w", err)
	}
	return conn.Close()
}
