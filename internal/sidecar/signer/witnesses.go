package signer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/egress"
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
	defer s.opts.HTTP.CloseIdleConnections()
	heights := make([]int64, min(len(witnesses), maxWitnesses))
	answers := make([]bool, len(heights))
	var asking sync.WaitGroup
	for i := range heights {
		asking.Go(func() {
			client, err := seid.NewClient(s.opts.HTTP, witnesses[i])
			if err != nil {
				return
			}
			search := survey{client: client, chain: chain, key: key}
			if heights[i], err = search.lastSigned(ctx, signed); err != nil {
				s.opts.Log.Warn("A witness was not looked through for signatures of this key", "looked", search.looked, "of", search.of, "error", err)
			}
			answers[i] = err == nil
		})
	}
	asking.Wait()
	return slices.Max(heights), slices.Contains(answers, true)
}

// survey looks through the commits of one witness.
type survey struct {
	client     *seid.Client
	chain, key string
	// looked is how many of the commits that are to be looked through were.
	looked, of int
}

// lastSigned looks through the latest commits, from the newest down to what the sign state
// knows, for a signature of the key; 0 is none. The witness has answered only if it gave
// each commit that it was asked for. A start does not wait long, and many answers take as
// long as one.
func (s *survey) lastSigned(ctx context.Context, signed int64) (int64, error) {
	s.of = recentCommits
	latest, err := s.client.Commit(ctx, 0)
	if err != nil {
		return 0, err
	}
	s.looked = 1
	if latest.Height <= signed {
		return 0, fmt.Errorf("it is at height %d, and the sign state at %d: it says nothing of what came after", latest.Height, signed)
	}
	if latest.Signed(s.chain, s.key) {
		return latest.Height, nil
	}
	lowest := max(latest.Height-recentCommits, signed, 0) + 1
	s.of = int(max(latest.Height-lowest, 0)) + 1
	for top := latest.Height - 1; top >= lowest; top -= egress.SurveyConnections {
		height, err := s.among(ctx, max(top-egress.SurveyConnections+1, lowest), top)
		if err != nil || height != 0 {
			return height, err
		}
	}
	return 0, nil
}

// among asks for all commits from one height to another at once. A signature is a proof
// also beside a commit that is missing.
func (s *survey) among(ctx context.Context, low, high int64) (height int64, err error) {
	commits, errs := make([]seid.Commit, high-low+1), make([]error, high-low+1)
	var asking sync.WaitGroup
	for i := range commits {
		asking.Go(func() { commits[i], errs[i] = s.client.Commit(ctx, low+int64(i)) })
	}
	asking.Wait()
	for i, commit := range commits {
		switch {
		case errs[i] != nil:
			continue
		case commit.Signed(s.chain, s.key):
			height = max(height, commit.Height)
		}
		s.looked++
	}
	// One of them is enough: they fail together.
	return height, cmp.Or(errs...)
}
