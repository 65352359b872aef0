package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sei-operator/sei-operator/lab/process"
)

// environment keeps a person's settings for proxies and caches, and nothing that
// would change what is built.
func environment(extra ...string) []string {
	own := []string{
		"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly",
		// It is to run here, whatever else a person builds for.
		"GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH,
	}
	return slices.Concat(os.Environ(), own, extra)
}

var errNoGo = errors.New("the go command was not found: the lab builds Kubernetes from source; install Go (https://go.dev/dl) and put it on PATH")

// goEnv asks the go command, in the module's directory because go.mod may choose another toolchain.
func goEnv(ctx context.Context, dir string, names ...string) ([]string, error) {
	command := exec.CommandContext(ctx, "go", append([]string{"env"}, names...)...)
	command.Dir = dir
	command.Env = environment()
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	case errors.Is(err, exec.ErrNotFound):
		return nil, errNoGo
	case err != nil:
		return nil, explain("\"go env\"", stderr.String(), err)
	}
	values := strings.Split(strings.TrimRight(string(output), "\n"), "\n")
	if len(values) != len(names) {
		return nil, fmt.Errorf("\"go env\" gave %d values for %d names", len(values), len(names))
	}
	return values, nil
}

// countPackages returns how many packages a build from nothing compiles.
func countPackages(ctx context.Context, p pinned) (int, error) {
	command := exec.CommandContext(ctx, "go", "list", "-deps", "-tags="+strings.Join(p.tags, ","), "tool")
	command.Dir = p.dir
	command.Env = environment(p.settings()...)
	output, err := command.Output()
	return bytes.Count(output, []byte("\n")), err
}

// goBuild builds the tools of the module in dir into out.
func goBuild(ctx context.Context, p pinned, out, temporary string, progress *progress, logPath string) error {
	log, err := os.Create(logPath)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()

	arguments := append([]string{"build", "-v"}, p.flags(p.version)...)
	command := exec.CommandContext(ctx, "go", append(arguments, "-o", out+"/", "tool")...)
	command.Dir = p.dir
	// The work directory lies with ours, so that it is cleaned up with ours when the build is killed.
	command.Env = environment(append(p.settings(), "GOTMPDIR="+temporary)...)
	command.Stdout = log
	command.Stderr = &tee{log, progress}
	// The parent-death signal comes when the thread that forked ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// The whole group, since compilers are children of the go command.
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = 10 * time.Second

	err = command.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("building %s was interrupted: %w", p.Name, context.Cause(ctx))
	case errors.Is(err, exec.ErrNotFound):
		return errNoGo
	case err != nil:
		return fmt.Errorf("%w\nfull output: %s", explain("building "+p.Name, process.Tail(logPath, 15), err), logPath)
	}
	return nil
}

// explain turns output of the go command into an error that says what to do.
func explain(what, output string, err error) error {
	switch {
	case strings.Contains(output, "no space left on device"):
		return fmt.Errorf("%s failed: the disk is full: free some space and run it again; a build from nothing needs several GB", what)
	case strings.Contains(output, "requires go >="):
		return fmt.Errorf("%s failed: the installed Go is too old (%s): install the version it names, or unset GOTOOLCHAIN so that the go command fetches it", what, strings.TrimSpace(output))
	default:
		return fmt.Errorf("%s failed (%w):\n  %s", what, err, strings.ReplaceAll(strings.TrimSpace(output), "\n", "\n  "))
	}
}

type tee struct {
	log      *os.File
	progress *progress
}

func (t *tee) Write(output []byte) (int, error) {
	_, _ = t.progress.Write(output)
	return t.log.Write(output)
}
