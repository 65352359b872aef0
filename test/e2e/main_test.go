// Package e2e_test holds the promises of the operator against a real cluster and a live
// chain. A story does what people do, or what happens to them, and then asks the chain:
// heights, application hashes, signatures, evidence; and the cluster about identities.
// That a status says "Ready" proves nothing here.
package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/live"
)

// shared is the cluster of all stories, or nil where there cannot be one.
var shared *live.Cluster

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	log.SetLogger(logr.Discard())
	//nolint:forbidigo // a TestMain is where the context of a test package begins
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := live.Check(ctx); err != nil {
		if live.Required() {
			fmt.Fprintf(os.Stderr, "NOT TESTED, and it is required here: %v\n", err)
			return 1
		}
		fmt.Fprintf(os.Stderr, "\n*** ALL STORIES ARE SKIPPED: nothing is tested end to end here: %v\n\n", err)
		return m.Run()
	}
	var err error
	if shared, err = live.Run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "no cluster to test on: %v\n", err)
		return 1
	}
	// Whoever interrupts it does not want to see every story fail first.
	defer context.AfterFunc(ctx, func() {
		if err := shared.Close(); err != nil {
			fmt.Fprintf(os.Stderr, "the cluster did not end well: %v\n", err)
		}
		os.Exit(1)
	})()
	code := 1
	if err := shared.InstallOperator(ctx, false); err != nil {
		fmt.Fprintf(os.Stderr, "installing the operator: %v\n", err)
	} else {
		code = m.Run()
		report()
		if err := cluster.Refusals(shared.Info.AuditLog); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := shared.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "the cluster did not end well: %v\n", err)
		code = 1
	}
	if code != 0 {
		fmt.Fprintf(os.Stderr, "logs of the cluster, pods included: %s\n", shared.Info.Logs)
	}
	return code
}

// told are the stories that were told, in their order.
var told struct {
	sync.Mutex
	stories []told1
	notes   []string
}

type told1 struct {
	name    string
	outcome string
	took    time.Duration
}

// note keeps a figure for the report.
func note(format string, arguments ...any) {
	told.Lock()
	defer told.Unlock()
	told.notes = append(told.notes, fmt.Sprintf(format, arguments...))
}

// report names every story with its time.
func report() {
	told.Lock()
	defer told.Unlock()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nstory\toutcome\ttime")
	for _, story := range told.stories {
		fmt.Fprintf(table, "%s\t%s\t%.1f s\n", story.name, story.outcome, story.took.Seconds())
	}
	_ = table.Flush() // Nobody can do anything about a terminal that is gone.
	for _, text := range told.notes {
		fmt.Println(text)
	}
}
