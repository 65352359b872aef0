package node

import (
	"errors"
	"os"
	"os/exec"
)

// ErrNotRoot tells that a real node cannot run.
var ErrNotRoot = errors.New("a real node needs root: kubelet and containerd mount file systems, make network interfaces and limit memory")

// Check tells what is missing on this machine before a real node can run.
func Check() error {
	if os.Geteuid() != 0 {
		return ErrNotRoot
	}
	if _, err := exec.LookPath("nft"); err != nil {
		return errors.New("kube-proxy needs the command nft: install Debian's package nftables, or your distribution's")
	}
	_, err := cgroupRoots()
	return err
}
