package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// namespaces are all but the user's: the lab is root, as a node is.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// ownDirectories of the root are not the machine's.
var ownDirectories = []string{"dev", "proc", "run", "sys", "tmp", "var", "lost+found"}

// enterRoot moves this process and its descendants to a root file system of their
// own. The machine's directories are there, read-only; the ones in which daemons
// leave things are new. The lab's own directory and the binaries are at their usual
// places, also if those are in a directory that is new.
func enterRoot(s setup) error {
	root, variable := filepath.Join(workspace(s.Dir), "root"), filepath.Join(workspace(s.Dir), "var")
	if err := errors.Join(os.MkdirAll(root, 0o755), os.MkdirAll(variable, 0o755)); err != nil {
		return err
	}
	// Nothing we mount is to appear outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make the mounts private: %w", err)
	}
	if err := mount("tmpfs", root, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if err := bindMachine(root); err != nil {
		return err
	}
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"/dev", "dev", "", unix.MS_BIND | unix.MS_REC, ""},
		{"proc", "proc", "proc", 0, ""},
		{"sysfs", "sys", "sysfs", 0, ""},
		{"/sys/fs/cgroup", "sys/fs/cgroup", "", unix.MS_BIND | unix.MS_REC, ""},
		{"tmpfs", "run", "tmpfs", 0, "mode=755"},
		{"tmpfs", "tmp", "tmpfs", 0, "mode=1777"},
		{variable, "var", "", unix.MS_BIND, ""},
	} {
		if err := mount(m.source, filepath.Join(root, m.target), m.kind, m.flags, m.data); err != nil {
			return err
		}
	}
	// Many programs still say /var/run.
	if err := os.Symlink("/run", filepath.Join(root, "var/run")); err != nil {
		return err
	}
	if err := mount(s.Dir, filepath.Join(root, s.Dir), "", unix.MS_BIND, ""); err != nil {
		return err
	}
	for _, binary := range s.Binaries {
		if err := bindReadOnly(binary.Dir, filepath.Join(root, binary.Dir)); err != nil {
			return err
		}
	}
	return pivot(root)
}

// bindMachine shows the machine's directories below root, read-only.
func bindMachine(root string) error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		source, target := filepath.Join("/", entry.Name()), filepath.Join(root, entry.Name())
		switch {
		case slices.Contains(ownDirectories, entry.Name()):
		case entry.Type() == os.ModeSymlink:
			to, err := os.Readlink(source)
			if err != nil {
				return err
			}
			if err := os.Symlink(to, target); err != nil {
				return err
			}
		case entry.IsDir():
			if err := bindReadOnly(source, target); err != nil {
				return err
			}
		}
	}
	return nil
}

func bindReadOnly(source, target string) error {
	if err := mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	readOnly := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	// Before Linux 5.12 the directories stay writable, for root as always.
	if err := unix.MountSetattr(-1, target, unix.AT_RECURSIVE, readOnly); err != nil && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("cannot make %s read-only: %w", source, err)
	}
	return nil
}

func mount(source, target, kind string, flags uintptr, data string) error {
	// A mount point below a directory of the machine exists already, and could not be made.
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("cannot mount %s at %s: %w", source, target, err)
	}
	return nil
}

// pivot makes root the root and forgets the old one.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	// With both names the same, the old root lies over the new one, and is taken away.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("cannot change the root to %s: %w", root, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot leave the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// Among themselves, the containers and the kubelet do see each other's mounts.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("cannot share the mounts: %w", err)
	}
	return nil
}

// kernelSettings are what a kubelet insists on. They belong to the whole machine,
// so it is shown files that say they are as it wants them.
var kernelSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

func pretendKernelSettings() error {
	for name, value := range kernelSettings {
		setting, pretence := filepath.Join("/proc/sys", name), filepath.Join("/run/kernel-settings", name)
		if _, err := os.Stat(setting); err != nil {
			continue // This kernel has no such setting.
		}
		if err := os.MkdirAll(filepath.Dir(pretence), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(pretence, []byte(value+"\n"), 0o444); err != nil {
			return err
		}
		if err := unix.Mount(pretence, setting, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cannot hide %s: %w", setting, err)
		}
	}
	return nil
}
