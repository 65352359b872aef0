package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Recipe is an image of one Go program of this repository.
type Recipe struct {
	// Name is that of the image and of the program in it.
	Name string
	// Tag is the image's own, if it is not the one that all images get.
	Tag string
	// Module is the directory of the program's module in the repository, Package the
	// one of its main package in the module.
	Module, Package string
	// Also are the main packages, of the same module, of programs that the first one
	// starts. They are named after their directories.
	Also []string
	// Stamp sets variables of the program, as -ldflags=-X does. A value may contain
	// {tag}.
	Stamp []string
	User  int
}

// Catalogue are the images of the project, which "make images" makes and every lab has.
func Catalogue() []Recipe {
	return []Recipe{
		{Name: "sei-operator", Module: ".", Package: "./cmd/sei-operator", Stamp: []string{"main.version={tag}"}, User: NonRoot},
		sidecar,
		{Name: "seid", Tag: "v1", Module: "lab/devchain", Package: "./cmd/seid", Stamp: []string{"main.version={tag}"}, User: NonRoot},
		{Name: "seid", Tag: "v2", Module: "lab/devchain", Package: "./cmd/seid", Stamp: []string{"main.version={tag}"}, User: NonRoot},
	}
}

var sidecar = Recipe{Name: "sei-sidecar", Module: ".", Package: "./cmd/sei-sidecar", Also: []string{"./cmd/sei-rbac-proxy"}, Stamp: []string{"main.version={tag}"}, User: NonRoot}

// NextSidecar is the sidecar of another operator, for which a story has every node roll.
func NextSidecar() Recipe {
	next := sidecar
	next.Tag = "next"
	return next
}

// Pause is what holds the namespaces of a pod.
var Pause = Recipe{Name: "pause", Tag: "1", Module: "lab", Package: "./images/pause", User: NonRoot}

// StateSize is what measures a volume in the stories, as a Job of a person's would.
var StateSize = Recipe{Name: "state-size", Tag: "1", Module: "lab", Package: "./images/statesize", User: NonRoot}

// Maker makes images.
type Maker struct {
	// Repository is the beginning of every image's name, Tag the end of those that
	// have none of their own.
	Repository, Tag string
	// Out is the directory of the archives.
	Out string
	// Programs is the directory in which programs stay, if they are to stay: what has
	// not changed is then not linked again.
	Programs string
}

// Made is an image that was made.
type Made struct {
	Reference string
	Archive   string
}

// Make builds the program of a recipe and writes the image's archive.
func (m Maker) Make(ctx context.Context, recipe Recipe) (Made, error) {
	root, err := Repository()
	if err != nil {
		return Made{}, err
	}
	tag := recipe.Tag
	if tag == "" {
		tag = m.Tag
	}
	programs := m.Programs
	if programs == "" {
		if programs, err = os.MkdirTemp("", "lab-image-"); err != nil {
			return Made{}, err
		}
		defer func() { _ = os.RemoveAll(programs) }()
	}
	target := programDir + "/" + recipe.Name
	var files []File
	for i, pkg := range append([]string{recipe.Package}, recipe.Also...) {
		name := recipe.Name
		if i > 0 {
			name = filepath.Base(pkg)
		}
		program := filepath.Join(programs, name+"-"+tag)
		if err := build(ctx, filepath.Join(root, recipe.Module), pkg, recipe.Stamp, tag, program); err != nil {
			return Made{}, err
		}
		files = append(files, File{Path: programDir + "/" + name, Source: program, Mode: 0o755})
	}
	made := Made{
		Reference: m.Repository + "/" + recipe.Name + ":" + tag,
		Archive:   filepath.Join(m.Out, recipe.Name+"-"+tag+".tar"),
	}
	return made, WriteArchive(made.Archive, made.Reference, Image{
		Files:      files,
		Entrypoint: []string{target},
		User:       recipe.User,
	})
}

// build builds a program that needs nothing of the image that it is in.
func build(ctx context.Context, dir, pkg string, stamp []string, tag, out string) error {
	ldflags := []string{"-s", "-w"}
	for _, variable := range stamp {
		ldflags = append(ldflags, "-X", strings.ReplaceAll(variable, "{tag}", tag))
	}
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags="+strings.Join(ldflags, " "), "-o", out, pkg)
	command.Dir = dir
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH, "GOWORK=off", "GOFLAGS=-mod=readonly")
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot build %s (%w):\n%s", pkg, err, output)
	}
	return nil
}

// Repository finds the repository: two directories above this very file.
func Repository() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if ok && filepath.IsAbs(file) {
		root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
		if _, err := os.Stat(filepath.Join(root, "lab", "go.mod")); err == nil {
			return root, nil
		}
	}
	return "", errors.New("the lab cannot find the repository (moved, or built with -trimpath): run it as \"go run -C lab .\" in the repository")
}
