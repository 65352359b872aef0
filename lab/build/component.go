// Package build turns the pinned modules below this directory into binaries,
// once per user: a later call with the same pins finds them in a cache.
//
// The directories next to this file are Go modules without code, or almost. Their
// go.mod names what is built in tool directives, and their go.sum makes it
// reproducible, so no binary is ever downloaded.
package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Component is one pinned module.
type Component struct {
	// Name is also the directory of the module, next to this file.
	Name string
	// Module is the dependency whose version is the component's version.
	Module string
	// Binaries are the files the build must give.
	Binaries []string
	// space is what a build from nothing takes on disk, with some air: build
	// cache, module sources and binaries.
	space uint64
	// stamp lists the variables that tell the binaries their own version.
	stamp func(version string) []string
	// tags are build tags.
	tags []string
	// cgo says that there is C in it, for which a compiler and headers have to be there.
	cgo bool
}

// The components of the control plane.
var (
	Kubernetes = Component{
		Name:     "kubernetes",
		Module:   "k8s.io/kubernetes",
		Binaries: []string{"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet"},
		space:    6 * gigabyte, // 3.8 + 1.0 + 0.5 were measured.
		stamp:    stampKubernetes,
	}
	Etcd = Component{
		Name:   "etcd",
		Module: "go.etcd.io/etcd/server/v3",
		// The go command names a binary after its import path.
		Binaries: []string{"server"},
		space:    1 * gigabyte,
	}
	Kwok = Component{
		Name:     "kwok",
		Module:   "sigs.k8s.io/kwok",
		Binaries: []string{"kwok"},
		space:    2 * gigabyte,
		stamp: func(version string) []string {
			return []string{"sigs.k8s.io/kwok/pkg/consts.Version=" + version}
		},
	}
)

// The components of a node, besides kubelet and kube-proxy, which are Kubernetes.
var (
	Containerd = Component{
		Name:     "containerd",
		Module:   "github.com/containerd/containerd/v2",
		Binaries: []string{"containerd", "containerd-shim-runc-v2", "ctr"},
		space:    2 * gigabyte,
		tags:     []string{"no_btrfs", "no_zfs"},
	}
	Runc = Component{
		Name:     "runc",
		Module:   "github.com/opencontainers/runc",
		Binaries: []string{"runc"},
		space:    1 * gigabyte,
		// Without it, every pod with the runtime's seccomp profile is refused.
		tags: []string{"seccomp"},
		cgo:  true,
	}
	CNI = Component{
		Name:     "cni",
		Module:   "github.com/containernetworking/plugins",
		Binaries: []string{"ptp", "host-local"},
		space:    1 * gigabyte,
	}
	CoreDNS = Component{
		Name:     "coredns",
		Module:   "github.com/coredns/coredns",
		Binaries: []string{"coredns"},
		space:    2 * gigabyte,
	}
)

// stampKubernetes does what the release scripts of Kubernetes do. Without it the
// server calls itself v0.0.0-master, and clients that compare versions misbehave.
func stampKubernetes(version string) []string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	var variables []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		variables = append(variables,
			pkg+".gitVersion="+version,
			pkg+".gitMajor="+major,
			pkg+".gitMinor="+minor,
			pkg+".gitTreeState=clean",
			pkg+".gitCommit=unknown",
		)
	}
	return variables
}

// flags are the arguments of "go build" that decide what comes out.
func (c Component) flags(version string) []string {
	ldflags := []string{"-s", "-w"}
	if c.stamp != nil {
		for _, variable := range c.stamp(version) {
			ldflags = append(ldflags, "-X", variable)
		}
	}
	flags := []string{"-trimpath", "-ldflags=" + strings.Join(ldflags, " ")}
	if len(c.tags) > 0 {
		flags = append(flags, "-tags="+strings.Join(c.tags, ","))
	}
	return flags
}

// settings are the variables of the environment that decide what comes out.
func (c Component) settings() []string {
	if c.cgo {
		return []string{"CGO_ENABLED=1"}
	}
	return nil
}

// pinned is a component as its module files pin it.
type pinned struct {
	Component
	dir     string
	version string
	goMod   []byte
	goSum   []byte
	// code is the module's own, if it has any.
	code []byte
}

func (c Component) read(source string) (pinned, error) {
	p := pinned{Component: c, dir: filepath.Join(source, c.Name)}
	var err error
	if p.goMod, err = os.ReadFile(filepath.Join(p.dir, "go.mod")); err != nil {
		return pinned{}, fmt.Errorf("cannot read what %s to build: %w", c.Name, err)
	}
	if p.goSum, err = os.ReadFile(filepath.Join(p.dir, "go.sum")); err != nil {
		return pinned{}, fmt.Errorf("cannot read the checksums of %s: %w", c.Name, err)
	}
	if p.code, err = os.ReadFile(filepath.Join(p.dir, "main.go")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return pinned{}, fmt.Errorf("cannot read the code of %s: %w", c.Name, err)
	}
	requirement := regexp.MustCompile(`(?m)^\s*(?:require\s+)?` + regexp.QuoteMeta(c.Module) + `\s+(v\S+)`)
	match := requirement.FindSubmatch(p.goMod)
	if match == nil {
		return pinned{}, fmt.Errorf("%s does not require %s: restore the file from git", filepath.Join(p.dir, "go.mod"), c.Module)
	}
	p.version = string(match[1])
	return p, nil
}
