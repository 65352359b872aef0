package signer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/readiness"
)

const (
	// patience bounds all questions together: a start waits for them.
	patience = 3 * time.Second
	// maxWitnesses is how many are asked. One honest one among them is enough.
	maxWitnesses = 8
)

// witnessed is the highest height at which a witness has a signature of this key; 0:
// none has. It tells whether any answered: a network that is not up yet says nothing. A signature is a proof, whoever shows it, and all else
// that a witness says is not listened to: a liar must not keep a validator down.
func (s *Signer) witnessed(ctx context.Context, key string, witnesses []string) (height int64, answered bool) {
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
			commit, err := client.Commit(ctx)
			answers[i] = err == nil
			if err == nil && commit.Signed(chain, key) {
				heights[i] = commit.Height
			}
		})
	}
	asking.Wait()
	return slices.Max(heights), slices.Contains(answers, true)
}
