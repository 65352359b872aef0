package operator_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// The tests in this file are about an update that the operator caused and that
// failed: its chain is frozen, and why and until when is told.

// patience is more than any task of an update that waits for its pod has.
const patience = 31 * time.Minute

// frozen is a fleet whose first node failed to become what a new version wants.
type frozen struct {
	*rig
	clock  *clock
	writes *writes
	names  []string
	// first is the node whose update failed, and others are the rest.
	first  string
	others []string
}

// fails brings up a fleet, starts another version, and lets the update of the first
// node come to a task and fail there at its deadline. Before and meanwhile say what
// goes wrong: before there is the new version, and while the task waits.
func fails(t *testing.T, count int, sidecar, task string, before, meanwhile func(*frozen)) *frozen {
	t.Helper()
	f := &frozen{clock: &clock{}, writes: &writes{}}
	f.rig = newRig(t, f.clock.use, f.writes.record)
	f.names = f.fleet(count)
	before(f)
	f.writes.forget()
	f.upgrade(sidecar)
	each(t, "the first node to be updated", func() bool {
		for _, name := range f.names {
			node := &v1alpha1.SeiNode{}
			if f.get(name, node); node.Status.Slot != nil {
				f.first = name
			}
		}
		return f.first != ""
	})
	f.others = slices.DeleteFunc(slices.Clone(f.names), func(name string) bool { return name == f.first })
	f.until(f.first, "the update to be at "+task, func(n *v1alpha1.SeiNode) bool {
		return n.Status.Plan != nil && slices.ContainsFunc(n.Status.Plan.Tasks, func(at v1alpha1.PlanTask) bool {
			return at.Type == task && at.Status == v1alpha1.PlanTaskRunning
		})
	})
	meanwhile(f)
	f.clock.advance(patience, f.rig, f.first)
	f.until(f.first, "the update to fail", func(n *v1alpha1.SeiNode) bool {
		last := n.Status.LastPlan
		return last.Type == v1alpha1.PlanNodeUpdate && last.Outcome == v1alpha1.PlanOutcomeFailed && last.Reason == "DeadlineExceeded" &&
			n.Status.Phase == v1alpha1.PhaseRunning && n.Status.Slot != nil
	})
	return f
}

// waits tells whether a node waits because of the one that failed.
func (f *frozen) waits(node *v1alpha1.SeiNode) bool {
	c := meta.FindStatusCondition(node.Status.Conditions, string(v1alpha1.ConditionNodeUpdateInProgress))
	return has(v1alpha1.ConditionNodeUpdateInProgress, metav1.ConditionFalse, v1alpha1.ReasonWaitingForBudget)(node) &&
		contains(c.Message, "the same update failed on node "+f.namespace+"/"+f.first)
}

// stays fails the test unless all others are as they were, and say why.
func (f *frozen) stays() {
	f.t.Helper()
	for _, name := range f.others {
		node := f.until(name, "the node to tell of the failure", f.waits)
		if !isReady(node) || node.Status.Slot != nil {
			f.t.Errorf("%s is not as it was: %+v", name, node.Status)
		}
	}
	for _, deleted := range f.writes.of("delete", "Pod") {
		if deleted.Key.Name != f.first+"-0" {
			f.t.Errorf("the pod %s was deleted", deleted.Key.Name)
		}
	}
}

// goesThrough waits until every node has a sidecar.
func (f *frozen) goesThrough(sidecar string) {
	f.t.Helper()
	for _, name := range f.names {
		f.until(name, "the node to have the sidecar "+sidecar, func(n *v1alpha1.SeiNode) bool {
			return isReady(n) && n.Status.CurrentSidecarImage == sidecar && n.Status.Slot == nil
		})
	}
}

