package build

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// used makes a directory that was used at some time.
func used(t *testing.T, dir string, lastUse time.Time) string {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, useFile, "")
	if err := os.Chtimes(filepath.Join(dir, useFile), lastUse, lastUse); err != nil {
		t.Fatal(err)
	}
	return dir
}

func checkKept(t *testing.T, kept map[string]bool) {
	t.Helper()
	for dir, want := range kept {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: kept is %t", dir, err == nil)
		}
	}
}

func TestPruneRemovesOnlyWhatNobodyUses(t *testing.T) {
	bin := t.TempDir()
	now := time.Now()
	entry := func(name string, lastUse time.Time) string { return used(t, filepath.Join(bin, name), lastUse) }
	long := now.Add(-2 * keepBuilds)
	current := entry("etcd-v3-current", long)
	unused := entry("etcd-v2-unused", long)
	recent := entry("etcd-v2-recent", now)
	other := entry("kwok-v2-other", long)
	running := entry("etcd-v1-used", now)
	r, err := use(running, "v1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if err := os.Chtimes(filepath.Join(running, useFile), long, long); err != nil {
		t.Fatal(err)
	}

	prune(filepath.Join(bin, "etcd-v*"), current, keepBuilds, now)

	checkKept(t, map[string]bool{current: true, unused: false, recent: true, other: true, running: true})
}

func TestAClaimedDirectoryIsOneProcesssAlone(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "new", "dir")
	first, err := Claim(t.Context(), dir, func(int) { t.Error("waited for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	waited := false
	second, err := Claim(t.Context(), dir, func(holder int) {
		waited = true
		if holder != os.Getpid() {
			t.Errorf("waits for process %d", holder)
		}
		first.Unlock()
	})
	if err != nil {
		t.Fatal(err)
	}
	second.Unlock()
	if !waited {
		t.Error("two had it at once")
	}
}

func TestAClaimRemovesWhatNobodyClaimsAnyMore(t *testing.T) {
	parent := t.TempDir()
	now := time.Now()
	long := now.Add(-2 * keepClaimed)
	unused := used(t, filepath.Join(parent, "unused"), long)
	recent := used(t, filepath.Join(parent, "recent"), now)
	own := used(t, filepath.Join(parent, "own"), long)
	lock, err := Claim(t.Context(), own, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	lock.Unlock()
	checkKept(t, map[string]bool{unused: false, recent: true, own: true})
	// From now on it is used lately.
	other, err := Claim(t.Context(), filepath.Join(parent, "other"), func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	other.Unlock()
	checkKept(t, map[string]bool{own: true})
}
