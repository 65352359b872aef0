// Command devchain gives a person a chain on this machine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sei-operator/sei-operator/lab/devchain/chain"
	"github.com/sei-operator/sei-operator/lab/devchain/home"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "devchain",
		Short:         "A chain on the real Tendermint engine, with nodes that behave like seid",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(upCommand(), makeCommand(), watchCommand(), upgradeCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "devchain:", err)
		os.Exit(1)
	}
}

// chainFlags are those of a chain that is made.
func chainFlags(command *cobra.Command) *chain.Options {
	options := &chain.Options{}
	flags := command.Flags()
	flags.StringVar(&options.ChainID, "chain-id", "devchain-1", "id of the chain")
	flags.IntVar(&options.Validators, "validators", 4, "how many validators; with two a chain never starts")
	flags.DurationVar(&options.BlockTime, "block-time", 400*time.Millisecond, "about the time from block to block")
	return options
}

// makeCommand writes a chain and starts nothing.
func makeCommand() *cobra.Command {
	var dir, namespace string
	command := &cobra.Command{
		Use:   "make",
		Short: "Make keys and a genesis: as files with --dir, else as Secrets and a ConfigMap on standard output",
		Args:  cobra.NoArgs,
	}
	options := chainFlags(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		network, err := chain.NewNetwork(*options)
		if err != nil {
			return err
		}
		if dir != "" {
			return network.Write(dir)
		}
		return network.Manifests(command.OutOrStdout(), namespace)
	}
	command.Flags().StringVar(&dir, "dir", "", "directory for the files")
	command.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the objects")
	return command
}

// up is what upCommand was told.
type up struct {
	options   *chain.Options
	fullNodes int
	load      int
	dir       string
	seid      string
	version   string
}

func upCommand() *cobra.Command {
	var told up
	command := &cobra.Command{
		Use:   "up",
		Short: "Run a chain until Ctrl-C, then tell what was seen of it",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return told.run(command.Context()) },
	}
	told.options = chainFlags(command)
	flags := command.Flags()
	flags.IntVar(&told.fullNodes, "full-nodes", 0, "how many full nodes; they take snapshots every 50 blocks")
	flags.IntVar(&told.load, "load", 20, "transactions per second; 0 means none")
	flags.StringVar(&told.dir, "dir", "", "directory for homes and logs (default: a new one that is removed at the end)")
	flags.StringVar(&told.seid, "seid", "", "binary of the nodes (default: built now)")
	flags.StringVar(&told.version, "version", "v1", "version of the binary that is built")
	return command
}

func (u *up) run(ctx context.Context) (err error) {
	if u.dir == "" {
		if u.dir, err = os.MkdirTemp("", "devchain"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(u.dir) }()
	}
	if u.seid == "" {
		u.seid = filepath.Join(u.dir, "seid")
		fmt.Fprintln(os.Stderr, "building seid", u.version)
		if err := chain.Build(ctx, u.seid, u.version); err != nil {
			return err
		}
	}
	network, err := chain.NewNetwork(*u.options)
	if err != nil {
		return err
	}
	nodes, err := chain.NewLocal(u.dir, network)
	if err != nil {
		return err
	}
	defer func() { _ = nodes.Close() }()
	for i := range u.fullNodes {
		node, err := nodes.AddNode(fmt.Sprintf("full-%d", i), home.Full, nil)
		if err != nil {
			return err
		}
		if err := node.ConfigureApp(map[string]string{"state-sync.snapshot-interval": "50"}); err != nil {
			return err
		}
	}
	if err := nodes.Start(ctx, u.seid); err != nil {
		return err
	}
	return u.watch(ctx, nodes)
}

// watch tells how to reach the nodes, and at the end what they did.
func (u *up) watch(ctx context.Context, nodes *chain.Local) error {
	started := time.Now()
	watcher := chain.Watch(ctx, nodes.All)
	load := chain.StartLoad(ctx, nodes.All, u.load)
	if err := watcher.Until(ctx, func(r chain.Record) bool { return r.Height() >= 2 }); err == nil {
		fmt.Fprintf(os.Stderr, "the chain makes blocks after %.1f s; homes and logs are in %s\n", time.Since(started).Seconds(), u.dir)
		for _, node := range nodes.Nodes {
			fmt.Fprintf(os.Stderr, "  %-12s %s  pid %d\n", node.Name, node.RPC(), node.Process().PID)
		}
	}
	<-ctx.Done()
	load.Stop()
	watcher.Stop()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	stopped := nodes.Stop(grace)
	fmt.Fprintf(os.Stderr, "%d transactions were sent, %d were refused\n", load.Accepted(), load.Refused())
	if _, err := watcher.Record().WriteTo(os.Stdout); err != nil {
		return err
	}
	return stopped
}
