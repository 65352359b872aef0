// Mutate breaks a package on purpose, in one small way after the other, and runs the
// package's tests each time. A break that no test notices survives: either a test is
// missing, or the break changes nothing, and then the file given with -argued says
// why. It fails when a survivor is not argued.
//
//	go run ./tools/mutate -argued docs/design/mutants.md ./internal/plan -rapid.checks=20
//
// What follows the package is passed to its tests. The source is never touched: the
// compiler sees each break through an overlay.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// patience is how long the tests of a mutant may take: a break may make them run for
// ever.
const patience = 60 * time.Second

// fate is what became of a mutant.
type fate string

const (
	killed   fate = "killed"
	survived fate = "survived"
	// invalid: it does not compile, and does not count.
	invalid fate = "invalid"
)

func main() {
	argued := flag.String("argued", "", "file that says why the survivors it names change nothing")
	only := flag.String("only", "", "break only what has this in its description")
	workers := flag.Int("workers", runtime.NumCPU(), "how many mutants are tested at a time")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := runner{pkg: flag.Arg(0), args: flag.Args()[1:], workers: *workers, only: *only}
	if err := r.run(ctx, *argued); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // nothing is left to be stopped
	}
}

// runner tests the mutants of one package.
type runner struct {
	pkg     string
	args    []string
	workers int
	only    string
}

func (r runner) run(ctx context.Context, argued string) error {
	mutants, err := r.mutants(ctx)
	if err != nil {
		return err
	}
	known := ""
	if argued != "" {
		text, err := os.ReadFile(argued)
		if err != nil {
			return err
		}
		known = string(text)
	}
	temp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) //nolint:errcheck // the system clears it too
	if out, err := r.test(ctx, ""); err != nil {
		return fmt.Errorf("the tests of %s fail before anything is broken: %w\n%s", r.pkg, err, out)
	}
	began := time.Now()
	fates, err := r.testAll(ctx, temp, mutants)
	if err != nil {
		return err
	}
	count, open := report(mutants, fates, known)
	fmt.Printf("%d mutants in %s: %d killed, %d survived, of which %d are argued\n",
		count[killed]+count[survived], time.Since(began).Round(time.Second), count[killed], count[survived], count[survived]-open)
	if open > 0 {
		return fmt.Errorf("%d mutants survive without an argument: write a test that kills them, or argue in %q why they change nothing", open, argued)
	}
	return nil
}

// report prints the survivors, and counts all and those that nobody argued about.
func report(mutants []mutant, fates []fate, known string) (count map[fate]int, open int) {
	count = map[fate]int{}
	for i, m := range mutants {
		count[fates[i]]++
		if fates[i] != survived {
			continue
		}
		note := "argued"
		if !strings.Contains(known, m.what) {
			open++
			note = "NOT ARGUED"
		}
		fmt.Printf("survived (%s) %s:%d %s\n", note, filepath.Base(m.file), m.line, m.what)
	}
	return count, open
}

// mutants are all mutants of the package.
func (r runner) mutants(ctx context.Context) ([]mutant, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-json=Dir,GoFiles", r.pkg).Output()
	if err != nil {
		return nil, fmt.Errorf("finding the files of %s: %w", r.pkg, err)
	}
	var listed struct {
		Dir     string
		GoFiles []string
	}
	if err := json.Unmarshal(out, &listed); err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range listed.GoFiles {
		file := filepath.Join(listed.Dir, name)
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found, err := mutantsOf(file, source)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			if strings.Contains(m.what, r.only) {
				all = append(all, m)
			}
		}
	}
	return all, nil
}

// testAll tests all mutants, some at a time.
func (r runner) testAll(ctx context.Context, temp string, mutants []mutant) ([]fate, error) {
	fates, errs := make([]fate, len(mutants)), make([]error, len(mutants))
	next := make(chan int)
	var wait sync.WaitGroup
	for range r.workers {
		wait.Go(func() {
			for i := range next {
				fates[i], errs[i] = r.testOne(ctx, filepath.Join(temp, fmt.Sprint(i)), mutants[i])
			}
		})
	}
	for i := range mutants {
		next <- i
	}
	close(next)
	wait.Wait()
	return fates, errors.Join(append(errs, ctx.Err())...)
}

// testOne runs the tests against one mutant.
func (r runner) testOne(ctx context.Context, dir string, m mutant) (fate, error) {
	if ctx.Err() != nil {
		return invalid, nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return invalid, err
	}
	broken, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
	content, err := json.Marshal(map[string]any{"Replace": map[string]string{m.file: broken}})
	if err != nil {
		return invalid, err
	}
	if err := errors.Join(os.WriteFile(broken, m.content, 0o600), os.WriteFile(overlay, content, 0o600)); err != nil {
		return invalid, err
	}
	out, err := r.test(ctx, overlay)
	switch {
	case err == nil:
		return survived, nil
	case strings.Contains(out, "[build failed]"):
		return invalid, nil
	}
	return killed, nil
}

// test runs the tests of the package, with a mutant if there is an overlay.
func (r runner) test(ctx context.Context, overlay string) (string, error) {
	args := []string{"test", "-count=1", "-vet=off", "-failfast", "-timeout=" + patience.String()}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	args = append(append(args, r.pkg), r.args...)
	out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	return string(out), err
}
