package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKeyDependsOnEverythingThatIsBuilt(t *testing.T) {
	base := pinned{Component: Etcd, version: "v3", goMod: []byte("mod"), goSum: []byte("sum")}
	tools := toolchain{"go1.99", "linux", "amd64"}
	want := base.key(tools)
	if again := base.key(tools); again != want {
		t.Errorf("not stable: %s, then %s", want, again)
	}
	with := func(change func(*pinned, *toolchain)) string {
		p, t := base, tools
		change(&p, &t)
		return p.key(t)
	}
	for name, key := range map[string]string{
		"go.mod":     with(func(p *pinned, _ *toolchain) { p.goMod = []byte("mod2") }),
		"go.sum":     with(func(p *pinned, _ *toolchain) { p.goSum = []byte("sum2") }),
		"boundaries": with(func(p *pinned, _ *toolchain) { p.goMod, p.goSum = []byte("mods"), []byte("um") }),
		"flags":      with(func(p *pinned, _ *toolchain) { p.stamp = Kwok.stamp }),
		"tags":       with(func(p *pinned, _ *toolchain) { p.tags = Runc.tags }),
		"cgo":        with(func(p *pinned, _ *toolchain) { p.cgo = true }),
		"code":       with(func(p *pinned, _ *toolchain) { p.code = []byte("package main") }),
		"go version": with(func(_ *pinned, t *toolchain) { t.version = "go1.98" }),
		"GOOS":       with(func(_ *pinned, t *toolchain) { t.os = "plan9" }),
		"GOARCH":     with(func(_ *pinned, t *toolchain) { t.arch = "arm64" }),
	} {
		if key == want {
			t.Errorf("%s does not change the key", name)
		}
	}
}

func TestPinnedModulesAreComplete(t *testing.T) {
	source, err := Source()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Component{Kubernetes, Etcd, Kwok, Containerd, Runc, CNI, CoreDNS} {
		p, err := c.read(source)
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.HasPrefix(p.version, "v") {
			t.Errorf("%s has the version %q", c.Name, p.version)
		}
	}
}

func TestMissingPinIsNamed(t *testing.T) {
	source := t.TempDir()
	dir := filepath.Join(source, Etcd.Name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "go.mod", "module x\n")
	write(t, dir, "go.sum", "")
	_, err := Etcd.read(source)
	if err == nil {
		t.Fatal("no error")
	}
	contains(t, err.Error(), "does not require go.etcd.io/etcd/server/v3", dir)
}

func TestKubernetesIsStampedWithItsVersion(t *testing.T) {
	flags := strings.Join(Kubernetes.flags("v1.37.1"), " ")
	contains(t, flags,
		"k8s.io/component-base/version.gitVersion=v1.37.1",
		"k8s.io/component-base/version.gitMajor=1",
		"k8s.io/component-base/version.gitMinor=37",
		"k8s.io/client-go/pkg/version.gitVersion=v1.37.1")
}

func TestCacheRoot(t *testing.T) {
	t.Setenv("SEI_LAB_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", "/xdg")
	if root, err := CacheRoot(); err != nil || root != "/xdg/sei-operator/lab" {
		t.Errorf("%s, %v", root, err)
	}
	t.Setenv("SEI_LAB_CACHE", "/elsewhere")
	if root, err := CacheRoot(); err != nil || root != "/elsewhere" {
		t.Errorf("%s, %v", root, err)
	}
}