// notes are the texts of the events about a node with this reason.
func (r *rig) notes(node, reason string) (found []string) {
	r.t.Helper()
	var list eventsv1.EventList
	if err := r.person.List(r.t.Context(), &list, client.InNamespace(r.namespace)); err != nil {
		r.t.Fatal(err)
	}
	for i := range list.Items {
		if e := &list.Items[i]; e.Regarding.Kind == "SeiNode" && e.Regarding.Name == node && e.Reason == reason {
			found = append(found, e.Type+": "+e.Note)
		}
	}
	return found
}

// told waits for an event about a node that says something.
func (r *rig) told(node, reason, text string) {
	r.t.Helper()
	each(r.t, "an event "+reason+" about "+node+" that says: "+text, func() bool {
		return slices.ContainsFunc(r.notes(node, reason), func(note string) bool { return contains(note, text) })
	})
}

// A version that breaks pods breaks one node of twenty. That lasts, also over a
// restart, until there is a better version.
func TestAFailedUpdateFreezesTheChainUntilAVersionIsCorrected(t *testing.T) {
	t.Parallel()
	f := fails(t, 20, "registry.example.com/sidecar:crash-loops", "observe-image", func(*frozen) {}, func(f *frozen) {
		f.until(f.first, "the trouble to be named", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonCrashLoopBackOff))
		for _, name := range f.others {
			node := f.until(name, "the node to wait", has(v1alpha1.ConditionNodeUpdateInProgress, metav1.ConditionFalse, v1alpha1.ReasonWaitingForBudget))
			if !isReady(node) || node.Status.Slot != nil {
				t.Errorf("%s is not as it was: %+v", name, node.Status)
			}
			f.told(name, string(v1alpha1.ReasonWaitingForBudget), "Waits for its turn")
		}
	})
	f.stays()
	for _, name := range f.others {
		f.told(name, string(v1alpha1.ReasonWaitingForBudget), "the same update failed on node "+f.namespace+"/"+f.first+": observe-image")
	}
	f.told(f.first, "PlanFailed", "Warning: NodeUpdate: observe-image: it was not done within 30m0s")

	f.stop()
	f.start()
	for _, name := range f.others {
		f.settled(name)
	}
	f.stays()
	f.upgrade(newSidecar)
	f.goesThrough(newSidecar)
}

// hangs is a fleet whose first node has a new pod that does not get ready, and whose
// sidecar does not come to an end with approving it.
func hangs(t *testing.T) (f *frozen, goOn, becomeReady func()) {
	t.Helper()
	var release []func()
	f = fails(t, 3, newSidecar, "mark-ready", func(f *frozen) {
		for _, name := range f.names {
			release = append(release, f.sidecars.Node(f.namespace, name).Block("mark-ready"))
		}
	}, func(f *frozen) { f.readiness("never") })
	// From here on nothing is tried again because of the time.
	f.clock.stop()
	return f, func() {
		for _, each := range release {
			each()
		}
	}, func() { f.readiness("") }
}

// readiness says whether the pod of the first node gets ready.
func (f *frozen) readiness(is string) {
	f.t.Helper()
	pod := f.pod(f.first, "the pod", func(*corev1.Pod) bool { return true })
	change(f.rig, pod, func(p *corev1.Pod) { p.Annotations["lab.sei.io/readiness"] = is })
	f.pod(f.first, "the pod to follow", func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && (c.Status == corev1.ConditionTrue) == (is == "")
		})
	})
}

func TestAFreezeEndsWhenTheNodeThatFailedIsReady(t *testing.T) {
	t.Parallel()
	f, goOn, becomeReady := hangs(t)
	f.stays()
	goOn()
	becomeReady()
	f.goesThrough(newSidecar)
}

