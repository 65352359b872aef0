package node

import (
	"errors"
	"os"
)

// ErrNotRoot tells that a real node cannot run.
var ErrNotRoot = errors.New("a real node needs root: kubelet and containerd mount file systems, make network interfaces and limit memory")

// Check tells what is missing before a real node can run, of what nobody can install.
func Check() error {
	if os.Geteuid() != 0 {
		return ErrNotRoot
	}
	_, err := cgroupRoots()
	return err
}
