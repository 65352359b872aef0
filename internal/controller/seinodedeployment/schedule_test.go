package seinodedeployment

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/fleet"
)

// schedules is how many random schedules are run.
const schedules = 500

// Whatever people do to a fleet, whatever becomes of its nodes and whenever the operator
// dies, no node that serves is taken down beyond the budget, what is held is held, and in
// the end every node has the template and nothing is written any more.
func TestRandomSchedules(t *testing.T) {
	const groups = 4
	var writes atomic.Int64
	t.Run("all", func(t *testing.T) {
		for group := range uint64(groups) {
			t.Run(fmt.Sprintf("seeds from %d", group), func(t *testing.T) {
				t.Parallel()
				for seed := group; seed < schedules; seed += groups {
					writes.Add(int64(play(t, seed)))
				}
			})
		}
	})
	t.Logf("%d schedules, %d writes of the operator, each looked at", schedules, writes.Load())
}

// play plays one schedule.
func play(t *testing.T, seed uint64) (writes int) {
	t.Helper()
	w := newWorld(t, seed)
	w.logf("seed %d", seed)
	w.newFleet(int32(1+w.random.IntN(7)), []string{"1", "2", "3", "50%"}[w.random.IntN(4)], int32(w.random.IntN(2)*30))
	for range 30 + w.random.IntN(50) {
		w.event()
	}
	w.settle()
	return w.writes
}

// event is one thing that happens, or some time in which the operator and nodes work.
func (w *world) event() {
	switch w.random.IntN(10) {
	case 0:
		w.person()
	case 1:
		w.fate()
	default:
		if w.random.IntN(15) == 0 {
			w.dies = 1 + w.random.IntN(4)
		}
		_, died := w.reconcile()
		if !died {
			w.afterwards()
		}
		for _, name := range w.names() {
			for range w.random.IntN(3) {
				w.step(name)
			}
		}
		w.clock.Step(time.Duration(w.random.IntN(20)) * time.Second)
	}
}

// person is something that a person does.
func (w *world) person() {
	switch what := w.random.IntN(12); what {
	case 0, 1, 2:
		image := fmt.Sprintf("%s:%d", []string{"good", "good", "bad"}[w.random.IntN(3)], w.random.IntN(3))
		w.logf("person: image %s", image)
		w.edit(func(s *v1alpha1.SeiNodeDeploymentSpec) { s.Template.Spec.Image = image })
	case 3:
		w.logf("person: another override")
		w.edit(func(s *v1alpha1.SeiNodeDeploymentSpec) {
			s.Template.Spec.Overrides = v1alpha1.Overrides{"config.p2p.max-connections": fmt.Sprint(w.random.IntN(3))}
		})
	case 4:
		replicas := int32(w.random.IntN(8))
		w.logf("person: %d replicas", replicas)
		w.edit(func(s *v1alpha1.SeiNodeDeploymentSpec) { s.Replicas = &replicas })
	case 5:
		w.edit(func(s *v1alpha1.SeiNodeDeploymentSpec) { s.Paused = !s.Paused })
		w.logf("person: paused %v", w.fleet().Spec.Paused)
	case 6:
		w.edit(func(s *v1alpha1.SeiNodeDeploymentSpec) { s.RolloutPaused = !s.RolloutPaused })
		w.logf("person: rolloutPaused %v", w.fleet().Spec.RolloutPaused)
	case 7:
		partition, limit, stop := int32(w.random.IntN(4)), intstr.Parse([]string{"1", "3", "50%"}[w.random.IntN(3)]), w.random.IntN(2) == 0
		w.logf("person: partition %d, maxUnavailable %s, pauseOnFailure %v", partition, limit.String(), stop)
		w.edit(func(s *v1alpha1.SeiNodeDeploymentSpec) {
			s.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{Partition: partition, MaxUnavailable: &limit, PauseOnFailure: stop}
		})
	case 8, 9:
		w.pauseOne()
	case 10:
		if name := w.any(); name != "" {
			w.logf("person: deletes %s", name)
			w.memory.remove("kubectl", w.node(name))
			delete(w.pausedBy, name)
		}
	case 11:
		if name := w.any(); name != "" {
			w.logf("person: another image and a label on %s", name)
			w.memory.change("kubectl", w.node(name), func(object client.Object) {
				object.(*v1alpha1.SeiNode).Spec.Image = "good:by-hand"
				labels := object.GetLabels()
				labels["person.example.com/mark"] = "mine"
			})
		}
	}
}

func (w *world) pauseOne() {
	name := w.any()
	if name == "" {
		return
	}
	pause := !w.node(name).Spec.Paused
	w.logf("person: %s paused: %v", name, pause)
	w.memory.change("kubectl", w.node(name), func(object client.Object) { object.(*v1alpha1.SeiNode).Spec.Paused = pause })
	if delete(w.pausedBy, name); pause {
		w.pausedBy[name] = true
	}
}

