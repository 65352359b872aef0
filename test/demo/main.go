// Command demo shows the operator at work on this machine: a real cluster, a chain of
// four validators, a fleet of full nodes, and the stories that the operator is for,
// each with the time it took. It leaves the chain running.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sei-operator/sei-operator/test/live"
)

// chainID is that of the chain, and the name of its namespace.
const chainID = "devchain-1"

// load is how many transactions per second the chain has to carry meanwhile.
const load = 20

func main() {
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, `The demo runs containers, so it needs root: "sudo make demo" (in containers and virtual machines you may be root already).`)
		fmt.Fprintln(os.Stderr, `Without root, "make lab-up" starts a control plane with stand-in nodes to look at.`)
		os.Exit(1) //nolint:gocritic // nothing was begun
	}
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "\nthe demo ended early: %v\n", err)
		fmt.Fprintln(os.Stderr, `What runs is left to look at; "make demo-down" ends it.`)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	d := &demo{out: out, started: time.Now()}
	d.say("building the lab, and a real cluster with it (the first time this takes about 25 minutes)")
	if d.cluster, err = live.Up(ctx, out); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.cluster.Close()) }()
	d.say("the cluster runs: Kubernetes %s, one node, containerd and runc", d.cluster.Info.Version)
	err = d.cluster.Client.Get(ctx, types.NamespacedName{Name: chainID}, &corev1.Namespace{})
	if err == nil {
		return errors.New(`there is a chain of an earlier demo: end it with "make demo-down"`)
	} else if client.IgnoreNotFound(err) != nil {
		return err
	}
	for _, story := range d.stories() {
		fmt.Fprintf(out, "\n── %s\n", story.title)
		began := time.Now()
		if err := story.tell(ctx); err != nil {
			return fmt.Errorf("%s: %w", story.title, err)
		}
		d.results = append(d.results, result{story.title, time.Since(began)})
	}
	d.close()
	return d.watcher.Close()
}

// demo is what the stories share.
type demo struct {
	out      io.Writer
	started  time.Time
	cluster  *live.Cluster
	chain    *live.Chain
	watcher  *live.Watcher
	narrator context.CancelFunc
	results  []result
	gaps     []gap
}

type result struct {
	title string
	took  time.Duration
}

type gap struct {
	how  string
	told live.Gap
}

func (d *demo) say(format string, arguments ...any) {
	fmt.Fprintf(d.out, "%7.1f s  %s\n", time.Since(d.started).Seconds(), fmt.Sprintf(format, arguments...))
}

// close sums up, and says how to look around.
func (d *demo) close() {
	d.narrator()
	fmt.Fprintf(d.out, "\n── What it took\n")
	for _, result := range d.results {
		fmt.Fprintf(d.out, "%7.1f s  %s\n", result.took.Seconds(), result.title)
	}
	fmt.Fprintf(d.out, "%7.1f s  all of it, with the cluster\n", time.Since(d.started).Seconds())
	fmt.Fprintf(d.out, "\nA validator that is restarted does not sign for a while:\n")
	for _, gap := range d.gaps {
		fmt.Fprintf(d.out, "  %-28s %s\n", gap.how, gap.told)
	}
	info := d.cluster.Info
	fmt.Fprintf(d.out, `
── The chain goes on. Look around:

  export KUBECONFIG=%s
  alias kubectl='%s --cache-dir=%s'

  kubectl -n %[4]s get snode,snd,snt                   # the nodes, the fleet, what was done to them
  kubectl -n %[4]s describe snode validator-0          # every state explains itself
  kubectl -n %[4]s get snode -w                        # then, elsewhere, delete something of a node
  kubectl -n %[4]s delete statefulset validator-0
  kubectl -n %[4]s logs validator-0-0 -c seid -f
  kubectl -n sei-system logs deployment/sei-operator
  kubectl explain snode.spec

make demo-down ends it.
`, info.Kubeconfig, info.Kubectl, filepath.Join(filepath.Dir(info.Kubeconfig), "kubectl-cache"), chainID)
}
