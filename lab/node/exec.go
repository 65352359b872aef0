package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/kube"
	"github.com/sei-operator/sei-operator/lab/process"
)

// Exec runs a command of the machine in the lab's network, where pods and Services
// are reached by their addresses. Names are the cluster's DNS server's business,
// which the command does not know of by itself. member is a process of the lab.
func Exec(member int, command *exec.Cmd) error {
	if os.Geteuid() != 0 {
		return ErrNotRoot
	}
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", member))
	if err != nil {
		return fmt.Errorf("cannot find the lab's network: %w", err)
	}
	defer func() { _ = namespace.Close() }()
	failed := make(chan error)
	go func() {
		// This thread is never unlocked, so it ends with the goroutine: it is in the
		// wrong network for anything else.
		runtime.LockOSThread()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			failed <- fmt.Errorf("cannot enter the lab's network: %w", err)
			return
		}
		failed <- command.Run()
	}()
	return <-failed
}

// Load brings images, as OCI archives, into a lab that runs.
func Load(ctx context.Context, info kube.Info, binaries *build.Runtime, archives ...string) error {
	group := process.NewGroup()
	defer group.Stop()
	log := filepath.Join(info.Logs, "images.log")
	// The socket is in the lab's own root file system. Daemons may be restarted, and have
	// other processes then; the first process inside ends with the lab.
	socket := fmt.Sprintf("/proc/%d/root%s", info.Components["lab"], containerdSocket)
	for _, archive := range archives {
		if err := group.Run(ctx, importSpec(binaries, socket, archive, log)); err != nil {
			return fmt.Errorf("cannot import %s: %w", archive, err)
		}
	}
	return nil
}
