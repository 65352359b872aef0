package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Builder gives binaries, from the cache or by building them.
type Builder struct {
	// Root is the cache, see CacheRoot.
	Root string
	// Source holds the pinned modules, see Source.
	Source string
	// Out is told about builds; it stays silent when nothing is built.
	Out io.Writer
	// Terminal says that Out is one.
	Terminal bool
}

// Result is one component in the cache. As long as it is not released, no other
// process removes it.
type Result struct {
	Dir     string
	Version string
	use     *os.File
}

// Path returns the path of one of the component's binaries.
func (r *Result) Path(binary string) string { return filepath.Join(r.Dir, binary) }

// Release allows the binaries to be removed.
func (r *Result) Release() { _ = r.use.Close() }

// Ensure returns the binaries of a component. Of several callers at once one
// builds and the others wait for it.
func (b *Builder) Ensure(ctx context.Context, c Component) (*Result, error) {
	p, err := c.read(b.Source)
	if err != nil {
		return nil, err
	}
	env, err := goEnv(ctx, p.dir, "GOVERSION", "GOOS", "GOARCH", "GOCACHE", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(b.Root, "bin")
	dir := filepath.Join(bin, p.entry(toolchain{env[0], env[1], env[2]}))
	if r, err := use(dir, p.version); err == nil {
		return r, nil
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return nil, fmt.Errorf("cannot create the lab's cache: %w", err)
	}
	lockPath := filepath.Join(bin, c.Name+".lock")
	lock, err := WaitLock(ctx, lockPath, func() {
		holder, _ := Holder(lockPath)
		fmt.Fprintf(b.Out, "waiting for process %d, which is building %s\n", holder, c.Name)
	})
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	// Somebody else may have built it while we waited.
	if r, err := use(dir, p.version); !errors.Is(err, os.ErrNotExist) {
		return r, err
	}
	if err := checkSpace(c.Name, c.space, env[3], env[4], bin); err != nil {
		return nil, err
	}
	if err := b.build(ctx, p, dir); err != nil {
		return nil, err
	}
	prune(filepath.Join(bin, c.Name+"-v*"), dir, keepBuilds, time.Now())
	return use(dir, p.version)
}

// unfinished begins the names of directories that the next build removes.
const unfinished = ".building-"

// build builds next to the final place and moves the result there, so that an
// interrupted build is never taken for a finished one.
func (b *Builder) build(ctx context.Context, p pinned, dir string) error {
	bin := filepath.Dir(dir)
	// We hold the lock, so what lies here was left by a build that was killed.
	prefix := unfinished + p.Name + "-"
	if left, err := filepath.Glob(filepath.Join(bin, prefix+"*")); err == nil {
		for _, old := range left {
			_ = os.RemoveAll(old)
		}
	}
	temporary, err := os.MkdirTemp(bin, prefix)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	out, work := filepath.Join(temporary, "out"), filepath.Join(temporary, "work")
	for _, d := range []string{out, work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}

	progress := &progress{out: b.Out, terminal: b.Terminal, component: p.Name + " " + p.version, started: time.Now()}
	stop := make(chan struct{})
	var background sync.WaitGroup
	background.Go(func() { progress.show(stop) })
	counting, cancel := context.WithCancel(ctx)
	background.Go(func() {
		if n, err := countPackages(counting, p); err == nil {
			progress.setTotal(n)
		}
	})
	err = goBuild(ctx, p, out, work, progress, filepath.Join(bin, p.Name+".log"))
	cancel()
	close(stop)
	background.Wait()
	if err != nil {
		return err
	}

	for _, binary := range p.Binaries {
		if _, err := os.Stat(filepath.Join(out, binary)); err != nil {
			return fmt.Errorf("building %s succeeded but did not give %s: %w", p.Name, binary, err)
		}
	}
	if err := os.WriteFile(filepath.Join(out, useFile), nil, 0o644); err != nil {
		return err
	}
	// What is there without the mark of a finished build was damaged by somebody.
	if err := errors.Join(os.RemoveAll(dir), os.Rename(out, dir)); err != nil {
		return fmt.Errorf("cannot publish %s: %w", p.Name, err)
	}
	fmt.Fprintf(b.Out, "built %s %s in %s\n", p.Name, p.version, time.Since(progress.started).Round(time.Second))
	return nil
}