// fate is something that nobody wants.
func (w *world) fate() {
	name := w.any()
	if name == "" {
		return
	}
	switch w.random.IntN(6) {
	case 0, 1:
		w.logf("%s crashes", name)
		w.crashed[name] = true
		w.setReady(name, false)
	case 2:
		w.logf("%s no longer crashes", name)
		delete(w.crashed, name)
	case 3:
		w.held[name] = !w.held[name]
		w.logf("%s held: %v", name, w.held[name])
		if w.held[name] {
			w.setReady(name, false)
		}
	case 4:
		w.version = fmt.Sprintf("v%d", w.random.IntN(3))
		w.logf("the platform has the sidecar %s", w.version)
	case 5:
		w.logf("the statuses of %s and of the fleet are lost", name)
		w.memory.change("restore", w.node(name), func(object client.Object) {
			node := object.(*v1alpha1.SeiNode)
			node.Status = v1alpha1.SeiNodeStatus{AdmittedSpecHash: node.Status.AdmittedSpecHash, Plan: node.Status.Plan, Slot: node.Status.Slot}
		})
		w.memory.change("restore", w.fleet(), func(object client.Object) {
			object.(*v1alpha1.SeiNodeDeployment).Status = v1alpha1.SeiNodeDeploymentStatus{}
		})
	}
}

// afterwards is what holds after every reconcile that came to its end.
func (w *world) afterwards() {
	spec, status := &w.fleet().Spec, &w.fleet().Status
	if len(status.Conditions) == 0 {
		return // it was only just given its finalizer
	}
	for _, kind := range v1alpha1.SeiNodeDeploymentConditions {
		if c := meta.FindStatusCondition(status.Conditions, string(kind)); c == nil || c.Reason == "" {
			w.fails("the condition %s is not there", kind)
		}
	}
	for i := range fleet.Replicas(w.fleet()) {
		node := w.node(fmt.Sprintf("%s-%d", fleetName, i))
		switch {
		case node == nil:
			w.fails("the node %d is missing", i)
		case node.DeletionTimestamp != nil:
		case spec.Paused && !node.Spec.Paused:
			w.fails("the fleet is paused and %s is not", node.Name)
		case !spec.Paused && node.Spec.Paused != w.pausedBy[node.Name]:
			w.fails("the fleet is not paused; of %s paused is %v, and a person said %v", node.Name, node.Spec.Paused, w.pausedBy[node.Name])
		}
	}
	for _, node := range w.nodes() {
		if node.Labels["person.example.com/mark"] == "" && w.marked(node) {
			w.fails("%s lost the label of somebody else", node.Name)
		}
	}
}

// marked tells whether a person put a label on this node.
func (w *world) marked(node *v1alpha1.SeiNode) bool {
	for _, entry := range node.ManagedFields {
		if entry.Manager == "kubectl" && entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), "person.example.com") {
			return true
		}
	}
	return false
}

// settle lets everything come to rest, with a template that works and nothing held.
func (w *world) settle() {
	w.logf("everything comes to rest")
	w.dies, w.crashed, w.held = 0, map[string]bool{}, map[string]bool{}
	for name := range w.pausedBy {
		if w.node(name) != nil {
			w.memory.change("kubectl", w.node(name), func(object client.Object) { object.(*v1alpha1.SeiNode).Spec.Paused = false })
		}
	}
	w.pausedBy = map[string]bool{}
	w.edit(func(s *v1alpha1.SeiNodeDeploymentSpec) {
		s.Paused, s.RolloutPaused, s.Template.Spec.Image = false, false, "good:last"
		s.UpdateStrategy.RollingUpdate.Partition = 0
	})
	for range 2000 {
		writes := w.writes
		result, _ := w.reconcile()
		moved := w.writes > writes
		for _, name := range w.names() {
			moved = w.step(name) || moved
		}
		if moved {
			continue
		}
		if result.RequeueAfter == 0 {
			w.atRest()
			return
		}
		w.clock.Step(result.RequeueAfter)
	}
	w.fails("it does not come to rest: %+v", w.fleet().Status)
}

func (w *world) atRest() {
	count := fleet.Replicas(w.fleet())
	if len(w.nodes()) != count {
		w.fails("there are %d nodes and there should be %d", len(w.nodes()), count)
	}
	for _, node := range w.nodes() {
		if node.Spec.Image != "good:last" || w.pod(node.Name).Annotations["image"] != "good:last" || w.pod(node.Name).Annotations[versionOf] != w.version {
			w.fails("%s wants %s and runs %v", node.Name, node.Spec.Image, w.pod(node.Name).Annotations)
		}
	}
	status := w.fleet().Status
	if !meta.IsStatusConditionTrue(status.Conditions, string(v1alpha1.ConditionReady)) || meta.IsStatusConditionTrue(status.Conditions, string(v1alpha1.ConditionProgressing)) ||
		int(status.UpdatedReplicas) != count || status.CurrentRevision != status.UpdateRevision {
		w.fails("at rest the fleet is %+v", status)
	}
}
