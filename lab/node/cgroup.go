package node

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupPrefix begins the name of every cgroup that is ours.
const cgroupPrefix = "sei-operator-lab-"

// CgroupOf is the name of the cgroup above all pods. It follows from the directory,
// so that whoever finds the directory of a lab that was killed finds this, too.
func CgroupOf(dir string) string {
	return fmt.Sprintf("%s%x", cgroupPrefix, sha256.Sum256([]byte(dir)))[:len(cgroupPrefix)+8]
}

// cgroupRoots are the hierarchies of this machine: one with cgroup v2, one for each
// controller with v1, and both on some machines.
func cgroupRoots() ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var roots []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		// 30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw
		before, after, found := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if !found || len(fields) < 5 || !strings.HasPrefix(fields[4], "/sys/fs/cgroup") {
			continue
		}
		if strings.HasPrefix(after, "cgroup ") || strings.HasPrefix(after, "cgroup2 ") {
			roots = append(roots, fields[4])
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(roots) == 0 {
		return nil, errors.New("no cgroups are mounted at /sys/fs/cgroup: mount them, as every distribution does (mount -t cgroup2 none /sys/fs/cgroup)")
	}
	return roots, nil
}

func makeCgroups(name string) error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("cannot make a cgroup for pods: %w", err)
		}
	}
	return nil
}

// removeCgroups removes the cgroups and those below. Whoever was in them has ended,
// but the kernel may need a moment to notice.
func removeCgroups(ctx context.Context, name string) error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for _, root := range roots {
		for {
			err := removeTree(filepath.Join(root, name))
			if err == nil {
				break
			}
			if !errors.Is(err, unix.EBUSY) {
				return fmt.Errorf("cannot remove a cgroup of pods: %w", err)
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("cannot remove a cgroup of pods, somebody is still in it: %w", err)
			case <-ticker.C:
			}
		}
	}
	return nil
}

// removeTree removes directories, the deepest first. The files in them are the
// kernel's and go by themselves.
func removeTree(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}
