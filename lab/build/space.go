package build

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const gigabyte = 1 << 30

// checkSpace fails when one of the directories lies on a file system that is too
// full to build from nothing. Finding out after eight minutes would be unkind.
func checkSpace(component string, need uint64, dirs ...string) error {
	for _, dir := range dirs {
		free, err := freeSpace(dir)
		if err != nil {
			continue // Unknown is not full; the build will tell.
		}
		if free < need {
			return fmt.Errorf("not enough disk space to build %s: %s has %.1f GB free, a first build needs about %.0f GB: free some, or move the caches (GOCACHE, GOMODCACHE, SEI_LAB_CACHE)",
				component, dir, float64(free)/gigabyte, float64(need)/gigabyte)
		}
	}
	return nil
}

// freeSpace looks at the nearest parent that exists, because the caches may not exist yet.
func freeSpace(dir string) (uint64, error) {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, err
	}
	return stat.Bavail * uint64(stat.Bsize), nil
}
