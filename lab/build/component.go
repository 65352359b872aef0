// Package build turns the pinned modules below this directory into binaries,
// once per user: a later call with the same pins finds them in a cache.
//
// The directories kubernetes, etcd and kwok are Go modules without code. Their
// go.mod names what is built in tool directives, and their go.sum makes it
// reproducible, so no binary is ever downloaded.
package build

import (
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
}

// The components of the control plane.
var (
	Kubernetes = Component{
		Name:     "kubernetes",
		Module:   "k8s.io/kubernetes",
		Binaries: []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"},
		space:    6 * gigabyte, // 3.8 + 1.0 + 0.4 were measured.
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
	return []string{"-trimpath", "-ldflags=" + strings.Join(ldflags, " ")}
}

// pinned is a component as its module files pin it.
type pinned struct {
	Component
	dir     string
	version string
	goMod   []byte
	goSum   []byte
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
	requirement := regexp.MustCompile(`(?m)^\s*(?:require\s+)?` + regexp.QuoteMeta(c.Module) + `\s+(v\S+)`)
	match := requirement.FindSubmatch(p.goMod)
	if match == nil {
		return pinned{}, fmt.Errorf("%s does not require %s: restore the file from git", filepath.Join(p.dir, "go.mod"), c.Module)
	}
	p.version = string(match[1])
	return p, nil
}
