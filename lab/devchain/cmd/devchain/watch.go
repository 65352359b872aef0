package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sei-operator/sei-operator/lab/devchain/app"
	"github.com/sei-operator/sei-operator/lab/devchain/chain"
	"github.com/sei-operator/sei-operator/lab/devchain/home"
)

// watchCommand is the watcher for programs that cannot import it, about nodes that are
// elsewhere.
func watchCommand() *cobra.Command {
	var load int
	command := &cobra.Command{
		Use:   "watch",
		Short: "Tell what a chain does, as JSON lines, until standard input ends",
		Long: `Tell what a chain does, as JSON lines, until standard input ends.

Each line of standard input is an object of the nodes that there are now, and the
addresses of their RPC: {"archive": "10.0.0.7"}. One of them has to have all blocks.

A line of standard output is one of
  {"block": {...}}                                       the next block
  {"node": {"name": ..., "height": ..., "appHash": ...}}  a node's own state
  {"silent": "name"}                                      a node that no longer answers`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return watch(command.Context(), command.InOrStdin(), command.OutOrStdout(), load)
		},
	}
	command.Flags().IntVar(&load, "load", 0, "transactions per second that are sent to the nodes")
	return command
}

// nodeSet is the nodes that were named last.
type nodeSet struct {
	mu    sync.Mutex
	nodes []*chain.Node
}

func (s *nodeSet) all() []*chain.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes
}

// follow takes sets of nodes until there are no more.
func (s *nodeSet) follow(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var hosts map[string]string
		if err := json.Unmarshal(lines.Bytes(), &hosts); err != nil {
			return fmt.Errorf("%q is no object of names and addresses: %w", lines.Text(), err)
		}
		var nodes []*chain.Node
		for _, name := range slices.Sorted(maps.Keys(hosts)) {
			nodes = append(nodes, &chain.Node{Name: name, Mode: home.Full, Host: hosts[name]})
		}
		s.mu.Lock()
		s.nodes = nodes
		s.mu.Unlock()
	}
	return lines.Err()
}

func watch(ctx context.Context, in io.Reader, out io.Writer, load int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	set, ended := &nodeSet{}, errors.New("standard input has ended")
	go func() {
		if err := set.follow(in); err != nil {
			cancel(err)
			return
		}
		cancel(ended)
	}()
	watcher := chain.Watch(ctx, set.all)
	defer watcher.Stop()
	defer chain.StartLoad(ctx, set.all, load).Stop()
	told := teller{to: json.NewEncoder(out), heights: map[string]int64{}}
	err := watcher.Until(ctx, func(record chain.Record) bool {
		told.tell(record)
		return told.err != nil
	})
	if errors.Is(err, ended) || ctx.Err() != nil && told.err == nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return errors.Join(err, told.err)
}

// teller tells what is new in a record.
type teller struct {
	to      *json.Encoder
	blocks  int
	heights map[string]int64
	err     error
}

type nodeState struct {
	Name    string `json:"name"`
	Height  int64  `json:"height"`
	AppHash string `json:"appHash"`
}

func (t *teller) tell(record chain.Record) {
	for ; t.blocks < len(record.Blocks); t.blocks++ {
		t.line("block", record.Blocks[t.blocks])
	}
	for name, height := range record.Heights {
		if was, ok := t.heights[name]; !ok || was != height {
			t.heights[name] = height
			t.line("node", nodeState{name, height, record.AppHashes[height][name]})
		}
	}
	for name := range t.heights {
		if _, answers := record.Heights[name]; !answers {
			delete(t.heights, name)
			t.line("silent", name)
		}
	}
}

func (t *teller) line(kind string, value any) {
	if err := t.to.Encode(map[string]any{kind: value}); err != nil && t.err == nil {
		t.err = err
	}
}

// upgradeCommand schedules an upgrade of a chain that runs somewhere.
func upgradeCommand() *cobra.Command {
	var host string
	var plan app.Plan
	command := &cobra.Command{
		Use:   "upgrade",
		Short: "Schedule an upgrade, and wait until the chain has the plan",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return (&chain.Node{Name: host, Host: host}).Schedule(command.Context(), plan)
		},
	}
	flags := command.Flags()
	flags.StringVar(&host, "host", "", "address of a node whose RPC answers")
	flags.StringVar(&plan.Name, "name", "v2", "name of the upgrade")
	flags.Int64Var(&plan.Height, "height", 0, "height of the upgrade")
	return command
}
