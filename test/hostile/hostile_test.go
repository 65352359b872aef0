package hostile_test

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/rig"
)

// all has every pair done. Otherwise it is a third of them, in which every act and every
// moment is: in each moment other acts, and each act in other moments.
var all = flag.Bool("all", false, "do every act at every moment, not only a third of the pairs")

const thinned = 3

// workers is how many pairs are under way at once.
const workers = 12

// pair is one act at one moment.
type pair struct {
	number    int
	operation operation
	moment    moment
	act       act
}

func (p pair) String() string {
	return fmt.Sprintf("%s/%s/%s", p.operation.name, p.moment.name, p.act.name)
}

func pairs() []pair {
	var chosen []pair
	number, line := 0, 0
	for _, o := range operations() {
		for _, m := range o.moments {
			for i, a := range acts() {
				if *all || (i+line)%thinned == 0 {
					chosen = append(chosen, pair{number: number, operation: o, moment: m, act: a})
				}
				number++
			}
			line++
		}
	}
	return chosen
}

// TestEveryActAtEveryMoment is the hostile suite.
func TestEveryActAtEveryMoment(t *testing.T) {
	w := newWorld(t)
	queue := make(chan pair)
	var done, nothing, failed atomic.Int32
	var group sync.WaitGroup
	for range workers {
		namespace := w.cluster.Namespace(t)
		group.Go(func() {
			for p := range queue {
				ok := t.Run(p.String(), func(t *testing.T) {
					if !p.run(w.story(t, namespace, fmt.Sprintf("n%d", p.number))) {
						nothing.Add(1)
						return
					}
					done.Add(1)
				})
				if !ok {
					failed.Add(1)
				}
			}
		})
	}
	for _, p := range pairs() {
		queue <- p
	}
	close(queue)
	group.Wait()
	t.Logf("%d pairs of an act and a moment; at %d more there was nothing to act on; %d did not end as they should; the witness saw %d violations",
		done.Load(), nothing.Load(), failed.Load(), len(w.witness.verdict()))
}

// run does the act at the moment, and tells whether there was something to do.
func (p pair) run(s *story) bool {
	defer func() {
		if s.t.Failed() {
			s.abandon()
		}
	}()
	s.createKeys()
	node := s.validator(func(n *v1alpha1.SeiNode) {
		if p.operation.shape != nil {
			p.operation.shape(n)
		}
		if p.moment.shape != nil {
			p.moment.shape(s, n)
		}
	})
	begin := p.operation.begin
	if p.operation.prepare != nil {
		s.create(node)
		p.operation.prepare(s)
	} else {
		begin = func(s *story) { s.create(node) }
	}
	if p.moment.begin != nil {
		begin = p.moment.begin
	}
	reached, release := p.moment.hold(s)
	release = sync.OnceFunc(release)
	defer release()
	if p.operation.goal == deleted && node.Spec.DataVolume != nil {
		s.witness.askedFor(s.claim().UID)
	}
	begin(s)
	reached()
	if p.act.steals {
		s.enterThief()
	}
	before := s.claimUID()
	did := p.act.do(s)
	release()
	if !did {
		if p.act.steals {
			s.clearThief()
		}
		s.clear()
		return false
	}
	p.settle(s, before)
	return true
}

// settle sees the operation to its end.
func (p pair) settle(s *story, claim string) {
	s.t.Helper()
	end := p.operation.goal
	if p.act.goal != "" {
		end = p.act.goal
	}
	switch {
	case p.act.loses:
		s.volumeLost(end, claim)
	case p.act.explained != nil:
		s.explainsItself(p.act.explained, end)
		p.act.repair(s)
		s.reaches(end)
	default:
		s.reaches(end)
		if end == running && p.act.check != nil {
			p.act.check(s)
		}
	}
	if p.act.steals {
		s.thiefFails(end)
	}
	s.clear()
}

// reaches waits for the end of an operation.
func (s *story) reaches(end goal) {
	s.t.Helper()
	switch end {
	case running:
		s.ready()
	case paused:
		s.until("the node to be paused", isPaused)
		if s.get(s.podName(), &corev1.Pod{}) {
			s.t.Error("the node is paused and has a pod")
		}
	case deleted:
		s.gone()
	}
}

// reached tells whether an operation has ended.
func (s *story) reached(end goal, n *v1alpha1.SeiNode) bool {
	switch end {
	case running:
		return rig.IsReady(n)
	case paused:
		return isPaused(n)
	default:
		return false
	}
}

// explainsItself waits until the node says what is wrong, or has come to its end all
// the same: what runs needs no Secret any more.
func (s *story) explainsItself(e *explanation, end goal) {
	s.t.Helper()
	if end == deleted {
		return
	}
	s.until(fmt.Sprintf("the node to explain itself by %s %v, or to be %s", e.condition, e.reasons, end), func(n *v1alpha1.SeiNode) bool {
		return e.given(n) || s.reached(end, n)
	})
}

func (s *story) claimUID() string {
	claim := &corev1.PersistentVolumeClaim{}
	if !s.get(s.claimName(), claim) {
		return ""
	}
	return string(claim.UID)
}

// volumeLost sees to it that nothing is done about a lost volume that nobody asked
// for, that the node says what to do, and that doing it helps.
func (s *story) volumeLost(end goal, claim string) {
	s.t.Helper()
	if end == deleted {
		s.letGo(claim)
		return
	}
	node := s.until("the loss to be told of, or a claim that was never used to be made anew", func(n *v1alpha1.SeiNode) bool {
		if volumeGone.given(n) {
			return true
		}
		return s.reached(end, n) && n.Status.DataVolume != nil && string(n.Status.DataVolume.UID) != claim
	})
	if rig.Condition(node, v1alpha1.ConditionDataVolumeReady).Reason != string(v1alpha1.ReasonDataVolumeLost) {
		return
	}
	if strings.Contains(claim, s.claimUID()) && s.claimUID() != "" {
		s.t.Error("the claim is told to be lost and is there")
	}
	s.annotate(v1alpha1.AnnotationAcceptNewVolume, string(node.Status.DataVolume.UID))
	s.reaches(end)
}

// letGo waits for the end of a node whose claim is being deleted. While its pod lives
// that needs a word of a person.
func (s *story) letGo(claim string) {
	s.t.Helper()
	if s.claimUID() == claim {
		s.annotate(v1alpha1.AnnotationAcceptVolumeLoss, claim)
	}
	s.gone()
}

func (s *story) clearThief() {
	s.t.Helper()
	other := *s
	other.name = s.thief()
	other.clear()
}

// abandon frees what a story that failed took of the cluster, whatever state it is in.
func (s *story) abandon() {
	for _, name := range []string{s.name.Name, s.name.Name + "-thief"} {
		node := &v1alpha1.SeiNode{}
		if err := s.person.Get(s.t.Context(), s.key(name), node); err == nil {
			s.t.Logf("%s is %s, its plan %+v, its last plan %+v", name, node.Status.Phase, node.Status.Plan, node.Status.LastPlan)
			for _, c := range node.Status.Conditions {
				if c.Status != metav1.ConditionTrue || c.Type == string(v1alpha1.ConditionReady) {
					s.t.Logf("%s is %s: %s: %s", c.Type, c.Status, c.Reason, c.Message)
				}
			}
			node.Annotations = map[string]string{v1alpha1.AnnotationSkipSafeStop: "true", v1alpha1.AnnotationAcceptVolumeLoss: s.claimUID()}
			_ = s.person.Update(s.t.Context(), node)
			_ = s.person.Delete(s.t.Context(), node)
		}
	}
}
