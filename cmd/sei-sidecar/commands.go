package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/nodeinit"
	"github.com/sei-operator/sei-operator/internal/sidecar/probe"
	"github.com/sei-operator/sei-operator/internal/sidecar/serve"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// wrapStore is nil; a test ends the process at a transition of the store.
var wrapStore func(engine.Store) engine.Store

// Where things are in the pod. The flags are for the cases in which they are not.
const (
	defaultHome   = "/home/nonroot/.sei"
	defaultSocket = "/run/sei/supervisor.sock"
)

// The ports of seid. The operator keeps them where they are.
const (
	portREST    = "1317"
	portGRPC    = "9090"
	portGRPCWeb = "9091"
	portP2P     = "26656"
	portRPC     = "26657"
	portMetrics = "26660"
)

// places are the flags that say where things are.
type places struct{ home, socket, seidHost string }

// addSeidHost adds a flag for those who run several nodes on one machine; in a pod
// seid always listens on loopback.
func (p *places) addSeidHost(command *cobra.Command) {
	command.Flags().StringVar(&p.seidHost, "seid-host", "127.0.0.1", "address at which seid is reached")
}

func (p *places) seid(port string) string { return net.JoinHostPort(p.seidHost, port) }

func (p *places) addHome(command *cobra.Command) {
	command.Flags().StringVar(&p.home, "home", environment("SEI_HOME", defaultHome), "home directory of seid (SEI_HOME)")
}

func (p *places) addSocket(command *cobra.Command) {
	command.Flags().StringVar(&p.socket, "socket", environment("SEI_SUPERVISOR_SOCKET", defaultSocket), "socket of the supervisor (SEI_SUPERVISOR_SOCKET)")
}

// addLoopbackDir adds the flag that switches access control on.
func addLoopbackDir(command *cobra.Command, dir *string) {
	command.Flags().StringVar(dir, "loopback-dir", environment("SEI_LOOPBACK_DIR", ""),
		"directory of the certificates by which the access proxy is known; without it there is no access control (SEI_LOOPBACK_DIR)")
}

func serveCommand() *cobra.Command {
	var where places
	config := serve.Config{WrapStore: wrapStore}
	port := environment("SEI_SIDECAR_PORT", "7777")
	command := &cobra.Command{
		Use:   "serve",
		Short: "Be the sidecar: the API for tasks on the node, approval and hold",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if config.NodeUID == "" {
				return errors.New("the uid of the SeiNode is not known: set SEI_NODE_UID")
			}
			ctx, stop := untilTold(command.Context())
			defer stop()
			config.Home, config.Socket, config.Log = seid.Home(where.home), where.socket, logger()
			config.RPC, config.Metrics = where.seid(portRPC), where.seid(portMetrics)
			return serve.Run(ctx, config, func(address net.Addr) {
				config.Log.Info("Listening", "address", address.String())
			})
		},
	}
	where.addHome(command)
	where.addSocket(command)
	flags := command.Flags()
	flags.StringVar(&config.NodeUID, "node-uid", environment("SEI_NODE_UID", ""), "uid of the SeiNode (SEI_NODE_UID)")
	flags.StringVar(&config.Listen, "listen", ":"+port, "where the API listens, host:port (SEI_SIDECAR_PORT)")
	addLoopbackDir(command, &config.LoopbackDir)
	flags.StringVar(&config.Document, "document", environment("SEI_NODE_CONFIG", ""), "file with the configuration that the node shall have (SEI_NODE_CONFIG)")
	flags.StringVar(&config.GenesisDir, "genesis-dir", environment("SEI_GENESIS_DIR", ""), "directory with a genesis file (SEI_GENESIS_DIR)")
	where.addSeidHost(command)
	return command
}

func runCommand() *cobra.Command {
	var where places
	command := &cobra.Command{
		Use:     "run -- COMMAND [ARGUMENT...]",
		Short:   "Be the parent of seid: start, stop and restart it when the sidecar says so",
		Example: "  sei-run --home /home/nonroot/.sei -- seid start --home /home/nonroot/.sei",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			// Signals are the supervisor's own affair, so the context has none.
			code, err := supervisor.New(supervisor.Config{
				Socket: where.socket, Home: where.home, Command: args, Log: logger(), Reap: true,
				Endpoints: supervisor.Endpoints{
					RPC: where.seid(portRPC), Metrics: where.seid(portMetrics), P2P: where.seid(portP2P),
					REST: where.seid(portREST), GRPC: where.seid(portGRPC), GRPCWeb: where.seid(portGRPCWeb),
				},
			}).Run(context.WithoutCancel(command.Context()))
			if code == 0 && err == nil {
				return nil
			}
			return &exitError{code: code, err: err}
		},
	}
	where.addHome(command)
	where.addSocket(command)
	where.addSeidHost(command)
	return command
}

