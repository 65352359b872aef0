package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sei-operator/sei-operator/lab/kube"
)

// Init is the first process inside: it makes the root file system and the network,
// starts the command that calls Inside, and waits for it and for all orphans. When
// it ends, the kernel ends everything else.
func Init(dir string, inside ...string) error {
	report := os.NewFile(reportDescriptor, "report")
	s, err := readSetup(dir)
	if err == nil {
		err = prepare(s)
	}
	if err != nil {
		return errors.Join(err, tell(report, nil, err))
	}
	// The name leads to this program wherever its file is by now.
	command := exec.Command("/proc/self/exe", inside...) //nolint:noctx // it ends with us
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.ExtraFiles = []*os.File{report}
	for i := range s.Ports {
		command.ExtraFiles = append(command.ExtraFiles, os.NewFile(uintptr(firstPort+i), "port"))
	}
	if err := command.Start(); err != nil {
		return errors.Join(err, tell(report, nil, err))
	}
	return waitForAll(command.Process.Pid)
}

func prepare(s setup) error {
	if err := enterRoot(s); err != nil {
		return err
	}
	if err := pretendKernelSettings(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(nodeName)); err != nil {
		return fmt.Errorf("cannot set the host name: %w", err)
	}
	return makeNetwork(kube.RoutedNetwork(s.Network))
}

// waitForAll waits for every process whose parent has ended, among them the shims of
// pods, until the one that matters ends.
func waitForAll(supervisor int) error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("cannot wait for processes: %w", err)
		case pid == supervisor && status.Exited() && status.ExitStatus() == 0:
			return nil
		case pid == supervisor:
			return fmt.Errorf("the supervisor inside ended: %s", describe(status))
		}
	}
}

func describe(status unix.WaitStatus) string {
	if status.Signaled() {
		return unix.SignalName(status.Signal())
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}

// Inside runs the cluster until it is killed, which is how it ends, or until one of
// its daemons dies.
func Inside(ctx context.Context, dir string) error {
	reporting := os.NewFile(reportDescriptor, "report")
	s, err := readSetup(dir)
	if err != nil {
		return errors.Join(err, tell(reporting, nil, err))
	}
	var forwarding sync.WaitGroup
	defer forwarding.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	network := kube.RoutedNetwork(s.Network)
	for i, port := range s.Ports {
		listener, err := net.FileListener(os.NewFile(uintptr(firstPort+i), "port"))
		if err != nil {
			return errors.Join(err, tell(reporting, nil, err))
		}
		forwarding.Go(func() { forward(ctx, listener, network.Address(port)) })
	}
	b := s.binaries()
	started := false
	err = kube.Run(ctx, s.Dir, b.ControlPlane, func(info kube.Info) error {
		started = true
		return tell(reporting, &info, nil)
	}, kube.Options{
		Install: s.Install,
		Network: network,
		Workers: &worker{runtime: b.Runtime, cgroup: s.Cgroup, archives: s.Archives},
	})
	if err != nil && !started {
		err = errors.Join(err, tell(reporting, nil, err))
	}
	return err
}

func tell(to io.WriteCloser, info *kube.Info, failure error) error {
	r := report{Info: info}
	if failure != nil {
		r.Error = failure.Error()
	}
	return errors.Join(json.NewEncoder(to).Encode(r), to.Close())
}

// forward connects whoever comes to a port of the machine with the same port of the
// lab. A socket stays in the network namespace in which it was made, wherever the
// process is that has it: that is all the connection there is between the two.
func forward(ctx context.Context, listener net.Listener, address string) {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	var connections sync.WaitGroup
	defer connections.Wait()
	for {
		outer, err := listener.Accept()
		if err != nil {
			return // We are ending.
		}
		connections.Go(func() {
			defer outer.Close()
			inner, err := new(net.Dialer).DialContext(ctx, "tcp4", address)
			if err != nil {
				return // Whoever asked sees a closed connection.
			}
			defer inner.Close()
			stop := context.AfterFunc(ctx, func() { outer.Close(); inner.Close() })
			defer stop()
			var copying sync.WaitGroup
			copying.Go(func() { pass(inner, outer) })
			pass(outer, inner)
			copying.Wait()
		})
	}
}

// pass copies until the end and passes that on too, because the other direction may
// not have ended.
func pass(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, ok := to.(*net.TCPConn)
	if err != nil || !ok || half.CloseWrite() != nil {
		to.Close()
		from.Close()
	}
}
