package readiness

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// following is a node that follows its chain.
func following() Facts {
	return Facts{Height: 1200, BlockAge: time.Second, Moves: true, Peer: 1201, Connected: 2, Known: 3}
}

func TestJudge(t *testing.T) {
	for what, c := range map[string]struct {
		edit   func(*Facts)
		ready  bool
		reason Reason
		says   string
	}{
		"it follows the chain": {func(*Facts) {}, true, Following, "at height 1200; 2 connections to peers"},
		// The first second of every start, on a volume without data and on one with.
		"started on nothing":        {func(f *Facts) { *f = Facts{} }, false, NoBlocks, "height 0: seid has no block yet; no connection to a peer; 0 addresses known"},
		"started on its data":       {func(f *Facts) { *f = Facts{Height: 1200, Known: 3} }, false, NoPeers, "no connection to a peer; 3 addresses known; own height 1200"},
		"peers, and no block":       {func(f *Facts) { f.Height = 0 }, false, NoBlocks, "2 connections"},
		"one address":               {func(f *Facts) { f.Connected, f.Known = 0, 1 }, false, NoPeers, "1 address known"},
		"one connection":            {func(f *Facts) { f.Connected = 1 }, true, Following, "1 connection to a peer"},
		"the only validator":        {func(f *Facts) { f.Connected, f.Peer, f.Sole = 0, 0, true }, true, Following, "the only validator of its chain"},
		"it stands still, alone":    {func(f *Facts) { *f = Facts{Height: 7, BlockAge: time.Hour, Sole: true} }, true, NetworkStalled, "the last block is 1h0m0s old"},
		"seid says that it lags":    {func(f *Facts) { f.Lagging, f.Peer = true, 1501 }, false, CatchingUp, "at height 1200 the node is 301 blocks behind its best peer"},
		"five minutes":              {func(f *Facts) { f.BlockAge, f.Peer = MaxBlockAge, 1300 }, true, Following, ""},
		"more, and a peer has more": {func(f *Facts) { f.BlockAge, f.Peer = 432*time.Second, 1234 }, false, BlockTooOld, "the last block is 7m12s old, peer height 1234, own 1200"},
		"more, and a witness too":   {func(f *Facts) { f.BlockAge, f.Witness = 432*time.Second, 1234 }, false, BlockTooOld, "witness height 1234, own 1200"},
		"a peer has one more":       {func(f *Facts) { f.BlockAge, f.Moves = time.Hour, false }, true, NetworkStalled, "the last block is 1h0m0s old, and nobody who answers has a newer one than 1200; 2 connections"},
		// After a long downtime a peer is connected a moment before it has told its height: that
		// nobody has a newer block is not known yet.
		"nobody has told a height":                                {func(f *Facts) { f.BlockAge, f.Moves, f.Peer = time.Hour, false, 0 }, false, BlockTooOld, "the last block is 1h0m0s old, and no peer or witness has told its height yet; own height 1200; 2 connections"},
		"only a witness has told one":                             {func(f *Facts) { f.BlockAge, f.Moves, f.Peer, f.Witness = time.Hour, false, 0, 1200 }, true, NetworkStalled, "nobody who answers has a newer one than 1200"},
		"nobody has, and blocks come":                             {func(f *Facts) { f.BlockAge, f.Peer = time.Hour, 0 }, true, Following, ""},
		"the only validator, and full nodes that tell it nothing": {func(f *Facts) { f.BlockAge, f.Moves, f.Peer, f.Sole = time.Hour, false, 0, true }, true, NetworkStalled, "2 connections"},
		// What a wrong clock does: one that is ahead makes all blocks old, one that is behind
		// makes all of them new.
		"the clock is ahead":                 {func(f *Facts) { f.BlockAge = 24 * time.Hour }, true, Following, ""},
		"the clock is behind":                {func(f *Facts) { f.BlockAge = 0 }, true, Following, ""},
		"it is behind, and nothing comes":    {func(f *Facts) { f.BlockAge, f.Unmoved, f.Moves = 0, time.Hour, false }, true, NetworkStalled, "the last block is 1h0m0s old"},
		"it is behind, and others have more": {func(f *Facts) { f.BlockAge, f.Unmoved, f.Moves, f.Peer = 0, time.Hour, false, 1300 }, false, BlockTooOld, "the last block is 1h0m0s old"},
	} {
		facts := following()
		c.edit(&facts)
		got := Judge(facts)
		if got.Ready != c.ready || got.Reason != c.reason || !strings.Contains(got.Message, c.says) || got.Message == "" {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if got := Silent(errors.New("nobody listens")); got.Ready || got.Reason != NotAnswering || got.Message != "nobody listens" {
		t.Errorf("silent: %+v", got)
	}
}

// TestWhoMayBeReady are the promises, whatever the facts are.
func TestWhoMayBeReady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		heights, ages := rapid.Int64Range(0, 5), rapid.SampledFrom([]time.Duration{0, time.Second, MaxBlockAge, MaxBlockAge + 1, time.Hour})
		f := Facts{
			Height: heights.Draw(t, "height"), Peer: heights.Draw(t, "peer"), Witness: heights.Draw(t, "witness"),
			BlockAge: ages.Draw(t, "age"), Unmoved: ages.Draw(t, "unmoved"), Moves: rapid.Bool().Draw(t, "moves"),
			Lagging: rapid.Bool().Draw(t, "lagging"), Sole: rapid.Bool().Draw(t, "sole"),
			Connected: rapid.IntRange(0, 2).Draw(t, "connected"), Known: rapid.IntRange(0, 2).Draw(t, "known"),
		}
		promised(t, f, Judge(f))
	})
}

func promised(t *rapid.T, f Facts, got Verdict) {
	old := max(f.BlockAge, f.Unmoved) > MaxBlockAge
	behind := old && max(f.Peer, f.Witness) > f.Height+1
	switch {
	case got.Message == "" || got.Reason == "":
		t.Errorf("%+v: %+v explains nothing", f, got)
	case got.Ready && !serves(f):
		t.Errorf("%+v is ready", f)
	case got.Ready && behind:
		t.Errorf("%+v is ready, and others have more", f)
	case !got.Ready && serves(f) && !old:
		t.Errorf("%+v is not ready: %+v", f, got)
	case got.Reason == NetworkStalled && (!got.Ready || !old || !compared(f)):
		t.Errorf("%+v: %+v", f, got)
	}
}

// compared tells whether somebody told a height, where there is anybody to ask.
func compared(f Facts) bool { return f.Sole || f.Peer > 0 || f.Witness > 0 }

// serves tells whether a node has blocks, is near its peers and has one.
func serves(f Facts) bool {
	return f.Height > 0 && !f.Lagging && (f.Connected > 0 || f.Sole)
}
