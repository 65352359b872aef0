package chain

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/sei-operator/sei-operator/lab/devchain/home"
)

// Watcher records what a chain does, as its nodes tell it.
type Watcher struct {
	nodes  func() []*Node
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	record  Record
	changed chan struct{}
}

// Record is what was seen of a chain.
type Record struct {
	// Blocks are by height, without a hole.
	Blocks []Block
	// Heights are the last ones of the nodes that answer.
	Heights map[string]int64
	// AppHashes are what the nodes said of their own state, by height and name.
	AppHashes map[int64]map[string]string
	// Names are those of the validators, by address.
	Names map[string]string
}

// watchInterval is how often the nodes are asked: there is nothing to wait on.
const watchInterval = 50 * time.Millisecond

// watchTimeout bounds one question: a node that hangs must not hide what others do.
const watchTimeout = 2 * time.Second

// Watch begins to record. The nodes are asked for anew each time, so some may come.
func Watch(ctx context.Context, nodes func() []*Node) *Watcher {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watcher{
		nodes: nodes, cancel: cancel, changed: make(chan struct{}),
		record: Record{Heights: map[string]int64{}, AppHashes: map[int64]map[string]string{}, Names: map[string]string{}},
	}
	w.work.Go(func() {
		ticker := time.NewTicker(watchInterval)
		defer ticker.Stop()
		for {
			w.look(ctx)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return w
}

// Stop ends the recording.
func (w *Watcher) Stop() {
	w.cancel()
	w.work.Wait()
}

// look asks every node once, all at the same time.
func (w *Watcher) look(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	var asking sync.WaitGroup
	for _, node := range w.nodes() {
		if node.Mode == home.Seed {
			continue
		}
		asking.Go(func() {
			height, hash, err := node.AppHash(asked)
			w.tell(func(r *Record) {
				if err != nil {
					delete(r.Heights, node.Name)
					return
				}
				r.Heights[node.Name] = height
				if node.Mode == home.Validator {
					r.Names[node.Address] = node.Name
				}
				if r.AppHashes[height] == nil {
					r.AppHashes[height] = map[string]string{}
				}
				r.AppHashes[height][node.Name] = hash
			})
		})
	}
	asking.Wait()
	w.fetch(ctx)
}

func (w *Watcher) tell(change func(*Record)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.record)
	close(w.changed)
	w.changed = make(chan struct{})
}

// fetch gets the blocks that are new, from whichever node has them.
func (w *Watcher) fetch(ctx context.Context) {
	for {
		w.mu.Lock()
		next := int64(len(w.record.Blocks)) + 1
		heights := maps.Clone(w.record.Heights)
		w.mu.Unlock()
		block, found := Block{}, false
		for _, node := range w.nodes() {
			if heights[node.Name] < next {
				continue
			}
			var err error
			if block, err = node.Block(ctx, next); err == nil {
				found = true
				break
			}
		}
		if !found {
			return
		}
		w.tell(func(r *Record) { r.Blocks = append(r.Blocks, block) })
	}
}

// Until waits for a record that is as wanted.
func (w *Watcher) Until(ctx context.Context, wanted func(Record) bool) error {
	for {
		w.mu.Lock()
		met, changed := wanted(w.record), w.changed
		w.mu.Unlock()
		if met {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Record is what was seen so far.
func (w *Watcher) Record() Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.record
	r.Blocks, r.Heights, r.Names = slices.Clone(r.Blocks), maps.Clone(r.Heights), maps.Clone(r.Names)
	r.AppHashes = map[int64]map[string]string{}
	for height, hashes := range w.record.AppHashes {
		r.AppHashes[height] = maps.Clone(hashes)
	}
	return r
}

// Height is that of the last block.
func (r Record) Height() int64 { return int64(len(r.Blocks)) }

// Evidence is how much of it is in the blocks: how often somebody signed twice.
func (r Record) Evidence() int {
	count := 0
	for _, block := range r.Blocks {
		count += block.Evidence
	}
	return count
}

// Txs is how many transactions are in the blocks.
func (r Record) Txs() int {
	count := 0
	for _, block := range r.Blocks {
		count += block.Txs
	}
	return count
}

// Disagreements are the states on which the nodes do not agree, with each other or
// with the blocks.
func (r Record) Disagreements() []string {
	var found []string
	for _, height := range slices.Sorted(maps.Keys(r.AppHashes)) {
		// A block has the hash of the state before it.
		want, of := "", ""
		if height >= 1 && int(height) < len(r.Blocks) {
			want, of = r.Blocks[height].AppHash, fmt.Sprintf("block %d", height+1)
		}
		for _, name := range slices.Sorted(maps.Keys(r.AppHashes[height])) {
			hash := r.AppHashes[height][name]
			if height == 0 {
				continue
			}
			if want == "" {
				want, of = hash, name
			}
			if hash != want {
				found = append(found, fmt.Sprintf("at height %d %s has the state %s, %s has %s", height, name, hash, of, want))
			}
		}
	}
	return found
}

// Gap is a run of blocks that a validator did not sign.
type Gap struct{ From, To int64 }

// Gaps are those of every validator, by name. The last block is not among them: who
// signed it is told by the next one.
func (r Record) Gaps() map[string][]Gap {
	gaps := map[string][]Gap{}
	for address, name := range r.Names {
		gaps[name] = nil
		// The first block has no signatures of a block before it.
		for i := 1; i < len(r.Blocks); i++ {
			signed := int64(i)
			if slices.Contains(r.Blocks[i].Signed, address) {
				continue
			}
			if last := len(gaps[name]) - 1; last >= 0 && gaps[name][last].To == signed-1 {
				gaps[name][last].To = signed
			} else {
				gaps[name] = append(gaps[name], Gap{signed, signed})
			}
		}
	}
	return gaps
}

// missed is how many blocks are in gaps.
func missed(gaps []Gap) int64 {
	count := int64(0)
	for _, gap := range gaps {
		count += gap.To - gap.From + 1
	}
	return count
}

// WriteTo tells people.
func (r Record) WriteTo(out io.Writer) (int64, error) {
	counted := &counter{to: out}
	fmt.Fprintf(counted, "%d blocks, %d transactions, %d pieces of evidence, %d disagreements\n", r.Height(), r.Txs(), r.Evidence(), len(r.Disagreements()))
	if last := len(r.Blocks) - 1; last > 0 {
		took := r.Blocks[last].Time.Sub(r.Blocks[0].Time)
		fmt.Fprintf(counted, "%.2f s from block to block\n", took.Seconds()/float64(last))
	}
	table := tabwriter.NewWriter(counted, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "validator\tnot signed\tgaps\tlongest")
	gaps := r.Gaps()
	for _, name := range slices.Sorted(maps.Keys(gaps)) {
		longest := Gap{0, -1}
		if len(gaps[name]) > 0 {
			longest = slices.MaxFunc(gaps[name], func(a, b Gap) int { return cmp.Compare(a.To-a.From, b.To-b.From) })
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\n", name, missed(gaps[name]), len(gaps[name]), longest.To-longest.From+1)
	}
	if err := table.Flush(); err != nil {
		return counted.n, err
	}
	return counted.n, counted.err
}

// counter counts what is written.
type counter struct {
	to  io.Writer
	n   int64
	err error
}

func (c *counter) Write(text []byte) (int, error) {
	n, err := c.to.Write(text)
	c.n += int64(n)
	if err != nil {
		c.err = err
	}
	return n, err
}
