package seinodedeployment

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
)

// versionOf is the annotation of a pod with the version of the platform it was made with.
const versionOf = "version"

// say writes the status of a node, as its controller does.
func (w *world) say(name string, status metav1.ConditionStatus, reason v1alpha1.ConditionReason, change ...func(*v1alpha1.SeiNodeStatus)) {
	w.memory.change(render.FieldManager, w.node(name), func(object client.Object) {
		node := object.(*v1alpha1.SeiNode)
		for _, f := range change {
			f(&node.Status)
		}
		node.Status.ObservedGeneration = node.Generation
		for kind, is := range map[v1alpha1.ConditionType]metav1.Condition{
			v1alpha1.ConditionReady:  {Status: status, Reason: string(reason)},
			v1alpha1.ConditionPaused: {Status: yes(node.Spec.Paused && w.pod(name) == nil), Reason: "x"},
			v1alpha1.ConditionHeld:   {Status: yes(w.held[name]), Reason: "x"},
		} {
			is.Type, is.ObservedGeneration, is.LastTransitionTime = string(kind), node.Generation, metav1.NewTime(w.clock.Now())
			meta.SetStatusCondition(&node.Status.Conditions, is)
		}
	})
}

func yes(is bool) metav1.ConditionStatus {
	if is {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// step takes a node one step further, as its controller and its kubelet would, and tells
// whether there was anything to do.
func (w *world) step(name string) bool {
	node := w.node(name)
	if node == nil {
		return false
	}
	hash, err := render.SpecHash(node.Spec)
	if err != nil {
		w.t.Fatal(err)
	}
	pod := w.pod(name)
	switch {
	case node.DeletionTimestamp != nil:
		w.kill(name)
		w.memory.change(render.FieldManager, node, func(object client.Object) { object.SetFinalizers(nil) })
	case len(node.Finalizers) == 0:
		w.memory.change(render.FieldManager, node, func(object client.Object) { object.SetFinalizers([]string{v1alpha1.FinalizerNode}) })
	case node.Spec.Paused:
		return w.pause(node, hash)
	case render.Edited(node.Status.AdmittedSpecHash, hash), node.Status.Plan == nil && pod == nil:
		w.begin(name, v1alpha1.UpdateCauseEdit, hash) // what was under way is superseded
	case node.Status.Plan != nil:
		w.carryOn(node)
	case node.Status.ObservedGeneration != node.Generation:
		w.say(name, readyStatus(node), v1alpha1.ConditionReason(w.reasonOf(node)), func(s *v1alpha1.SeiNodeStatus) { s.AdmittedSpecHash = hash })
	default:
		return w.watch(node)
	}
	return true
}

// pause stops a node, and tells whether there was anything to do.
func (w *world) pause(node *v1alpha1.SeiNode, hash string) bool {
	switch {
	case w.pod(node.Name) != nil:
		w.kill(node.Name)
	case node.Status.ObservedGeneration == node.Generation && w.reasonOf(node) == string(v1alpha1.ReasonPaused):
		return false
	default:
		w.say(node.Name, metav1.ConditionFalse, v1alpha1.ReasonPaused, func(s *v1alpha1.SeiNodeStatus) { s.AdmittedSpecHash, s.Plan, s.Slot = hash, nil, nil })
	}
	return true
}

func (w *world) reasonOf(node *v1alpha1.SeiNode) string {
	if c := meta.FindStatusCondition(node.Status.Conditions, string(v1alpha1.ConditionReady)); c != nil {
		return c.Reason
	}
	return "Pending"
}

func readyStatus(node *v1alpha1.SeiNode) metav1.ConditionStatus {
	return yes(meta.IsStatusConditionTrue(node.Status.Conditions, string(v1alpha1.ConditionReady)))
}

// begin writes a plan down.
func (w *world) begin(name string, cause v1alpha1.UpdateCause, hash string) {
	w.logf("node %s: begins an update (%s)", name, cause)
	w.say(name, metav1.ConditionFalse, v1alpha1.ReasonUpdating, func(s *v1alpha1.SeiNodeStatus) {
		s.AdmittedSpecHash, s.Slot = hash, &v1alpha1.UpdateSlot{Cause: cause, TemplateHash: "x"}
		s.Plan = &v1alpha1.Plan{Type: v1alpha1.PlanNodeUpdate, Tasks: []v1alpha1.PlanTask{{Type: plan.TaskReplacePod, Status: v1alpha1.PlanTaskPending}}}
	})
}

// carryOn carries on with the plan of a node: a new pod, that is ready some time later, if
// its image is a good one.
func (w *world) carryOn(node *v1alpha1.SeiNode) {
	name, pod := node.Name, w.pod(node.Name)
	switch {
	case node.Status.Plan.Tasks[0].Status == v1alpha1.PlanTaskPending:
		w.logf("node %s: new pod with %s", name, node.Spec.Image)
		w.kill(name)
		delete(w.crashed, name)
		w.memory.create("kubelet", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-0", Annotations: map[string]string{"image": node.Spec.Image, versionOf: w.version},
		}})
		w.say(name, metav1.ConditionFalse, v1alpha1.ReasonUpdating, func(s *v1alpha1.SeiNodeStatus) { s.Plan.Tasks[0].Status = v1alpha1.PlanTaskComplete })
	case strings.HasPrefix(node.Spec.Image, "bad"):
		w.say(name, metav1.ConditionFalse, v1alpha1.ReasonCrashLoopBackOff)
	case pod != nil && !plan.PodReady(pod) && !w.crashed[name] && !w.held[name]:
		w.setReady(name, true)
	default:
		// The plan is through, whatever became of the pod since.
		w.say(name, yes(plan.PodReady(pod)), v1alpha1.ReasonRunning, func(s *v1alpha1.SeiNodeStatus) { s.Plan = nil })
	}
}

