package tasks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sei-operator/sei-operator/internal/seid"
)

// checkPeers refuses what would keep seid from starting.
func checkPeers(peers []string) error {
	if len(peers) > maxEntries {
		return fmt.Errorf("peers has more than %d entries", maxEntries)
	}
	for _, peer := range peers {
		if err := bounded("a peer", peer, maxShort); err != nil {
			return err
		}
	}
	// The rules for peers are those of the document, whatever else is in it.
	_, err := seid.Desired(seid.Intent{ChainID: "any", Mode: seid.ModeFullNode, Peers: peers})
	return err
}

// PeersResult tells how many peers there are now.
type PeersResult struct {
	Changed bool `json:"changed"`
	Count   int  `json:"count"`
}

func (t *tasks) writePeers(found []string) (any, error) {
	var peers []string
	for _, peer := range found {
		if !slices.Contains(peers, peer) {
			peers = append(peers, peer)
		}
	}
	done, err := t.edit(seid.Changes{seid.PersistentPeers: strings.Join(peers, ",")})
	if err != nil {
		return nil, err
	}
	return PeersResult{Changed: len(done) > 0, Count: len(peers)}, nil
}
