package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Watcher records what a chain does, for as long as it is not closed. The recording is
// done by devchain, in the cluster's network and past the API server, so it goes on
// while the control plane is down. The nodes with an RPC that others reach are asked;
// validators have none, and are known by what they sign.
type Watcher struct {
	command *exec.Cmd
	input   io.WriteCloser
	cancel  context.CancelFunc
	work    sync.WaitGroup

	mu      sync.Mutex
	record  Record
	changed chan struct{}
	failed  error
}

// Watch begins to record, and sends transactions to the chain meanwhile.
func (c *Chain) Watch(ctx context.Context, load int) (*Watcher, error) {
	pods, cancel := context.WithCancel(ctx)
	w := &Watcher{
		command: c.inside(ctx, c.programs.devchain(), "watch", "--load", strconv.Itoa(load)), cancel: cancel,
		changed: make(chan struct{}),
		record:  Record{Heights: map[string]int64{}, names: c.names, appHashes: map[int64]map[string]string{}},
	}
	w.command.Stderr = os.Stderr
	var err error
	if w.input, err = w.command.StdinPipe(); err != nil {
		cancel()
		return nil, err
	}
	// It ends with its input.
	w.command.Cancel = w.input.Close
	output, err := w.command.StdoutPipe()
	if err == nil {
		err = w.command.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("starting to watch %s: %w", c.ID, err)
	}
	w.work.Go(func() { w.read(output) })
	w.work.Go(func() { w.followPods(pods, c) })
	return w, nil
}

// Close ends the recording.
func (w *Watcher) Close() error {
	w.cancel()
	w.input.Close() //nolint:errcheck // closed already when the context was done
	w.work.Wait()
	return w.command.Wait()
}

func (w *Watcher) read(output io.Reader) {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Block *Block
			Node  *struct {
				Name    string
				Height  int64
				AppHash string
			}
			Silent string
		}
		err := json.Unmarshal(lines.Bytes(), &line)
		w.tell(func(r *Record) {
			switch {
			case err != nil:
				w.failed = fmt.Errorf("devchain said %q: %w", lines.Text(), err)
			case line.Block != nil:
				r.Blocks = append(r.Blocks, *line.Block)
			case line.Node != nil:
				r.Heights[line.Node.Name] = line.Node.Height
				if r.appHashes[line.Node.Height] == nil {
					r.appHashes[line.Node.Height] = map[string]string{}
				}
				r.appHashes[line.Node.Height][line.Node.Name] = line.Node.AppHash
			default:
				delete(r.Heights, line.Silent)
			}
		})
	}
	w.tell(func(*Record) { w.failed = errors.Join(w.failed, lines.Err(), errors.New("the recording has ended")) })
}

func (w *Watcher) tell(change func(*Record)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.record)
	close(w.changed)
	w.changed = make(chan struct{})
}

// followPods tells devchain where the nodes are. An API server that is down tells
// nothing, and then they are where they were.
func (w *Watcher) followPods(ctx context.Context, c *Chain) {
	pods := map[string]string{}
	for ctx.Err() == nil {
		// The error is that of an API server that is away: it is asked again.
		_ = Poll(ctx, "the pods", func() (bool, error) {
			events, err := c.Client.Watch(ctx, &corev1.PodList{}, client.InNamespace(c.ID), client.HasLabels{v1alpha1.LabelNode})
			if err != nil {
				return false, err
			}
			defer events.Stop()
			for event := range events.ResultChan() {
				if pod, ok := event.Object.(*corev1.Pod); ok && reachable(pod) {
					w.place(pods, pod, event.Type)
				}
			}
			return true, nil
		})
	}
}

// reachable tells whether a node has an RPC for others.
func reachable(pod *corev1.Pod) bool {
	mode := v1alpha1.Mode(pod.Labels[v1alpha1.LabelMode])
	return mode != v1alpha1.ModeValidator && mode != v1alpha1.ModeSeed
}

func (w *Watcher) place(pods map[string]string, pod *corev1.Pod, event watch.EventType) {
	name, before := pod.Labels[v1alpha1.LabelNode], maps.Clone(pods)
	if event == watch.Deleted || pod.Status.PodIP == "" {
		delete(pods, name)
	} else {
		pods[name] = pod.Status.PodIP
	}
	if maps.Equal(before, pods) {
		return
	}
	// An end of the process is told by what it no longer says.
	_ = json.NewEncoder(w.input).Encode(pods)
}

// Until waits for a record that is as wanted.
func (w *Watcher) Until(ctx context.Context, what string, ok func(*Record) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		w.mu.Lock()
		met, changed, failed, state := ok(&w.record), w.changed, w.failed, w.record.String()
		w.mu.Unlock()
		switch {
		case met:
			return nil
		case failed != nil:
			return fmt.Errorf("waited for %s: %w", what, failed)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w; the chain is at %s", what, context.Cause(ctx), state)
		}
	}
}

// Read looks at the record as it is now.
func (w *Watcher) Read(look func(*Record)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	look(&w.record)
}

// Height is that of the last block.
func (w *Watcher) Height() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.record.Height()
}

// Grow waits for some blocks from now on.
func (w *Watcher) Grow(ctx context.Context, blocks int64) error {
	target := w.Height() + blocks
	return w.Until(ctx, fmt.Sprintf("block %d", target), func(r *Record) bool { return r.Height() >= target })
}

// Snapshot waits until the providers have a snapshot. The engine asks its peers for one
// when it starts, and then never again.
func (w *Watcher) Snapshot(ctx context.Context) error {
	return w.Until(ctx, "a snapshot", func(r *Record) bool { return r.Height() > snapshotInterval+2 })
}

// Signs waits until validators have signed a block that is higher than a height.
func (w *Watcher) Signs(ctx context.Context, behind int64, validators ...string) error {
	return w.Until(ctx, fmt.Sprintf("signatures of %v behind block %d", validators, behind), func(r *Record) bool {
		for _, validator := range validators {
			if r.LastSigned(validator) <= behind {
				return false
			}
		}
		return true
	})
}

// Follows waits until nodes whose RPC answers have a state that is higher than a height.
func (w *Watcher) Follows(ctx context.Context, behind int64, nodes ...string) error {
	return w.Until(ctx, fmt.Sprintf("%v to be behind block %d", nodes, behind), func(r *Record) bool {
		for _, node := range nodes {
			if r.Heights[node] <= behind {
				return false
			}
		}
		return true
	})
}

// LastSigned is the last block that a validator has signed so far.
func (w *Watcher) LastSigned(validator string) (height int64) {
	w.Read(func(r *Record) { height = r.LastSigned(validator) })
	return height
}

// Gap waits until a validator signs steadily again, and tells for how long it did not
// behind a block that it had signed.
func (w *Watcher) Gap(ctx context.Context, validator string, behind int64) (gap Gap, err error) {
	now := w.Height()
	err = w.Until(ctx, validator+" to sign again", func(r *Record) bool {
		last := r.LastSigned(validator)
		gap = r.LongestGap(validator, behind)
		return last > max(now, behind)+2 && r.Missed(validator, last-2, last) == 0
	})
	return gap, err
}
