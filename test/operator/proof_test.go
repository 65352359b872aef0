package operator_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// looksAgain has the operator look at a node whose sidecar says something else, which
// changes nothing, and returns when it has.
func (r *rig) looksAgain(name string, seid func(*api.Seid)) {
	r.t.Helper()
	for _, word := range []string{"once", "twice", "three times"} {
		before := len(r.sidecars.Calls())
		r.sidecars.Node(r.namespace, name).SetSeid(func(s *api.Seid) {
			seid(s)
			s.Message = strings.TrimSpace(s.Message + " " + word)
		})
		each(r.t, "the operator to read the status", func() bool { return len(r.sidecars.Calls()) > before })
	}
}

// podOf is the pod that a node has, whatever it does.
func (r *rig) podOf(name string) *corev1.Pod {
	r.t.Helper()
	return r.pod(name, "the pod", func(*corev1.Pod) bool { return true })
}

// A seid that crash-loops takes its parent with it. Then nobody is there who could say that
// a stop is safe, and nothing that a stop could harm: the node is corrected, and deleted, at
// once.
func TestANodeThatCrashLoopsIsCorrectedAndDeletedAtOnce(t *testing.T) {
	t.Parallel()
	const wrong = "registry.example.com/seid:crash-loops"
	for name, act := range map[string]func(*rig){
		"corrected": func(r *rig) {
			old := r.podOf("alpha").UID
			r.setImage("alpha", imageB)
			r.pod("alpha", "another pod", func(p *corev1.Pod) bool { return p.UID != old })
			r.runs("alpha", imageB)
		},
		"deleted": func(r *rig) {
			r.delete(r.fullNode("alpha"))
			cluster.Gone[*v1alpha1.SeiNode](r.t, r.person, r.key("alpha"), "the node to be gone")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.create(r.fullNode("alpha"))
			r.ready("alpha")
			r.setImage("alpha", wrong)
			r.until("alpha", "the crash loop to be told of", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonCrashLoopBackOff))
			act(r)
			if told := r.events("alpha"); slices.Contains(told, string(v1alpha1.ReasonWaitingForSafeStop)) {
				t.Errorf("it waited for a safe stop: %v", told)
			}
		})
	}
}

// An update is complete when the new seid is known to work, not when its pod is there: one
// that answers may fail at its first block, and whoever believes the update goes on to the
// next node.
func TestAnUpdateEndsWhenTheNewSeidIsKnownToWork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	answers := func(s *api.Seid) { s.Progress = api.ProgressNone }
	r.sidecars.Node(r.namespace, "alpha").SetSeid(answers)
	r.setImage("alpha", imageB)
	waits := func(n *v1alpha1.SeiNode) bool {
		p := n.Status.Plan
		return n.Status.CurrentImage == imageB && p != nil && p.Type == v1alpha1.PlanNodeUpdate &&
			p.Tasks[len(p.Tasks)-1].Type == "observe-seid" && p.Tasks[len(p.Tasks)-1].Status == v1alpha1.PlanTaskRunning
	}
	r.until("alpha", "the update to wait for the new seid", waits)
	r.looksAgain("alpha", answers)
	node := r.until("alpha", "the node", func(*v1alpha1.SeiNode) bool { return true })
	if !waits(node) || !has(v1alpha1.ConditionNodeUpdateInProgress, metav1.ConditionTrue, v1alpha1.ReasonImageChanged)(node) {
		t.Errorf("the update does not wait: %+v, %+v", node.Status.Plan, node.Status.LastPlan)
	}
	if p := node.Status.Plan; p != nil && !strings.Contains(p.Tasks[len(p.Tasks)-1].Message, "execute a block") {
		t.Errorf("it does not say what it waits for: %+v", p.Tasks[len(p.Tasks)-1])
	}
	r.sidecars.Node(r.namespace, "alpha").SetSeid(nil)
	r.runs("alpha", imageB)
	r.ready("alpha")
}

// A binary that does not fit the data is told with a reason of its own and with the way
// out, fails the update, and is not tried again: only another image helps.
func TestABinaryThatDoesNotFitTheDataIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	for reason, way := range map[v1alpha1.ConditionReason]string{
		v1alpha1.ReasonBinaryTooNew: "Set spec.image back to the one that ran before",
		v1alpha1.ReasonBinaryTooOld: "Set spec.image to one that has it",
	} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.create(r.fullNode("alpha"))
			r.ready("alpha")
			release := r.sidecars.Node(r.namespace, "alpha").Block("mark-ready")
			r.setImage("alpha", imageB)
			r.until("alpha", "the new pod", func(n *v1alpha1.SeiNode) bool { return n.Status.CurrentImage == imageB })
			change(r, r.podOf("alpha"), func(p *corev1.Pod) { p.Annotations["lab.sei.io/readiness"] = "never" })
			parked := func(s *api.Seid) {
				*s = api.Seid{State: api.SeidParked, ParkedBecause: string(reason), Message: "the line of seid", SafeToStop: true, Since: s.Since, Progress: api.ProgressNone}
			}
			r.sidecars.Node(r.namespace, "alpha").SetSeid(parked)
			release()
			failed := func(n *v1alpha1.SeiNode) bool {
				return n.Status.Plan == nil && n.Status.LastPlan != nil && n.Status.LastPlan.Outcome == v1alpha1.PlanOutcomeFailed
			}
			r.until("alpha", "the update to fail", failed)
			r.until("alpha", "the reason to be told", has(v1alpha1.ConditionReady, metav1.ConditionFalse, reason))
			r.looksAgain("alpha", parked)
			node := r.until("alpha", "a person to be asked", has(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason))
			if last := node.Status.LastPlan; !failed(node) || last.Reason != string(reason) || last.Failures != 1 {
				t.Errorf("the plan is %+v, the last one was %+v", node.Status.Plan, last)
			}
			ready := meta.FindStatusCondition(node.Status.Conditions, string(v1alpha1.ConditionReady))
			update := meta.FindStatusCondition(node.Status.Conditions, string(v1alpha1.ConditionNodeUpdateInProgress))
			if !strings.Contains(ready.Message, way) || !strings.Contains(ready.Message, "the line of seid") {
				t.Errorf("it does not say what to do: %s", ready.Message)
			}
			// A try that waits for its time would be told here.
			if update.Status != metav1.ConditionFalse || update.Reason == string(v1alpha1.ReasonPlanFailed) {
				t.Errorf("the update: %+v", update)
			}
			r.sidecars.Node(r.namespace, "alpha").SetSeid(nil)
			r.setImage("alpha", imageC)
			r.runs("alpha", imageC)
			r.ready("alpha")
		})
	}
}
