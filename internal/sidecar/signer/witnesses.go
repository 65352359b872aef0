package signer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/readiness"
	"github.com/sei-operator/sei-operator/internal/signing"
)

const (
	// patience bounds all questions together: a start waits for them.
	patience = 3 * time.Second
	// maxWitnesses is how many are asked. One honest one among them is enough.
	maxWitnesses = 8
	// recentCommits is for how many of the latest commits each is asked: those that
	// seid's own guard would look through. A validator that signs elsewhere misses a
	// block now and then, many while it is restarted, and the latest commit of a node may
	// lack votes that come late.
	recentCommits = signing.Window
)

// witnessed is the highest height at which a witness has a signature of this key; 0:
// none has one above signed, the height of the sign state. It tells whether any answered:
// a network that is not up yet says nothing. A signature is a proof, whoever shows it,
// and all else that a witness says is not listened to: a liar must not keep a validator
// down.
func (s *Signer) witnessed(ctx context.Context, key string, signed int64, witnesses []string) (height int64, answered bool) {
	chain := ""
	if s.opts.ChainID != nil {
		chain = s.opts.ChainID()
	}
	witnesses = append(slices.Clone(witnesses), readiness.Witnesses(s.opts.Home)...)
	if chain == "" || len(witnesses) == 0 {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	heights := make([]int64, min(len(witnesses), maxWitnesses))
	answers := make([]bool, len(heights))
	var asking sync.WaitGroup
	for i := range heights {
		asking.Go(func() {
			client, err := seid.NewClient(s.opts.HTTP, witnesses[i])
			if err != nil {
				return
			}
			heights[i], answers[i] = lastSigned(ctx, client, chain, key, signed)
		})
	}
	asking.Wait()
	return slices.Max(heights), slices.Contains(answers, true)
}

// lastSigned looks through the latest commits of one witness, from the newest down to
// what the sign state knows, for a signature of the key. It has answered only if it
// gave each commit that it was asked for.
func lastSigned(ctx context.Context, client *seid.Client, chain, key string, signed int64) (height int64, answered bool) {
	for ask, asked := int64(0), 0; asked < recentCommits; asked++ {
		commit, err := client.Commit(ctx, ask)
		switch {
		case err != nil:
			return 0, false
		case commit.Signed(chain, key):
			return commit.Height, true
		case asked == 0:
			ask = commit.Height
		}
		if ask--; ask <= max(signed, 0) {
			return 0, true
		}
	}
	return 0, true
}
