package nodes

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// Node is what a test does to the sidecar of one SeiNode, whichever pod it is in. It
// is safe for concurrent use.
type Node struct {
	fleet *Fleet
	key   types.NamespacedName

	mu      sync.Mutex
	changed chan struct{} // closed at the next change of anything below
	life    *life         // of the pod that is up
	volume  *volume       // of the last pod that was up
	begun   []Entry       // all runs, on whichever volume
	taken   map[string]int

	plays     map[string]*play
	wedges    int
	unwedged  chan struct{} // closed when there is no wedge any more
	holes     int
	refusals  []*refusal
	seid      func(*api.Seid)
	upgrade   api.Upgrade
	haltImage string // the image that halted; another one goes on
	publicKey string
	starts    []SeidStart
	// late: new certificates do not arrive in the pod.
	late bool
}

// play is what a test wants of a type of task.
type play struct {
	delay  time.Duration
	blocks []chan struct{}
	fails  []failing
}

type failing struct {
	times   int
	failure engine.Failure
}

func newNode(f *Fleet, key types.NamespacedName) *Node {
	return &Node{fleet: f, key: key, changed: make(chan struct{}), taken: map[string]int{}, plays: map[string]*play{}}
}

// change changes the script and tells those who wait for it.
func (n *Node) change(fn func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fn()
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *Node) changes() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// await returns when the condition holds.
func (n *Node) await(ctx context.Context, what string, holds func() bool) error {
	for {
		n.mu.Lock()
		done, changed := holds(), n.changed
		n.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s of %s did not come: %w", what, n.key, context.Cause(ctx))
		}
	}
}

func (n *Node) enters(l *life) { n.change(func() { n.life, n.volume = l, l.volume }) }

func (n *Node) leaves(l *life) {
	n.change(func() {
		if n.life == l {
			n.life = nil
		}
	})
}

// current is the pod that is up, which may be none, and the volume of the last one.
func (n *Node) current() (*life, *volume) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life, n.volume
}

// WaitUp returns where the sidecar of the node's pod is, as soon as there is one.
func (n *Node) WaitUp(ctx context.Context) (url string, err error) {
	return n.waitUp(ctx, func(podFacts) bool { return true })
}

// WaitPod is WaitUp for exactly this pod, for a test that has replaced another.
func (n *Node) WaitPod(ctx context.Context, pod types.UID) (url string, err error) {
	return n.waitUp(ctx, func(up podFacts) bool { return up.uid == pod })
}

func (n *Node) waitUp(ctx context.Context, meant func(podFacts) bool) (url string, err error) {
	err = n.await(ctx, "the sidecar", func() bool {
		if n.life == nil || !meant(n.life.pod) {
			return false
		}
		url = "http://" + n.life.pod.address
		return true
	})
	return url, err
}

// Ledger returns all runs of tasks on the volume of the node's last pod.
func (n *Node) Ledger() []Entry {
	if _, volume := n.current(); volume != nil {
		return volume.entries()
	}
	return nil
}

// WaitCall returns the next run of a type that no earlier WaitCall returned, as soon
// as it has begun.
func (n *Node) WaitCall(ctx context.Context, taskType string) (Entry, error) {
	var found Entry
	err := n.await(ctx, "a "+taskType, func() bool {
		skip := n.taken[taskType]
		for _, e := range n.begun {
			if e.Type != taskType {
				continue
			}
			if skip--; skip < 0 {
				found = e
				n.taken[taskType]++
				return true
			}
		}
		return false
	})
	return found, err
}

// play returns what is wanted of a type; the caller holds the lock.
func (n *Node) play(taskType string) *play {
	p := n.plays[taskType]
	if p == nil {
		p = &play{}
		n.plays[taskType] = p
	}
	return p
}

// Fail makes so many runs of a type fail, after any that were to fail before.
func (n *Node) Fail(taskType string, times int, reason, message string, retryable bool) {
	n.change(func() {
		p := n.play(taskType)
		p.fails = append(p.fails, failing{times, engine.Failure{Reason: reason, Message: message, Retryable: retryable}})
	})
}

// Block makes runs of a type that begin from now on wait until they are released.
func (n *Node) Block(taskType string) (release func()) {
	block := make(chan struct{})
	n.change(func() {
		p := n.play(taskType)
		p.blocks = append(p.blocks, block)
	})
	return sync.OnceFunc(func() {
		n.change(func() {
			p := n.play(taskType)
			p.blocks = slices.DeleteFunc(p.blocks, func(b chan struct{}) bool { return b == block })
		})
		close(block)
	})
}

// Delay makes runs of a type take this long before they do anything.
func (n *Node) Delay(taskType string, d time.Duration) {
	n.change(func() { n.play(taskType).delay = d })
}

// perform does what the test wants of a run, and nothing if it wants nothing.
func (n *Node) perform(ctx context.Context, taskType string) error {
	n.mu.Lock()
	wanted := *n.play(taskType)
	wanted.blocks = slices.Clone(wanted.blocks)
	n.mu.Unlock()
	if wanted.delay > 0 {
		timer := clock.RealClock{}.NewTimer(wanted.delay)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, block := range wanted.blocks {
		select {
		case <-block:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return n.failNow(taskType)
}

func (n *Node) failNow(taskType string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.play(taskType)
	for len(p.fails) > 0 {
		next := &p.fails[0]
		if next.times--; next.times >= 0 {
			return new(next.failure)
		}
		p.fails = p.fails[1:]
	}
	return nil
}
