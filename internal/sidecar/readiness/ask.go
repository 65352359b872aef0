package readiness

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/seid/toml"
)

const (
	// maxWitnesses is how many are asked.
	maxWitnesses = 8
	// witnessPatience is how long a witness has to answer before it counts as out of reach.
	witnessPatience = 1500 * time.Millisecond
)

// Ask asks a node once, and others only when its last block is old. The node is asked
// again after them: what it got meanwhile it is not behind with.
func Ask(ctx context.Context, rpc *seid.Client, witnesses func(ctx context.Context, network string) int64, now func() time.Time) (Facts, error) {
	status, err := rpc.Status(ctx)
	if err != nil {
		return Facts{}, err
	}
	lag, err := rpc.LagStatus(ctx)
	if err != nil {
		return Facts{}, err
	}
	net, err := rpc.NetInfo(ctx)
	if err != nil {
		return Facts{}, err
	}
	facts := Of(status, lag, net, now())
	if facts.MayBeSole() {
		facts.Sole = Sole(ctx, rpc, status)
	}
	if !facts.Old() {
		return facts, nil
	}
	facts.Witness = witnesses(ctx, status.Network)
	again, err := rpc.Status(ctx)
	if err != nil {
		return Facts{}, err
	}
	facts.Moves = again.LatestBlockHeight > facts.Height
	facts.Height, facts.BlockAge = again.LatestBlockHeight, age(again, now())
	return facts, nil
}

// Of puts together what a node says of itself.
func Of(status seid.Status, lag seid.LagStatus, net seid.NetInfo, now time.Time) Facts {
	return Facts{
		Height: status.LatestBlockHeight, BlockAge: age(status, now),
		Lagging: lag.Lagging, Peer: lag.MaxPeerHeight,
		Connected: len(net.Connected), Known: net.Known,
	}
}

func age(status seid.Status, now time.Time) time.Duration {
	if status.LatestBlockHeight < 1 {
		return 0
	}
	return max(0, now.Sub(status.LatestBlockTime))
}

// Sole tells whether a node is the only validator of its chain. A node that is none has
// the address of a key of zeros, which is in no set.
func Sole(ctx context.Context, rpc *seid.Client, status seid.Status) bool {
	set, err := rpc.Validators(ctx)
	return err == nil && set.Total == 1 && len(set.Addresses) == 1 && set.Addresses[0] != "" && set.Addresses[0] == status.ValidatorAddress
}

// IsSeed tells whether seid's configuration makes the node a seed, which answers nothing.
func IsSeed(home seid.Home) bool { return configured(home, "mode") == "seed" }

// configured is a text in seid's configuration; empty: it is not there.
func configured(home seid.Home, path ...string) string {
	text, err := os.ReadFile(home.File(seid.ConfigTOML))
	if err != nil {
		return ""
	}
	doc, err := toml.Decode(text)
	if err != nil {
		return ""
	}
	value, _ := toml.Lookup(doc, path)
	found, _ := value.(string)
	return found
}

// Witnesses are the RPC servers that seid's configuration names for a state sync: others
// of the same chain that a person chose.
func Witnesses(home seid.Home) []string {
	var servers []string
	for server := range strings.SplitSeq(configured(home, "statesync", "rpc-servers"), ",") {
		if server = strings.TrimSpace(server); server == "" || len(servers) == maxWitnesses {
			continue
		}
		if !strings.Contains(server, "://") {
			server = "http://" + server // as seid does
		}
		servers = append(servers, server)
	}
	return servers
}

// Highest asks witnesses, all at once, and is the highest block that one of them has; 0:
// none of them answers, or none is of this chain.
func Highest(ctx context.Context, client *http.Client, servers []string, network string) int64 {
	ctx, cancel := context.WithTimeout(ctx, witnessPatience)
	defer cancel()
	heights := make([]int64, len(servers))
	var asking sync.WaitGroup
	for i, server := range servers {
		asking.Go(func() {
			rpc, err := seid.NewClient(client, server)
			if err != nil {
				return
			}
			if status, err := rpc.Status(ctx); err == nil && status.Network == network {
				heights[i] = status.LatestBlockHeight
			}
		})
	}
	asking.Wait()
	var highest int64
	for _, height := range heights {
		highest = max(highest, height)
	}
	return highest
}
