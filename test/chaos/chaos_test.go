// Package chaos_test does to a live chain under load, for as long as it is told to, what
// happens to nodes and clusters, drawn under a seed. What came of it the chain itself has
// to say: after each fault every validator signs and every node follows, nobody has signed
// twice, all nodes have the same state and the volumes they had. Nobody lends a hand.
package chaos_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/live"
)

var (
	seed   = flag.Uint64("seed", 1, "which faults come, and in which order")
	length = flag.Duration("for", 2*time.Minute, "how long faults come")
)

// load is how many transactions per second the chain carries meanwhile.
const load = 10

// chaos is a chain to which things happen.
type chaos struct {
	*live.Chain

	watcher *live.Watcher
	random  *rand.Rand
	// volumes are the claims that there were after the last fault.
	volumes map[string]types.UID
	// worst is how long it took at most until all was well again, by fault.
	worst map[string]time.Duration
	count int
	// txs is how many transactions the chain had after the last fault.
	txs int
}

func TestChaos(t *testing.T) {
	log.SetLogger(logr.Discard())
	if err := live.Check(t.Context()); err != nil {
		if live.Required() {
			t.Fatal(err)
		}
		t.Skipf("*** SKIPPED: there is no real cluster here: %v", err)
	}
	cluster, err := live.Run(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Close(); err != nil {
			t.Errorf("the cluster did not end well: %v", err)
		}
		if t.Failed() {
			t.Logf("logs of the cluster, pods included: %s", cluster.Info.Logs)
		}
	}()
	c, err := begin(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	err = c.play(t)
	c.tell(t)
	if closing := c.watcher.Close(); err == nil {
		err = closing
	}
	if err != nil {
		t.Fatal(err)
	}
}

// begin brings up the operator, the chain and a fleet.
func begin(ctx context.Context, cluster *live.Cluster) (*chaos, error) {
	if err := cluster.InstallOperator(ctx, false); err != nil {
		return nil, err
	}
	chain, err := cluster.NewChain(ctx, "chaos", 4)
	if err != nil {
		return nil, err
	}
	c := &chaos{Chain: chain, random: rand.New(rand.NewPCG(*seed, 10)), volumes: map[string]types.UID{}, worst: map[string]time.Duration{}}
	if c.watcher, err = chain.Watch(context.WithoutCancel(ctx), load); err != nil {
		return nil, err
	}
	if err := chain.Start(ctx); err != nil {
		return nil, err
	}
	if err := c.watcher.Snapshot(ctx); err != nil {
		return nil, err
	}
	if err := chain.Client.Create(ctx, chain.Fleet(fleet, replicas)); err != nil {
		return nil, err
	}
	if err := c.recovered(ctx); err != nil {
		return nil, err
	}
	return c, c.remember(ctx)
}

// play has one fault after the other happen, until the time is up. The first that the
// operator does not deal with ends it.
func (c *chaos) play(t *testing.T) error {
	t.Helper()
	began := time.Now()
	var deck []fault
	for time.Since(began) < *length {
		if len(deck) == 0 {
			deck = slices.Clone(faults)
			c.random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		one, struck := deck[0], time.Now()
		deck = deck[1:]
		what, err := one.strike(t.Context(), c)
		// Now and then the operator does not live to see what it began.
		if err == nil && c.random.IntN(4) == 0 {
			what += ", and the operator is killed"
			_, err = c.KillOperator(t.Context())
		}
		if err == nil {
			err = c.recovered(t.Context())
		}
		if err == nil {
			err = c.remember(t.Context())
		}
		took := time.Since(struck)
		if err != nil {
			return fmt.Errorf("fault %d (seed %d) after %.0f s, %s: %w", c.count+1, *seed, time.Since(began).Seconds(), what, err)
		}
		c.count++
		c.worst[one.name] = max(c.worst[one.name], took)
		t.Logf("%3d. %6.1f s  %s: all is well again after %.1f s, at height %d", c.count, time.Since(began).Seconds(), what, took.Seconds(), c.watcher.Height())
	}
	return nil
}

// recovered waits until every node is ready and does on the chain what it is for, and
// looks whether anything happened that must never happen.
func (c *chaos) recovered(ctx context.Context) error {
	if err := c.OperatorAtWork(ctx); err != nil {
		return err
	}
	if _, err := live.Until(ctx, c.Cluster, c.Key(fleet), "a fleet that is whole", func(f *v1alpha1.SeiNodeDeployment) bool {
		return f.Status.ObservedGeneration == f.Generation && f.Status.Replicas == replicas &&
			f.Status.AvailableReplicas == replicas && f.Status.UpdatedReplicas == replicas
	}); err != nil {
		return err
	}
	for _, name := range c.names() {
		if _, err := c.Ready(ctx, name); err != nil {
			return err
		}
		if err := live.Poll(ctx, "all that belongs to "+name, func() (bool, error) {
			err := c.whole(ctx, name)
			return err == nil, err
		}); err != nil {
			return err
		}
	}
	height := c.watcher.Height()
	if err := c.watcher.Signs(ctx, height, c.ValidatorNames()...); err != nil {
		return err
	}
	if err := c.watcher.Follows(ctx, height, c.followers()...); err != nil {
		return err
	}
	var complaints []string
	txs := 0
	c.watcher.Read(func(r *live.Record) { complaints, txs = r.Complaints(), r.Txs() })
	if len(complaints) > 0 {
		return fmt.Errorf("the chain complains: %s", strings.Join(complaints, "; "))
	}
	if txs <= c.txs {
		return fmt.Errorf("the chain carries no load: %d transactions before and after", txs)
	}
	c.txs = txs
	return nil
}

// whole tells what a node lacks. What it says of itself may be older than the fault.
func (c *chaos) whole(ctx context.Context, name string) error {
	set, service := &appsv1.StatefulSet{}, &corev1.Service{}
	if err := errors.Join(c.Client.Get(ctx, c.Key(name), set), c.Client.Get(ctx, c.Key(name), service)); err != nil {
		return err
	}
	pod, err := c.Pod(ctx, name)
	switch {
	case err != nil:
		return err
	case set.DeletionTimestamp != nil || pod.DeletionTimestamp != nil || service.DeletionTimestamp != nil:
		return fmt.Errorf("something of %s is on its way out", name)
	case !metav1.IsControlledBy(pod, set):
		return fmt.Errorf("the pod of %s is not that of its StatefulSet", name)
	case !live.PodReady(pod):
		return fmt.Errorf("the pod of %s is not ready", name)
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.ConfigMap != nil {
			err = errors.Join(err, c.Client.Get(ctx, c.Key(volume.ConfigMap.Name), &corev1.ConfigMap{}))
		}
	}
	return err
}

// remember looks whether every volume is the one that it was, also that of a node which the
// fleet has only now and then.
func (c *chaos) remember(ctx context.Context) error {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := c.Client.List(ctx, claims, client.InNamespace(c.ID)); err != nil {
		return err
	}
	there := map[string]types.UID{}
	for i := range claims.Items {
		// One that is on its way out is none: of a node that a fault took away, or lost.
		if claim := &claims.Items[i]; claim.DeletionTimestamp == nil {
			there[claim.Name] = claim.UID
		}
	}
	for _, name := range c.names() {
		if there["data-"+name] == "" {
			return fmt.Errorf("%s has no volume", name)
		}
	}
	for claim, before := range c.volumes {
		if there[claim] != before {
			return fmt.Errorf("the volume %s was %s and is %q", claim, before, there[claim])
		}
	}
	c.volumes = there
	return nil
}

// tell tells what the chain has recorded.
func (c *chaos) tell(t *testing.T) {
	t.Helper()
	for _, one := range faults {
		if worst, struck := c.worst[one.name]; struck {
			t.Logf("%-60s all was well again after %.1f s at most", one.name, worst.Seconds())
		}
	}
	c.watcher.Read(func(r *live.Record) {
		evidence := 0
		for _, block := range r.Blocks {
			evidence += block.Evidence
		}
		t.Logf("seed %d: %d faults; %d blocks with %d transactions, %d pieces of evidence", *seed, c.count, r.Height(), r.Txs(), evidence)
		for _, validator := range c.ValidatorNames() {
			t.Logf("%s: signed all but %d blocks; longest: %s", validator, r.Missed(validator, 1, r.Height()), r.LongestGap(validator, 0))
		}
	})
}

// names are those of all nodes.
func (c *chaos) names() []string { return append(c.ValidatorNames(), c.followers()...) }

// followers are the nodes that do not sign.
func (c *chaos) followers() []string {
	names := []string{"archive", "provider"}
	for i := range replicas {
		names = append(names, fmt.Sprintf("%s-%d", fleet, i))
	}
	return names
}

// one is any of some names.
func (c *chaos) one(names ...string) string { return names[c.random.IntN(len(names))] }

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}
