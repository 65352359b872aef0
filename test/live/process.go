package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// SeidHome is the home of seid in its container, on the data volume.
const SeidHome = "/home/nonroot/.sei"

var errNoProcess = errors.New("there is no such process")

// Signal sends a signal to every process of that program in a pod. The pods of the lab
// are processes of this machine.
func (c *Cluster) Signal(pod *corev1.Pod, program string, signal syscall.Signal) error {
	found, err := Processes(pod, program)
	if err != nil {
		return err
	}
	for _, pid := range found {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// Kill ends every process of that program in a pod without asking it.
func (c *Cluster) Kill(pod *corev1.Pod, program string) error {
	return c.Signal(pod, program, syscall.SIGKILL)
}

// Another waits until a pod has other processes of a program than it had.
func (c *Cluster) Another(ctx context.Context, pod *corev1.Pod, program string, before []int) error {
	return Poll(ctx, "another "+program+" in "+pod.Name, func() (bool, error) {
		now, err := Processes(pod, program)
		if errors.Is(err, errNoProcess) {
			return false, nil
		}
		return err == nil && !slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(before, pid) }), err
	})
}

// File is where a file of a container is on this machine, by a program that runs in it.
func (c *Cluster) File(pod *corev1.Pod, program, path string) (string, error) {
	found, err := Processes(pod, program)
	if err != nil {
		return "", err
	}
	return filepath.Join("/proc", strconv.Itoa(found[0]), "root", path), nil
}

// Processes finds the processes of a pod by their cgroup, and of a program by its name.
func Processes(pod *corev1.Pod, program string) ([]int, error) {
	all, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, path := range all {
		groups, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(groups, []byte("pod"+string(pod.UID))) {
			continue // It has ended, or is another pod's.
		}
		dir := filepath.Dir(path)
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue
		}
		name, _, _ := strings.Cut(string(line), "\x00")
		if filepath.Base(name) != program {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		found = append(found, pid)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s in the pod %s: %w", program, pod.Name, errNoProcess)
	}
	return found, nil
}
