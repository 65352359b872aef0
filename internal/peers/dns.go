package peers

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/seid"
)

const (
	rpcPort = "26657"
	// maxBehindName is how many addresses of one name are asked. A name is under
	// somebody else's control, and each address costs a connection.
	maxBehindName = 256
)

// New makes a resolver that asks the network.
func New() *Resolver {
	client := &http.Client{
		Transport: &http.Transport{
			DialContext:        (&net.Dialer{Timeout: defaultTimeout}).DialContext,
			DisableKeepAlives:  true, // each node is asked once in a long time
			DisableCompression: true,
		},
		// An address that a name led to must not lead the operator anywhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Resolver{
		LookupHost: net.DefaultResolver.LookupHost,
		NodeID: func(ctx context.Context, hostport string) (string, error) {
			rpc, err := seid.NewClient(client, "http://"+hostport)
			if err != nil {
				return "", err
			}
			status, err := rpc.Status(ctx)
			return status.NodeID, err
		},
	}
}

// fromDNS takes every node behind a name as a peer.
func (r *Resolver) fromDNS(ctx context.Context, source v1alpha1.DNSPeers, before map[string][]string) given {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.Timeout, defaultTimeout))
	defer cancel()
	behind, err := r.LookupHost(ctx, source.Name)
	if err != nil || len(behind) == 0 {
		return given{failed: true, problem: fmt.Sprintf("The DNS name %s of a peer source has no address now; the peers known before stay.", source.Name)}
	}
	behind = slices.Compact(slices.Sorted(slices.Values(behind)))
	behind = behind[:min(len(behind), maxBehindName)]

	port := strconv.Itoa(int(cmp.Or(source.Port, defaultP2PPort)))
	ids := make([]string, len(behind))
	var asking sync.WaitGroup
	for i, address := range behind {
		asking.Go(func() {
			if id, err := r.NodeID(ctx, net.JoinHostPort(address, rpcPort)); err == nil && isNodeID(id) {
				ids[i] = id
			}
		})
	}
	asking.Wait()

	var result given
	for i, address := range behind {
		at := net.JoinHostPort(address, port)
		if ids[i] != "" {
			result.addresses = append(result.addresses, ids[i]+"@"+at)
			continue
		}
		result.addresses = append(result.addresses, before[at]...)
		result.problem = fmt.Sprintf("Not every node behind the DNS name %s of a peer source tells its node id at port %s; the others are used.", source.Name, rpcPort)
	}
	return result
}
