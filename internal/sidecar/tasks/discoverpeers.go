package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// DiscoverPeers writes the peers that somebody else has found. A seid that runs
// reads them when it is restarted, and a changed set is no reason to do that.
type DiscoverPeers struct {
	// Peers are of the form nodeId@host:port. None is a set, too.
	Peers []string `json:"peers"`
}

// Validate refuses what would keep seid from starting.
func (p *DiscoverPeers) Validate() error {
	if p.Peers == nil {
		return errors.New("peers is missing")
	}
	if len(p.Peers) > maxEntries {
		return fmt.Errorf("peers has more than %d entries", maxEntries)
	}
	for _, peer := range p.Peers {
		if err := bounded("a peer", peer, maxShort); err != nil {
			return err
		}
	}
	// The rules for peers are those of the document, whatever else is in it.
	_, err := seid.Desired(seid.Intent{ChainID: "any", Mode: seid.ModeFullNode, Peers: p.Peers})
	return err
}

// DiscoverPeersResult tells how many peers there are now.
type DiscoverPeersResult struct {
	Changed bool `json:"changed"`
	Count   int  `json:"count"`
}

func (t *tasks) discoverPeers(_ context.Context, _ engine.Execution, p DiscoverPeers) (any, error) {
	var peers []string
	for _, peer := range p.Peers {
		if !slices.Contains(peers, peer) {
			peers = append(peers, peer)
		}
	}
	done, err := t.edit(seid.Changes{
		{File: seid.ConfigTOML, Path: "p2p.persistent-peers"}: strings.Join(peers, ","),
	})
	if err != nil {
		return nil, err
	}
	return DiscoverPeersResult{Changed: len(done) > 0, Count: len(peers)}, nil
}