// A node that is asked to try again is tried again, and its chain waits for how that
// ends.
func TestAFreezeEndsWhenTheNodeThatFailedIsAskedToTryAgain(t *testing.T) {
	t.Parallel()
	f, goOn, becomeReady := hangs(t)
	f.stays()
	goOn()
	f.edit(f.first, func(n *v1alpha1.SeiNode) { n.Annotations[v1alpha1.AnnotationRetry] = "now" })
	f.until(f.first, "the update to be complete", func(n *v1alpha1.SeiNode) bool {
		last := n.Status.LastPlan
		return n.Status.Plan == nil && last.Type == v1alpha1.PlanNodeUpdate && last.Outcome == v1alpha1.PlanOutcomeComplete
	})
	for _, name := range f.others {
		node := f.until(name, "the freeze to be over", func(n *v1alpha1.SeiNode) bool { return !f.waits(n) })
		if !has(v1alpha1.ConditionNodeUpdateInProgress, metav1.ConditionFalse, v1alpha1.ReasonWaitingForBudget)(node) {
			t.Errorf("%s does not wait for the node that is not ready yet: %+v", name, node.Status)
		}
	}
	becomeReady()
	f.goesThrough(newSidecar)
}

// A stop that never gets safe goes ahead after half an hour, not before, and is told of.
func TestAStopThatNeverGetsSafe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stop   func(*rig)
		waits  func(*v1alpha1.SeiNode) bool
		done   func(*v1alpha1.SeiNode) bool // nil: the node is gone
		reason string
	}{
		"a pause": {
			stop:  func(r *rig) { r.pause("alpha", true) },
			waits: has(v1alpha1.ConditionPaused, metav1.ConditionFalse, v1alpha1.ReasonWaitingForSafeStop),
			done:  isPaused, reason: "StopForced",
		},
		"a deletion": {
			stop:   func(r *rig) { r.delete(r.fullNode("alpha")) },
			waits:  func(n *v1alpha1.SeiNode) bool { return ready(n).Reason == string(v1alpha1.ReasonWaitingForSafeStop) },
			reason: "StopForced",
		},
		"an update": {
			stop:   func(r *rig) { r.setImage("alpha", imageB) },
			waits:  has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForSafeStop),
			done:   func(n *v1alpha1.SeiNode) bool { return isReady(n) && n.Status.CurrentImage == imageB },
			reason: "PodReplaced",
		},
		"a restart for the configuration": {
			stop:   func(r *rig) { r.override("alpha", key, "44") },
			waits:  has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForSafeStop),
			done:   func(n *v1alpha1.SeiNode) bool { return isReady(n) && n.Status.AppliedConfigHash == n.Status.ConfigHash },
			reason: "StopForced",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &clock{}
			r := newRig(t, clock.use)
			r.create(r.fullNode("alpha"))
			r.ready("alpha")
			pod := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
			ledger := len(r.ran("alpha"))
			r.unsafe("alpha")
			c.stop(r)
			r.until("alpha", "the wait to be told of", c.waits)
			// A restart of the operator does not begin the wait anew.
			r.stop()
			r.start()
			clock.advance(29*time.Minute, r, "alpha")
			r.sidecars.Node(r.namespace, "alpha").SetSeid(func(s *api.Seid) { s.SafeToStop, s.UnsafeBecause = false, "a block is awaited" })
			r.until("alpha", "the operator to have looked, and to wait", func(n *v1alpha1.SeiNode) bool {
				return c.waits(n) && slices.ContainsFunc(n.Status.Conditions, func(c metav1.Condition) bool { return contains(c.Message, "a block is awaited") })
			})
			if same := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true }); same.UID != pod.UID || same.DeletionTimestamp != nil || slicesContains(r.ran("alpha")[ledger:], "restart-seid#1") {
				t.Error("seid was stopped too early")
			}
			clock.advance(2*time.Minute, r, "alpha")
			if c.done != nil {
				r.until("alpha", "it to be done", c.done)
			} else {
				cluster.Gone[*v1alpha1.SeiNode](t, r.person, r.key("alpha"), "it was deleted")
			}
			r.told("alpha", c.reason, "not safe at this moment")
			for _, note := range r.notes("alpha", c.reason) {
				if !contains(note, "Warning") {
					t.Errorf("it is no warning: %s", note)
				}
			}
		})
	}
}
