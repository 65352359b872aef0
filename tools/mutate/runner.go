package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// patience is how long the tests of a mutant may take: a break may make them run for
// ever.
const patience = 30 * time.Second

// fate is what became of a mutant.
type fate string

const (
	killed fate = "killed"
	// timedOut: its tests did not end. That counts as killed, but a busy machine may
	// have had its hand in it.
	timedOut fate = "timed out"
	survived fate = "survived"
	// invalid: it does not compile, and does not count.
	invalid fate = "invalid"
)

// runner tests the mutants of one package.
type runner struct {
	pkg     string
	args    []string
	workers int
	temp    string
	// dir and name are those of the package.
	dir, name string
}

// find finds all mutants of the package whose description matches.
func (r *runner) find(ctx context.Context, only *regexp.Regexp) ([]*mutant, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-json=Dir,Name,GoFiles", r.pkg).Output()
	if err != nil {
		return nil, fmt.Errorf("finding the files of %s: %w", r.pkg, err)
	}
	var listed struct {
		Dir, Name string
		GoFiles   []string
	}
	if err := json.Unmarshal(out, &listed); err != nil {
		return nil, err
	}
	r.dir, r.name = listed.Dir, listed.Name
	var all []*mutant
	for _, name := range listed.GoFiles {
		path := filepath.Join(listed.Dir, name)
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		found, err := mutantsOf(path, content)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			if only.MatchString(m.what) {
				all = append(all, m)
				m.id = len(all)
			}
		}
	}
	return all, nil
}

// testAll tests all mutants, some at a time.
func (r *runner) testAll(ctx context.Context, mutants []*mutant) (map[*mutant]fate, error) {
	var joined []*mutant
	for _, m := range mutants {
		if m.joins() {
			joined = append(joined, m)
		}
	}
	binary, broken, err := r.compile(ctx, joined)
	if err != nil {
		return nil, err
	}
	if out, err := r.execute(ctx, binary, 0); err != nil {
		return nil, fmt.Errorf("the tests of %s fail before anything is broken: %w\n%s", r.pkg, err, out)
	}
	fates, errs := make([]fate, len(mutants)), make([]error, len(mutants))
	next := make(chan int)
	var wait sync.WaitGroup
	for range r.workers {
		wait.Go(func() {
			for i := range next {
				switch m := mutants[i]; {
				case broken[m] || ctx.Err() != nil:
					fates[i] = invalid
				case m.joins():
					fates[i] = r.testJoined(ctx, binary, m)
				default:
					fates[i], errs[i] = r.testAlone(ctx, m)
				}
			}
		})
	}
	for i := range mutants {
		next <- i
	}
	close(next)
	wait.Wait()
	result := map[*mutant]fate{}
	for i, m := range mutants {
		result[m] = fates[i]
	}
	return result, errors.Join(append(errs, ctx.Err())...)
}

// compile makes a test binary with all these mutants, and tells which of them do not
// compile.
func (r *runner) compile(ctx context.Context, mutants []*mutant) (binary string, broken map[*mutant]bool, err error) {
	binary, broken = filepath.Join(r.temp, "mutants.test"), map[*mutant]bool{}
	for {
		files := map[*sourceFile][]*mutant{}
		for _, m := range mutants {
			if !broken[m] {
				files[m.file] = append(files[m.file], m)
			}
		}
		contents := map[string][]byte{filepath.Join(r.dir, "active_mutant.go"): []byte(chooser(r.name))}
		lines := map[string]map[int]*mutant{}
		for file, of := range files {
			contents[file.path], lines[filepath.Base(file.path)] = combined(file, of)
		}
		overlay, err := r.overlay("all", contents)
		if err != nil {
			return "", nil, err
		}
		out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-gcflags=-e", "-o", binary, "-overlay="+overlay, r.pkg).CombinedOutput()
		if err == nil {
			return binary, broken, nil
		}
		if blame(string(out), lines, broken) == 0 {
			return "", nil, fmt.Errorf("%s with all mutants does not compile: %w\n%s", r.pkg, err, out)
		}
	}
}

var position = regexp.MustCompile(`(?m)([^/\s]+\.go):(\d+):\d+: `)

// blame finds the mutants that the compiler complains about, and counts those that
// are new.
func blame(out string, lines map[string]map[int]*mutant, broken map[*mutant]bool) (found int) {
	for _, match := range position.FindAllStringSubmatch(out, -1) {
		line, _ := strconv.Atoi(match[2])
		for ; line > 0; line-- {
			if m := lines[match[1]][line]; m != nil {
				if !broken[m] {
					broken[m] = true
					found++
				}
				break
			}
		}
	}
	return found
}

// overlay makes the compiler see these files.
func (r *runner) overlay(name string, contents map[string][]byte) (string, error) {
	dir := filepath.Join(r.temp, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	replace := map[string]string{}
	for path, content := range contents {
		replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[path], content, 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// testJoined tests a mutant that is in the binary.
func (r *runner) testJoined(ctx context.Context, binary string, m *mutant) fate {
	return fateOf(r.execute(ctx, binary, m.id))
}

// fateOf tells what became of a mutant from what its tests printed.
func fateOf(out string, err error) fate {
	switch {
	case err == nil:
		return survived
	case strings.Contains(out, "[build failed]"):
		return invalid
	case strings.Contains(out, "panic: test timed out"):
		return timedOut
	}
	return killed
}

// execute runs the tests in the binary.
func (r *runner) execute(ctx context.Context, binary string, id int) (string, error) {
	command := exec.CommandContext(ctx, binary, append([]string{"-test.failfast", "-test.timeout=" + patience.String()}, r.args...)...)
	command.Dir = r.dir
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, id))
	out, err := command.CombinedOutput()
	return string(out), err
}

// testAlone compiles and tests one mutant.
func (r *runner) testAlone(ctx context.Context, m *mutant) (fate, error) {
	overlay, err := r.overlay(strconv.Itoa(m.id), map[string][]byte{m.file.path: m.alone()})
	if err != nil {
		return invalid, err
	}
	args := []string{"test", "-count=1", "-vet=off", "-failfast", "-timeout=" + patience.String(), "-overlay=" + overlay, r.pkg}
	out, err := exec.CommandContext(ctx, "go", append(args, r.args...)...).CombinedOutput()
	return fateOf(string(out), err), nil
}
