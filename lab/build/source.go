package build

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// Source finds the directory of the pinned modules: the one of this very file.
// They cannot be embedded, because go:embed leaves nested modules out.
func Source() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if ok && filepath.IsAbs(file) {
		dir := filepath.Dir(file)
		if _, err := os.Stat(filepath.Join(dir, Kubernetes.Name, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("the lab cannot find its own sources (moved, or built with -trimpath): run it as \"go run -C lab .\" in the repository")
}

// CacheRoot is the directory of everything the lab keeps between runs.
func CacheRoot() (string, error) {
	if root := os.Getenv("SEI_LAB_CACHE"); root != "" {
		return filepath.Abs(root)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", errors.New("no place for the lab's cache: set HOME, XDG_CACHE_HOME or SEI_LAB_CACHE")
	}
	return filepath.Join(cache, "sei-operator", "lab"), nil
}
