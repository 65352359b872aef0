package live

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Block is what is recorded of a block.
type Block struct {
	Height   int64
	Time     time.Time
	AppHash  string // of the state before this block
	Txs      int
	Evidence int
	// Signed are the addresses of those that signed the block before.
	Signed []string
}

// Record is what the chain itself says that happened.
type Record struct {
	// Blocks are by height, from 1 on, without a hole.
	Blocks []Block
	// Heights are the last ones of the nodes whose RPC answers.
	Heights map[string]int64

	names     map[string]string
	appHashes map[int64]map[string]string
}

// Height is that of the last block.
func (r *Record) Height() int64 { return int64(len(r.Blocks)) }

// Txs is how many transactions the chain has carried.
func (r *Record) Txs() (count int) {
	for _, block := range r.Blocks {
		count += block.Txs
	}
	return count
}

func (r *Record) String() string {
	return fmt.Sprintf("height %d, nodes at %v", r.Height(), r.Heights)
}

// Signed tells whether a validator signed a block. Who signed is in the next block, so
// of the last one it is not known yet. Who signed a block has executed the one before,
// and agrees with its application hash: the block has it.
func (r *Record) Signed(validator string, height int64) bool {
	if height < 1 || height >= r.Height() {
		return false
	}
	return slices.ContainsFunc(r.Blocks[height].Signed, func(address string) bool { return r.names[address] == validator })
}

// LastSigned is the last block that a validator is known to have signed.
func (r *Record) LastSigned(validator string) int64 {
	for height := r.Height() - 1; height > 0; height-- {
		if r.Signed(validator, height) {
			return height
		}
	}
	return 0
}

// Gap is a time in which a validator did not sign.
type Gap struct {
	Missed int
	// Took is from the last block that it signed to the next.
	Took time.Duration
}

func (g Gap) String() string {
	blocks := "blocks"
	if g.Missed == 1 {
		blocks = "block"
	}
	return fmt.Sprintf("%d %s missed, %.1f s from signature to signature", g.Missed, blocks, g.Took.Seconds())
}

// LongestGap is that of a validator among the blocks behind a height. Without any it is
// the time of a block.
func (r *Record) LongestGap(validator string, behind int64) Gap {
	longest, last := Gap{}, max(behind, 1)
	for height := last + 1; height < r.Height(); height++ {
		if !r.Signed(validator, height) {
			continue
		}
		gap := Gap{Missed: int(height - last - 1), Took: r.Blocks[height-1].Time.Sub(r.Blocks[last-1].Time)}
		if gap.Missed > longest.Missed || gap.Missed == longest.Missed && gap.Took > longest.Took {
			longest = gap
		}
		last = height
	}
	return longest
}

// Missed is how many blocks of a range a validator did not sign.
func (r *Record) Missed(validator string, from, to int64) int {
	missed := 0
	for height := from; height <= min(to, r.Height()-1); height++ {
		if !r.Signed(validator, height) {
			missed++
		}
	}
	return missed
}

// Complaints are what must never be: evidence that somebody signed twice, and nodes
// whose state is not that of the chain.
func (r *Record) Complaints() []string {
	var found []string
	for _, block := range r.Blocks {
		if block.Evidence > 0 {
			found = append(found, fmt.Sprintf("block %d has %d pieces of evidence", block.Height, block.Evidence))
		}
	}
	for _, height := range slices.Sorted(maps.Keys(r.appHashes)) {
		if height < 1 || height >= r.Height() {
			continue
		}
		want := r.Blocks[height].AppHash // A block has the hash of the state before it.
		for _, node := range slices.Sorted(maps.Keys(r.appHashes[height])) {
			if hash := r.appHashes[height][node]; !strings.EqualFold(hash, want) {
				found = append(found, fmt.Sprintf("at height %d %s has the state %s, the chain has %s", height, node, hash, want))
			}
		}
	}
	return found
}
