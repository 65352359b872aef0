//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/kube"
	"github.com/sei-operator/sei-operator/lab/process"
)

func kubeCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "kube",
		Short: "A Kubernetes control plane with stand-in nodes",
	}
	command.AddCommand(kubeBuildCommand(), kubeUpCommand(), kubeDownCommand(), kubeStatusCommand(), kubeRunCommand(), kubeServeCommand())
	return command
}

func kubeBuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build the control plane into the cache, if it is not there yet",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := interruptible(command.Context())
			defer stop()
			binaries, err := controlPlane(ctx)
			if err != nil {
				return err
			}
			defer binaries.Release()
			for _, result := range []*build.Result{binaries.Kubernetes, binaries.Etcd, binaries.Kwok} {
				fmt.Fprintln(command.OutOrStdout(), result.Dir)
			}
			return nil
		},
	}
}

func kubeRunCommand() *cobra.Command {
	var dir string
	var install []string
	command := &cobra.Command{
		Use:   "run",
		Short: "Run a cluster until standard input ends, for tests",
		Long: `Run a cluster until standard input ends, or until SIGTERM or SIGINT.

When the cluster is ready one line of JSON is written to standard output.
However the command ends, no process of the cluster is left; its data and
credentials are removed, its logs stay.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := whileInput(command)
			defer stop()
			dir, err := runDir(ctx, dir)
			if err != nil {
				return err
			}
			binaries, err := controlPlane(ctx)
			if err != nil {
				return err
			}
			return kube.Run(ctx, dir, binaries, tellReady(command.OutOrStdout()), kube.Options{Install: install})
		},
	}
	command.Flags().StringVar(&dir, "dir", "", "directory of the cluster (default: a new one in the lab's cache)")
	command.Flags().StringArrayVar(&install, "install", nil, "manifests that the cluster begins with, a file or a directory (may be repeated)")
	return command
}

// whileInput ends the context with standard input, and as interruptible does.
func whileInput(command *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, stop := interruptible(command.Context())
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, command.InOrStdin())
		cancel(errors.New("standard input has ended"))
	}()
	return ctx, func() {
		cancel(nil)
		stop()
	}
}

// runDir is the directory for one run: the one that was asked for, or a new one.
func runDir(ctx context.Context, wanted string) (string, error) {
	if wanted != "" {
		return filepath.Abs(wanted)
	}
	root, err := build.CacheRoot()
	if err != nil {
		return "", err
	}
	tidyUp(ctx)
	return kube.NewRunDir(runs(root))
}

// runs are the directories of runs that wanted none of their own.
func runs(root string) string { return filepath.Join(root, "runs") }

// tellReady tells people how long it took, and programs everything else.
func tellReady(out io.Writer) func(kube.Info) error {
	started := time.Now()
	return func(info kube.Info) error {
		fmt.Fprintf(os.Stderr, "cluster ready in %.1f s at %s, logs in %s\n", time.Since(started).Seconds(), info.APIServer, info.Logs)
		return json.NewEncoder(out).Encode(info)
	}
}

func kubeUpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Start a cluster in the background",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return kubeUp(command) },
	}
}

func kubeUp(command *cobra.Command) error {
	ctx, stop := interruptible(command.Context())
	defer stop()
	// Built here, where the person can see it, and kept until the cluster has it.
	binaries, err := controlPlane(ctx)
	if err != nil {
		return err
	}
	defer binaries.Release()
	background, err := background(standInCluster)
	if err != nil {
		return err
	}
	_, err = up(ctx, command.OutOrStdout(), background, "kube", "serve")
	return err
}

// up starts a background cluster by running this program with other arguments. One that
// runs already is returned.
func up(ctx context.Context, out io.Writer, background kube.Background, serve ...string) (running *kube.Info, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	started := time.Now()
	info, already, err := background.Up(ctx, exec.CommandContext(context.WithoutCancel(ctx), self, serve...))
	if err != nil {
		return nil, err
	}
	if already {
		running = &info
		fmt.Fprintf(out, "the cluster runs already: Kubernetes %s at %s\n", info.Version, info.APIServer)
	} else {
		fmt.Fprintf(out, "the cluster is ready after %.1f s: Kubernetes %s at %s\n", time.Since(started).Seconds(), info.Version, info.APIServer)
	}
	fmt.Fprintf(out, "\n  export KUBECONFIG=%s\n  alias kubectl='%s --cache-dir=%s'\n\nlogs: %s\n",
		info.Kubeconfig, info.Kubectl, filepath.Join(filepath.Dir(info.Kubeconfig), "kubectl-cache"), info.Logs)
	return running, nil
}

func kubeServeCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "serve",
		Short:  "Be the supervisor that \"up\" starts",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := interruptible(command.Context())
			defer stop()
			background, err := background(standInCluster)
			if err != nil {
				return err
			}
			binaries, err := controlPlane(ctx)
			if err != nil {
				return err
			}
			return background.Serve(ctx, func(ready func(kube.Info) error) error {
				return kube.Run(ctx, background.Dir(), binaries, ready, kube.Options{})
			}, tellReady(command.OutOrStdout()))
		},
	}
}

func kubeDownCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the background cluster",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return down(command, standInCluster) },
	}
}

func down(command *cobra.Command, which string) error {
	ctx, stop := interruptible(command.Context())
	defer stop()
	background, err := background(which)
	if err != nil {
		return err
	}
	started := time.Now()
	err = background.Down(ctx)
	if errors.Is(err, kube.ErrNotRunning) {
		fmt.Fprintln(command.OutOrStdout(), "no cluster is running")
		return nil
	}
	if err == nil {
		fmt.Fprintf(command.OutOrStdout(), "the cluster has ended after %.1f s\n", time.Since(started).Seconds())
	}
	return err
}

func kubeStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Tell how the background cluster is; fails unless it is healthy",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return status(command, standInCluster) },
	}
}

func status(command *cobra.Command, which string) error {
	ctx, stop := interruptible(command.Context())
	defer stop()
	background, err := background(which)
	if err != nil {
		return err
	}
	info, err := background.Info()
	if err != nil {
		return err
	}
	health, err := kube.Check(ctx, info)
	if err != nil {
		return err
	}
	return printStatus(command.OutOrStdout(), info, health)
}

func printStatus(out io.Writer, info kube.Info, health []kube.Health) error {
	fmt.Fprintf(out, "Kubernetes %s at %s, process %d\n\n", info.Version, info.APIServer, info.PID)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var unhealthy []string
	for _, h := range health {
		state := "healthy"
		if h.Err != nil {
			state = h.Err.Error()
			unhealthy = append(unhealthy, h.Name)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", h.Name, processOf(info, h.Name), state)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(unhealthy) > 0 {
		return fmt.Errorf("not healthy: %s; logs: %s", strings.Join(unhealthy, ", "), info.Logs)
	}
	return nil
}

// processOf says which process something is. The cluster would not outlive one that
// ended by itself, so one that has ended was restarted.
func processOf(info kube.Info, name string) string {
	pid, ok := info.Components[name]
	switch {
	case !ok:
		return "" // A node.
	case process.Alive(pid):
		return fmt.Sprintf("process %d", pid)
	default:
		return "restarted"
	}
}

// The background clusters, by their directories in the cache.
const (
	standInCluster = "up"
	realCluster    = "lab"
)

func background(which string) (kube.Background, error) {
	root, err := build.CacheRoot()
	if err != nil {
		return kube.Background{}, err
	}
	return kube.NewBackground(filepath.Join(root, which)), nil
}

func controlPlane(ctx context.Context) (*build.ControlPlane, error) {
	builder, err := newBuilder()
	if err != nil {
		return nil, err
	}
	return builder.ControlPlane(ctx)
}

func newBuilder() (*build.Builder, error) {
	root, err := build.CacheRoot()
	if err != nil {
		return nil, err
	}
	source, err := build.Source()
	if err != nil {
		return nil, err
	}
	_, err = unix.IoctlGetTermios(int(os.Stderr.Fd()), unix.TCGETS)
	return &build.Builder{Root: root, Source: source, Out: os.Stderr, Terminal: err == nil}, nil
}

// interruptible ends the context at the signals that ordinarily end a command. A
// reader that went away is an error to clean up after, not a reason to die.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	signal.Ignore(syscall.SIGPIPE)
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}
