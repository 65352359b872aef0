// Command sei-sidecar is the agent in the pod of every node. Called by the name
// sei-run, or as "sei-sidecar run", it is the parent of seid.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set when a release is built.
var version = "dev"

// exitError carries the code to exit with: that of seid.
type exitError struct {
	code int
	err  error // nil: the code says it all
}

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d: %v", e.code, e.err) }

func (e *exitError) Unwrap() error { return e.err }

func main() {
	os.Exit(execute(os.Args))
}

// execute runs the command and returns the code to exit with.
func execute(args []string) int {
	root := command()
	root.SetArgs(arguments(args))
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return 0
	}
	code := 1
	if ended, ok := errors.AsType[*exitError](err); ok {
		code, err = ended.code, ended.err
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, filepath.Base(args[0])+":", err)
	}
	return code
}

// arguments are those of the command. Under the name sei-run everything but the
// sub-commands that seid's container needs beside it is a command to supervise, so
// that "sei-run -- seid start" reads as it should.
func arguments(args []string) []string {
	if filepath.Base(args[0]) != "sei-run" || len(args) > 1 && (args[1] == "init" || args[1] == "probe" || args[1] == "version" || args[1] == "run") {
		return args[1:]
	}
	return append([]string{"run"}, args[1:]...)
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "sei-sidecar",
		Short:         "The agent in the pod of a Sei node",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(serveCommand(), runCommand(), initCommand(), installCommand(), probeCommand(), proxyCommand(), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(command *cobra.Command, _ []string) {
			fmt.Fprintln(command.OutOrStdout(), version)
		},
	}
}

// logger writes what this program itself has to say. It goes to standard error:
// standard output is seid's.
func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}

// untilTold ends when Kubernetes wants the process to end.
func untilTold(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// environment is the value of a variable, or something else when it is not set.
func environment(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
