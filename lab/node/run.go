package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/kube"
	"github.com/sei-operator/sei-operator/lab/process"
)

// Options say what a lab has from the beginning.
type Options struct {
	// Archives are the images that its node has, as OCI archives.
	Archives []string
	// Install are manifests that are there before the controllers start.
	Install []string
	// Init is the command that calls Init; the directory is its last argument.
	Init []string
}

// ports of the lab that are reached from the machine under the same address.
var ports = []int{2379, kube.APIServerPort, portDNSReady, portKubelet, portKubeProxy, 10257, 10259}

// Run runs a cluster with a real node until the context is done or one of its
// daemons dies. When it returns nothing of it is left but the logs. It owns the
// binaries from now on.
func Run(ctx context.Context, dir string, binaries Binaries, ready func(kube.Info) error, options Options) error {
	defer binaries.Release()
	if err := Check(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o755); err != nil {
		return fmt.Errorf("cannot create the lab's directory: %w", err)
	}
	// A link would lead elsewhere in another root file system.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	lock, err := build.TryLock(lockFile(dir))
	if err != nil {
		return fmt.Errorf("%s belongs to another lab: choose another directory: %w", dir, err)
	}
	defer lock.Unlock()
	// What a lab that was killed has left.
	if err := clean(ctx, dir); err != nil {
		return err
	}
	err = run(ctx, dir, binaries, ready, options)
	return errors.Join(err, clean(context.WithoutCancel(ctx), dir), os.Remove(lockFile(dir)))
}

func lockFile(dir string) string { return filepath.Join(dir, "node.lock") }

func run(ctx context.Context, dir string, binaries Binaries, ready func(kube.Info) error, options Options) error {
	network, err := kube.ReserveNetwork(ctx)
	if err != nil {
		return err
	}
	defer network.Release()
	s := setup{
		Dir: dir, Cgroup: CgroupOf(dir), Network: network.Number(), Ports: ports,
	}
	if err := os.MkdirAll(workspace(dir), 0o755); err != nil {
		return err
	}
	if s.Binaries, err = binaries.describe(); err != nil {
		return err
	}
	if s.Install, err = bringIn(dir, "install", options.Install); err != nil {
		return fmt.Errorf("cannot install: %w", err)
	}
	if s.Archives, err = bringIn(dir, "images", options.Archives); err != nil {
		return fmt.Errorf("cannot load images: %w", err)
	}
	if err := errors.Join(s.write(), makeCgroups(s.Cgroup)); err != nil {
		return err
	}
	files, reports, err := handedIn(ctx, network)
	if err != nil {
		return err
	}
	defer func() { _ = reports.Close() }()

	group := process.NewGroup()
	defer group.Stop()
	first, err := group.Start(process.Spec{
		Name: "lab", Path: "/proc/self/exe", Args: append(options.Init, dir), Env: os.Environ(), Dir: "/",
		Log: filepath.Join(dir, "logs", "inside.log"), Files: files, Namespaces: namespaces,
	})
	for _, file := range files {
		_ = file.Close() // The process inside has its own.
	}
	if err != nil {
		return fmt.Errorf("%w: the lab needs namespaces, and this machine does not give them to root", err)
	}
	info, err := hear(ctx, reports, first)
	if err != nil {
		return err
	}
	info.PID = os.Getpid()
	if info.Components, err = outerPIDs(first.PID, info.Components); err != nil {
		return err
	}
	info.Components[first.Name] = first.PID
	if err := ready(info); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-group.Exited():
		return first.Err()
	}
}

// handedIn are the files that the process inside gets: where to report, and the
// machine's ports. The other end of the report comes with them.
func handedIn(ctx context.Context, network *kube.Network) (files []*os.File, reports *os.File, err error) {
	reports, report, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	files = append(files, report)
	for _, port := range ports {
		var file *os.File
		if file, err = listen(ctx, network.Address(port)); err != nil {
			break
		}
		files = append(files, file)
	}
	if err != nil {
		for _, file := range append(files, reports) {
			_ = file.Close()
		}
		return nil, nil, err
	}
	return files, reports, nil
}

func listen(ctx context.Context, address string) (*os.File, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", address)
	if err != nil {
		return nil, fmt.Errorf("%s is taken (%w): find with \"ss -ltnp\" by whom, and end it", address, err)
	}
	defer listener.Close()
	return listener.(*net.TCPListener).File()
}

// startTimeout is beyond that of the cluster inside, which can say more about it.
const startTimeout = 5 * time.Minute

// hear waits for the one report from inside.
func hear(ctx context.Context, reports *os.File, first *process.Process) (kube.Info, error) {
	stop := context.AfterFunc(ctx, func() { _ = reports.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := reports.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		return kube.Info{}, err
	}
	var r report
	err := json.NewDecoder(reports).Decode(&r)
	switch {
	case ctx.Err() != nil:
		return kube.Info{}, fmt.Errorf("the lab was ended before it was ready: %w", context.Cause(ctx))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return kube.Info{}, fmt.Errorf("the lab was not ready after %s; log: %s", startTimeout, first.Log)
	case err != nil:
		return kube.Info{}, first.Err()
	case r.Info == nil:
		return kube.Info{}, errors.New(r.Error)
	}
	return *r.Info, nil
}

// bringIn copies files and directories to where they can be read from inside.
func bringIn(dir, what string, paths []string) ([]string, error) {
	var copies []string
	for i, path := range paths {
		parent := filepath.Join(workspace(dir), what, strconv.Itoa(i))
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return nil, err
		}
		target := filepath.Join(parent, filepath.Base(path))
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case info.IsDir():
			err = os.CopyFS(target, os.DirFS(path))
		case os.Link(path, target) == nil: // The same file system, most often.
		default:
			err = copyFile(target, path)
		}
		if err != nil {
			return nil, err
		}
		copies = append(copies, target)
	}
	return copies, nil
}

func copyFile(target, source string) error {
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return os.WriteFile(target, content, 0o600)
}

// Clean removes what labs that were killed have left, and returns the directories in
// which it found any. It leaves alone directories of labs that run, and those that are
// not a lab's.
func Clean(ctx context.Context, dirs ...string) (cleaned []string, err error) {
	for _, dir := range dirs {
		if _, missing := os.Stat(workspace(dir)); missing != nil {
			continue
		}
		found, failed := cleanUnused(ctx, dir)
		if found {
			cleaned = append(cleaned, dir)
		}
		err = errors.Join(err, failed)
	}
	return cleaned, err
}

func cleanUnused(ctx context.Context, dir string) (unused bool, err error) {
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return false, err
	}
	lock, err := build.TryLock(lockFile(dir))
	if errors.Is(err, build.ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Unlock()
	return true, errors.Join(clean(ctx, dir), os.Remove(lockFile(dir)))
}

// clean removes everything but the logs. The processes are gone, and with them all
// mounts: nothing here leads elsewhere. The cgroups come first, since the workspace
// tells the next one that there may be some.
func clean(ctx context.Context, dir string) error {
	if err := removeCgroups(ctx, CgroupOf(dir)); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(workspace(dir)), kube.Clean(dir))
}