// watch tells what became of the pod of a node at rest, and rolls it if the operator wants
// that.
func (w *world) watch(node *v1alpha1.SeiNode) bool {
	name, ready := node.Name, plan.PodReady(w.pod(node.Name))
	held := meta.IsStatusConditionTrue(node.Status.Conditions, string(v1alpha1.ConditionHeld))
	told := readyStatus(node) == yes(ready) && held == w.held[name]
	switch {
	case !told || node.Status.Slot != nil && (ready || held):
		w.say(name, yes(ready), w.verdict(node, ready), func(s *v1alpha1.SeiNodeStatus) {
			if ready || w.held[name] {
				s.Slot = nil
			}
		})
		return true
	case !ready && !w.standsStill(node):
		w.setReady(name, true)
		return true
	}
	return ready && w.pod(name).Annotations[versionOf] != w.version && w.roll(node)
}

// standsStill tells whether a node does not come up by itself.
func (w *world) standsStill(node *v1alpha1.SeiNode) bool {
	return w.crashed[node.Name] || w.held[node.Name] || strings.HasPrefix(node.Spec.Image, "bad")
}

// verdict is the reason of Ready.
func (w *world) verdict(node *v1alpha1.SeiNode, ready bool) v1alpha1.ConditionReason {
	switch {
	case w.held[node.Name]:
		return v1alpha1.ReasonHeld
	case strings.HasPrefix(node.Spec.Image, "bad"), w.crashed[node.Name] && w.random.IntN(2) == 0:
		return v1alpha1.ReasonCrashLoopBackOff
	case ready:
		return v1alpha1.ReasonRunning
	}
	return v1alpha1.ReasonPodNotReady
}

// roll begins an update that the operator itself wants, if the budgets let it.
func (w *world) roll(node *v1alpha1.SeiNode) bool {
	shared := w.reconciler.Budget
	shared.Lock()
	defer shared.Unlock()
	slot := &v1alpha1.UpdateSlot{Cause: v1alpha1.UpdateCauseOperator, TemplateHash: w.version}
	in := plan.Input{Node: node, Persisted: &node.Status, Seen: plan.Observation{Now: w.clock.Now(), Pod: w.pod(node.Name)}}
	gate, err := shared.AdmitRoll(w.t.Context(), in, slot, "The sidecar changed.")
	if err != nil {
		w.t.Fatal(err)
	}
	if gate != nil {
		return false
	}
	w.takes(node, "is rolled by the operator")
	w.begin(node.Name, v1alpha1.UpdateCauseOperator, node.Status.AdmittedSpecHash)
	return true
}

func (w *world) kill(name string) {
	if pod := w.pod(name); pod != nil {
		delete(w.memory.objects, keyOf("Pod", namespace, pod.Name))
	}
}

func (w *world) setReady(name string, ready bool) {
	if w.pod(name) == nil {
		return
	}
	w.memory.change("kubelet", w.pod(name), func(object client.Object) {
		object.(*corev1.Pod).Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionStatus(yes(ready))}}
	})
}
