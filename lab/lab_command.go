//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/images"
	"github.com/sei-operator/sei-operator/lab/kube"
	"github.com/sei-operator/sei-operator/lab/node"
)

// withoutRoot is what a person who is not root is told, who wanted the lab.
const withoutRoot = `You are not root, so this is a control plane with stand-in nodes. What it cannot show:
  containers: images, probes, exec, logs, restarts, exit codes
  volumes with data in them, and who may write to them
  Services, DNS, and pods that talk to each other
`

func labCommands() []*cobra.Command {
	return []*cobra.Command{
		labCheckCommand(), labBuildCommand(), labUpCommand(), labDownCommand(), labStatusCommand(), labInfoCommand(), labRunCommand(),
		labExecCommand(), labLoadCommand(), imagesCommand(), serveCommand(), initCommand(), insideCommand(),
	}
}

func labCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Tell what is missing on this machine for a real cluster; fails if anything is",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return checkLab(command.Context()) },
	}
}

func labBuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build everything the lab runs into the cache, if it is not there yet; needs root",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := interruptible(command.Context())
			defer stop()
			if err := checkLab(ctx); err != nil {
				return err
			}
			binaries, err := labBinaries(ctx)
			if err != nil {
				return err
			}
			defer binaries.Release()
			_, err = makeImages(ctx, allImages())
			return err
		},
	}
}

func labUpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Start a real cluster in the background; needs root",
		Long: `Start a real cluster in the background: control plane, kubelet, containerd,
kube-proxy, DNS. Its node has the images of this tree: operator, sidecar, and two
versions of the chain that stands in for seid. A cluster that runs already gets them
anew; the containers in it go on with what they have.

Without root it starts a control plane with stand-in nodes, as "kube up" does.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				fmt.Fprint(os.Stderr, withoutRoot)
				return kubeUp(command)
			}
			ctx, stop := interruptible(command.Context())
			defer stop()
			if err := checkLab(ctx); err != nil {
				return err
			}
			tidyUp(ctx)
			// Built here, where the person can see it, and kept until the cluster has it.
			binaries, err := labBinaries(ctx)
			if err != nil {
				return err
			}
			defer binaries.Release()
			made, err := makeImages(ctx, allImages())
			if err != nil {
				return err
			}
			background, err := background(realCluster)
			if err != nil {
				return err
			}
			running, err := up(ctx, command.OutOrStdout(), background, append([]string{"serve"}, archives(made)...)...)
			if err != nil {
				return err
			}
			if running != nil {
				// It has the images of another day.
				started := time.Now()
				if err := node.Load(ctx, *running, binaries.Runtime, archives(made)...); err != nil {
					return err
				}
				fmt.Fprintf(os.Stderr, "images loaded: %d, in %.1f s; containers that run keep the ones that they have\n", len(made), time.Since(started).Seconds())
			}
			fmt.Fprintln(command.OutOrStdout(), "images:")
			for _, image := range made {
				fmt.Fprintln(command.OutOrStdout(), " ", image.Reference)
			}
			return nil
		},
	}
}

func labDownCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the background cluster and remove everything of it but the logs",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := down(command, ownCluster()); err != nil {
				return err
			}
			return cleanKilled(command.Context(), command.OutOrStdout())
		},
	}
}

// cleanKilled removes what labs that were killed have left, and says so.
func cleanKilled(ctx context.Context, out io.Writer) error {
	root, err := build.CacheRoot()
	if err != nil {
		return err
	}
	dirs, err := filepath.Glob(filepath.Join(runs(root), "*"))
	if err != nil {
		return err
	}
	cleaned, err := node.Clean(ctx, append(dirs, kube.NewBackground(filepath.Join(root, realCluster)).Dir())...)
	for _, dir := range cleaned {
		fmt.Fprintf(out, "removed what a cluster that was killed had left, but for its logs: %s\n", dir)
	}
	return err
}

// tidyUp is cleanKilled on the way to something else, which does not need it.
func tidyUp(ctx context.Context) {
	if err := cleanKilled(ctx, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
	}
}

func labStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Tell how the background cluster is; fails unless it is healthy",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return status(command, ownCluster()) },
	}
}

func labInfoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "info",
		Short: "Tell where the background cluster is, as the line of JSON that \"run\" writes",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			background, err := background(ownCluster())
			if err != nil {
				return err
			}
			info, err := background.Info()
			if err != nil {
				return err
			}
			return json.NewEncoder(command.OutOrStdout()).Encode(info)
		},
	}
}

// ownCluster is the background cluster that "up" starts for this user.
func ownCluster() string {
	if os.Geteuid() != 0 {
		return standInCluster
	}
	return realCluster
}

// realInfo is about the background cluster that runs, if it has a real node.
func realInfo() (kube.Info, error) {
	if os.Geteuid() != 0 {
		return kube.Info{}, node.ErrNotRoot
	}
	background, err := background(realCluster)
	if err != nil {
		return kube.Info{}, err
	}
	return background.Info()
}

func labRunCommand() *cobra.Command {
	var dir string
	var install, load []string
	var ours bool
	command := &cobra.Command{
		Use:   "run",
		Short: "Run a real cluster until standard input ends, for tests; needs root",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := whileInput(command)
			defer stop()
			if err := checkLab(ctx); err != nil {
				return err
			}
			dir, err := runDir(ctx, dir)
			if err != nil {
				return err
			}
			wanted := []images.Recipe{images.Pause}
			if ours {
				wanted = allImages()
			}
			made, err := makeImages(ctx, wanted)
			if err != nil {
				return err
			}
			binaries, err := labBinaries(ctx)
			if err != nil {
				return err
			}
			return node.Run(ctx, dir, binaries, tellReady(command.OutOrStdout()), labOptions(append(archives(made), load...), install))
		},
	}
	command.Flags().StringVar(&dir, "dir", "", "directory of the cluster (default: a new one in the lab's cache)")
	command.Flags().StringArrayVar(&install, "install", nil, "manifests that the cluster begins with, a file or a directory (may be repeated)")
	command.Flags().BoolVar(&ours, "images", false, "give the node the images of this tree, as \"up\" does")
	command.Flags().StringArrayVar(&load, "load", nil, "OCI archive of an image that the node begins with, besides the pause image (may be repeated)")
	return command
}

func labOptions(load, install []string) node.Options {
	return node.Options{Archives: load, Install: install, Init: []string{"init"}}
}

func serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "serve ARCHIVE...",
		Short:  "Be the supervisor that \"up\" starts",
		Hidden: true,
		RunE: func(command *cobra.Command, archives []string) error {
			ctx, stop := interruptible(command.Context())
			defer stop()
			background, err := background(realCluster)
			if err != nil {
				return err
			}
			binaries, err := labBinaries(ctx)
			if err != nil {
				return err
			}
			return background.Serve(ctx, func(ready func(kube.Info) error) error {
				return node.Run(ctx, background.Dir(), binaries, ready, labOptions(archives, nil))
			}, tellReady(command.OutOrStdout()))
		},
	}
}

func initCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "init DIR",
		Short:  "Be the first process of a real cluster",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, arguments []string) error {
			return node.Init(arguments[0], "inside", arguments[0])
		},
	}
}

func insideCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "inside DIR",
		Short:  "Be the supervisor inside a real cluster",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			return node.Inside(command.Context(), arguments[0])
		},
	}
}

func labExecCommand() *cobra.Command {
	var member int
	command := &cobra.Command{
		Use:   "exec -- COMMAND [ARGUMENT...]",
		Short: "Run a command of this machine in the network of the background cluster, or of another",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			ctx, stop := interruptible(command.Context())
			defer stop()
			inner := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
			inner.Stdin, inner.Stdout, inner.Stderr = os.Stdin, os.Stdout, os.Stderr
			// Ended by its input or by a signal, it may still have something to tell.
			inner.Cancel = func() error { return inner.Process.Signal(syscall.SIGTERM) }
			if member == 0 {
				info, err := realInfo()
				if err != nil {
					return err
				}
				member = info.Components["lab"]
				inner.Env = append(os.Environ(), "KUBECONFIG="+info.Kubeconfig)
			}
			return node.Exec(member, inner)
		},
	}
	command.Flags().IntVar(&member, "process", 0, "a process of another cluster, as \"run\" tells them, for example that of \"lab\"")
	return command
}

func labLoadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "load ARCHIVE...",
		Short: "Give the node of the background cluster images, from OCI archives",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, archives []string) error {
			ctx, stop := interruptible(command.Context())
			defer stop()
			info, err := realInfo()
			if err != nil {
				return err
			}
			builder, err := newBuilder()
			if err != nil {
				return err
			}
			runtime, err := builder.Runtime(ctx)
			if err != nil {
				return err
			}
			defer runtime.Release()
			return node.Load(ctx, info, runtime, archives...)
		},
	}
}

func labBinaries(ctx context.Context) (node.Binaries, error) {
	builder, err := newBuilder()
	if err != nil {
		return node.Binaries{}, err
	}
	runtime, err := builder.Runtime(ctx)
	if err != nil {
		return node.Binaries{}, err
	}
	controlPlane, err := builder.ControlPlane(ctx)
	if err != nil {
		runtime.Release()
		return node.Binaries{}, err
	}
	return node.Binaries{ControlPlane: controlPlane, Runtime: runtime}, nil
}
