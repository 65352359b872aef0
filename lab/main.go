//go:build linux

// Command lab runs the surroundings in which sei-operator is tested and shown.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{
		Use:           "lab",
		Short:         "A real Kubernetes on this machine, for tests and for people",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(labCommands()...)
	root.AddCommand(kubeCommand())
	if err := root.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}
