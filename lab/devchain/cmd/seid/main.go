// Command seid is the node of a devchain, dressed as the seid of Sei.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sei-operator/sei-operator/lab/devchain/home"
	"github.com/sei-operator/sei-operator/lab/devchain/node"
)

// version is set when the binary is built: -ldflags "-X main.version=v2". An upgrade
// of the chain is carried out by the binary whose version is not below its name.
var version = "v1"

func main() {
	if err := command().ExecuteContext(context.Background()); err != nil {
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var where string
	root := &cobra.Command{
		Use:   "seid",
		Short: "Stargate Sei App, as a devchain has it",
		PersistentPreRunE: func(command *cobra.Command, _ []string) error {
			if command.Name() == "init" {
				return nil
			}
			return home.Dir(where).Ensure()
		},
	}
	userHome, _ := os.UserHomeDir()
	flags := root.PersistentFlags()
	flags.StringVar(&where, "home", filepath.Join(userHome, ".sei"), "directory for config and data")
	// These two are accepted and have no effect, as with seid.
	flags.String("log_format", "", "the format of the log")
	flags.String("log_level", "", "the level of the log")
	at := func() home.Dir { return home.Dir(where) }
	root.AddCommand(initCommand(at), startCommand(at), versionCommand(), statusCommand(), tendermintCommand(at))
	return root
}

func initCommand(at func() home.Dir) *cobra.Command {
	var chainID, mode string
	var overwrite bool
	command := &cobra.Command{
		Use:   "init [moniker]",
		Short: "Initialize private validator, p2p, genesis, and application configuration files",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if chainID == "" {
				panic("a chain id is needed: --chain-id")
			}
			printed, err := at().Init(args[0], chainID, home.Mode(mode), overwrite)
			if err != nil {
				return err
			}
			// seid prints all of it to stderr.
			fmt.Fprintln(os.Stderr, printed)
			return nil
		},
	}
	command.Flags().StringVar(&chainID, "chain-id", "", "id of the chain")
	command.Flags().StringVar(&mode, "mode", "full", "mode of the node: validator, full, seed, archive")
	command.Flags().BoolVarP(&overwrite, "overwrite", "o", false, "overwrite the genesis file")
	return command
}

// keyFlags are the flags of start that are keys of the configuration, by their type.
var keyFlags = map[string]string{
	"number": `halt-height halt-time min-retain-blocks concurrency-workers consensus.double-sign-check-height
		state-sync.snapshot-interval state-sync.snapshot-keep-recent`,
	"text": `moniker mode db-backend db-dir minimum-gas-prices p2p.laddr p2p.persistent-peers p2p.private-peer-ids
		rpc.laddr rpc.pprof-laddr grpc.address grpc-web.address consensus.create-empty-blocks-interval`,
	"switch": "p2p.pex rpc.unsafe grpc.enable grpc-web.enable consensus.create-empty-blocks",
}

func startCommand(at func() home.Dir) *cobra.Command {
	var chainID string
	command := &cobra.Command{
		Use:   "start",
		Short: "Run the full node",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			given := node.Flags{Home: at(), ChainID: chainID, Keys: map[string]string{}}
			command.Flags().Visit(func(flag *pflag.Flag) {
				if flag.Name != "chain-id" && command.InheritedFlags().Lookup(flag.Name) == nil {
					given.Keys[flag.Name] = flag.Value.String()
				}
			})
			return node.Start(command.Context(), version, given)
		},
	}
	flags := command.Flags()
	flags.StringVar(&chainID, "chain-id", "", "id of the chain")
	for kind, names := range keyFlags {
		for name := range strings.FieldsSeq(names) {
			usage := "takes the place of the key in the configuration"
			switch kind {
			case "number":
				flags.Int64(name, 0, usage)
			case "switch":
				flags.Bool(name, false, usage)
			default:
				flags.String(name, "", usage)
			}
		}
	}
	return command
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run:   func(*cobra.Command, []string) { fmt.Println(version) },
	}
}

// statusCommand asks a running node. Other than its RPC, seid writes the outer keys
// in another way.
func statusCommand() *cobra.Command {
	var address string
	command := &cobra.Command{
		Use:   "status",
		Short: "Query remote node for status",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			target := "http://" + strings.TrimPrefix(address, "tcp://") + "/status"
			request, err := http.NewRequestWithContext(command.Context(), http.MethodGet, target, http.NoBody)
			if err != nil {
				return err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				return err
			}
			var status struct {
				NodeInfo      json.RawMessage `json:"node_info"`
				SyncInfo      json.RawMessage `json:"sync_info"`
				ValidatorInfo json.RawMessage `json:"validator_info"`
			}
			if err := json.Unmarshal(body, &status); err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(map[string]json.RawMessage{
				"NodeInfo": status.NodeInfo, "SyncInfo": status.SyncInfo, "ValidatorInfo": status.ValidatorInfo,
			})
		},
	}
	command.Flags().StringVarP(&address, "node", "n", "tcp://localhost:26657", "address of the node's RPC")
	return command
}

func tendermintCommand(at func() home.Dir) *cobra.Command {
	command := &cobra.Command{Use: "tendermint", Short: "Tendermint subcommands"}
	command.AddCommand(&cobra.Command{
		Use:   "unsafe-reset-all",
		Short: "Remove all the data and WAL, reset this node's validator to genesis state",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return at().Reset() },
	})
	return command
}
