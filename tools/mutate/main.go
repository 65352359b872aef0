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
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

func main() {
	argued := flag.String("argued", "", "file that says why the survivors it names change nothing")
	only := flag.String("only", "", "break only what this regular expression matches, for example '^backOff: '")
	workers := flag.Int("workers", runtime.NumCPU(), "how many mutants are tested at a time")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, &runner{pkg: flag.Arg(0), args: flag.Args()[1:], workers: *workers}, *only, *argued)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, r *runner, only, argued string) error {
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
	r.temp = temp
	began := time.Now()
	matches, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	mutants, err := r.find(ctx, matches)
	if err != nil {
		return err
	}
	fates, err := r.testAll(ctx, mutants)
	if err != nil {
		return err
	}
	count, open := report(mutants, fates, known)
	fmt.Printf("%d mutants in %s: %d killed, %d timed out, %d survived, of which %d are argued\n",
		len(mutants)-count[invalid], time.Since(began).Round(time.Second), count[killed], count[timedOut], count[survived], count[survived]-open)
	if open > 0 {
		return fmt.Errorf("%d mutants survive without an argument: write a test that kills them, or argue in %q why they change nothing", open, argued)
	}
	return nil
}

// report prints the survivors, and counts all and those that nobody argued about.
func report(mutants []*mutant, fates map[*mutant]fate, known string) (count map[fate]int, open int) {
	count = map[fate]int{}
	for _, m := range mutants {
		count[fates[m]]++
		if fates[m] == timedOut {
			fmt.Printf("timed out %s:%d %s\n", filepath.Base(m.file.path), m.line, m.what)
		}
		if fates[m] != survived {
			continue
		}
		note := "argued"
		if !strings.Contains(known, m.what) {
			open++
			note = "NOT ARGUED"
		}
		fmt.Printf("survived (%s) %s:%d %s\n", note, filepath.Base(m.file.path), m.line, m.what)
	}
	return count, open
}
