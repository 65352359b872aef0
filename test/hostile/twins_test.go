package hostile_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/rig"
)

// rounds is how often two nodes are made at the same instant with one key.
const rounds = 100

// twins are two nodes with one signing key.
type twins struct {
	one, two *story
}

// arrangements are the ways in which two nodes come to have one key.
var arrangements = []struct {
	name string
	// arrange gives the second the key of the first.
	arrange func(*twins)
	apart   bool // they are in two namespaces
}{
	{name: "one Secret", arrange: func(tw *twins) {
		tw.one.create(rig.SigningSecret(tw.one.t, tw.one.signingSecret(), tw.one.signing))
	}},
	{name: "copies", arrange: copies},
	{name: "copies in two namespaces", arrange: copies, apart: true},
}

func copies(tw *twins) {
	for _, s := range []*story{tw.one, tw.two} {
		s.create(rig.SigningSecret(s.t, s.signingSecret(), s.signing))
	}
}

func TestTwoNodesMadeAtTheSameInstantWithOneKey(t *testing.T) {
	w := newWorld(t)
	queue := make(chan int)
	var exactlyOne atomic.Int32
	var group sync.WaitGroup
	for range workers {
		here, there := w.cluster.Namespace(t), w.cluster.Namespace(t)
		group.Go(func() {
			for round := range queue {
				how := arrangements[round%len(arrangements)]
				if t.Run(fmt.Sprintf("%s %d", how.name, round), func(t *testing.T) {
					tw := &twins{one: w.story(t, here, fmt.Sprintf("a%d", round)), two: w.story(t, here, fmt.Sprintf("b%d", round))}
					if how.apart {
						tw.two = w.story(t, there, tw.two.name.Name)
					}
					tw.two.chain, tw.two.signing = tw.one.chain, tw.one.signing
					how.arrange(tw)
					tw.race(how.name == "one Secret")
				}) {
					exactlyOne.Add(1)
				}
			}
		})
	}
	for round := range rounds {
		queue <- round
	}
	close(queue)
	group.Wait()
	t.Logf("exactly one of two ran %d times out of %d; the witness saw %d violations", exactlyOne.Load(), rounds, len(w.witness.verdict()))
}

// race makes both at once. One runs, and the other says who does; when that one is
// gone, the other follows.
func (tw *twins) race(oneSecret bool) {
	t := tw.one.t
	var ready sync.WaitGroup
	start := make(chan struct{})
	errs := make(chan error, 2)
	for _, s := range []*story{tw.one, tw.two} {
		s.create(rig.NodeSecret(t, s.nodeSecret(), s.nodeKey))
		node := s.validator(func(n *v1alpha1.SeiNode) {
			if oneSecret {
				n.Spec.Validator.SigningKey = rig.KeyIn(tw.one.signingSecret().Name)
			}
		})
		ready.Add(1)
		go func() {
			ready.Done()
			<-start
			errs <- s.person.Create(t.Context(), node)
		}()
	}
	ready.Wait()
	close(start)
	for range 2 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	first, second := tw.outcome()
	if second.get(second.podName(), &corev1.Pod{}) {
		t.Errorf("%s has a pod, and %s runs with its key", second.name, first.name)
	}
	first.delete(first.name, &v1alpha1.SeiNode{})
	first.gone()
	second.ready()
	first.clear()
	second.clear()
}

// outcome waits until one runs and the other knows.
func (tw *twins) outcome() (first, second *story) {
	t := tw.one.t
	waits := func(who types.NamespacedName) func(*v1alpha1.SeiNode) bool {
		return func(n *v1alpha1.SeiNode) bool {
			for _, kind := range []v1alpha1.ConditionType{v1alpha1.ConditionReady, v1alpha1.ConditionSigningKeyReady} {
				c := rig.Condition(n, kind)
				if c.Reason != string(v1alpha1.ReasonKeyInUse) || !strings.Contains(c.Message, who.String()) {
					return false
				}
			}
			return true
		}
	}
	first, second = tw.one, tw.two
	decided := cluster.Eventually(t, first.person, first.name, "it to run or to know who does", func(n *v1alpha1.SeiNode) bool {
		return rig.IsReady(n) || waits(second.name)(n)
	})
	if !rig.IsReady(decided) {
		first, second = second, first
	}
	first.ready()
	second.until("it to say who has the key", waits(first.name))
	return first, second
}