func initCommand() *cobra.Command {
	var where places
	config := nodeinit.InitConfig{}
	var mode string
	command := &cobra.Command{
		Use:   "init",
		Short: "Carry out \"seid init\" until it succeeded once",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := untilTold(command.Context())
			defer stop()
			config.Home, config.Mode = where.home, seid.Mode(mode)
			return nodeinit.Init(ctx, config)
		},
	}
	where.addHome(command)
	flags := command.Flags()
	flags.StringVar(&config.ChainID, "chain-id", environment("SEI_CHAIN_ID", ""), "id of the chain (SEI_CHAIN_ID)")
	flags.StringVar(&config.Moniker, "moniker", environment("SEI_MONIKER", ""), "name by which the node calls itself (SEI_MONIKER)")
	flags.StringVar(&mode, "mode", environment("SEI_NODE_MODE", string(seid.ModeFullNode)), "mode of the node (SEI_NODE_MODE)")
	flags.StringVar(&config.SeidPath, "seid", "seid", "the program")
	flags.BoolVar(&config.SigningKeyFromSecret, "signing-key-from-secret", false, "the signing key is mounted from a Secret")
	flags.BoolVar(&config.NodeKeyFromSecret, "node-key-from-secret", false, "the node key is mounted from a Secret")
	return command
}

func installCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "install DESTINATION",
		Short: "Copy this program to where seid's container finds it",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return nodeinit.Install(args[0])
		},
	}
}

// proxyProgram is the access proxy. It is next to this program in the image, and no part
// of it: with a client of Kubernetes in it, the two processes that every node has
// would be several times as large.
const proxyProgram = "sei-rbac-proxy"

func proxyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rbac-proxy",
		Short: "Be the access proxy in front of the sidecar",
		// They are the proxy's, which says what it does not know.
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			program := filepath.Join(filepath.Dir(self), proxyProgram)
			// The process becomes the proxy, so that signals and the exit code are its own.
			if err := syscall.Exec(program, append([]string{program}, args...), os.Environ()); err != nil {
				return fmt.Errorf("cannot start %s, which is in the image of the sidecar: %w", program, err)
			}
			return nil
		},
	}
}

// probeTimeout is below that of the kubelet, so that the reason is told.
const probeTimeout = 4 * time.Second

func probeCommand() *cobra.Command {
	command := &cobra.Command{Use: "probe", Short: "Answer a probe of the kubelet"}
	var address, loopbackDir string
	live := &cobra.Command{
		Use:   "live",
		Short: "Whether the sidecar lives",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), probeTimeout)
			defer cancel()
			return probe.Live(ctx, address, loopbackDir)
		},
	}
	live.Flags().StringVar(&address, "address", "127.0.0.1:"+environment("SEI_SIDECAR_PORT", "7777"), "where the sidecar listens (SEI_SIDECAR_PORT)")
	addLoopbackDir(live, &loopbackDir)
	var mode string
	var where places
	ready := &cobra.Command{
		Use:   "ready",
		Short: "Whether the node serves the newest state of the chain",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), probeTimeout)
			defer cancel()
			return probe.Ready(ctx, probe.Node{
				Mode: seid.Mode(mode), RPC: where.seid(portRPC), P2P: where.seid(portP2P), Home: seid.Home(where.home),
			}, time.Now)
		},
	}
	ready.Flags().StringVar(&mode, "mode", environment("SEI_NODE_MODE", string(seid.ModeFullNode)), "mode of the node (SEI_NODE_MODE)")
	where.addHome(ready)
	where.addSeidHost(ready)
	var program string
	stoppable := &cobra.Command{
		Use:   "stoppable",
		Short: "Wait until the container's process takes SIGTERM, for the hook before it is sent",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), probeTimeout)
			defer cancel()
			return probe.Stoppable(ctx, "/proc/1/status", program)
		},
	}
	stoppable.Flags().StringVar(&program, "program", "", "the program that the process has to have become; none: it stays what it is")
	command.AddCommand(live, ready, stoppable)
	return command
}
