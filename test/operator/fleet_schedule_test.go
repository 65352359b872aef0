package operator_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
)

// schedules is how many random schedules are run against the real control plane.
const schedules = 20

// schedule is one of them.
type schedule struct {
	*rig

	random   *rand.Rand
	seen     *availability
	replicas int
	image    int
}

// While the template is edited three times, nodes crash, the operator restarts, and people
// scale, pause and unpause, no more nodes are down because of us than the budget allows.
func TestRandomSchedulesOfAFleet(t *testing.T) {
	for seed := range uint64(schedules) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			s := &schedule{rig: newRig(t), random: rand.New(rand.NewPCG(seed, 8)), replicas: 5, image: 1}
			limit := 1 + s.random.IntN(2)
			s.create(s.deployment("fleet", int32(s.replicas), maxUnavailable(fmt.Sprint(limit))))
			s.fleetReady("fleet")
			s.seen = s.watchAvailability("fleet", s.replicas)
			for range 3 {
				s.editTemplate()
				for range s.random.IntN(3) {
					s.disturb()
				}
				s.progress()
			}
			last := s.editTemplate()
			s.fleetReady("fleet")
			most, looks := s.seen.End()
			t.Logf("maxUnavailable %d: at most %d were down because of us, in %d observations", limit, most, looks)
			if most > limit || most == 0 {
				t.Errorf("%d were down at once: %v", most, s.seen.History)
			}
			for _, name := range nodeNames("fleet", s.replicas) {
				node := &v1alpha1.SeiNode{}
				s.get(name, node)
				if node.Status.CurrentImage != last || node.Spec.Paused {
					t.Errorf("%s runs %s", name, node.Status.CurrentImage)
				}
			}
		})
	}
}

func (s *schedule) editTemplate() string {
	s.t.Helper()
	s.image++
	image := fmt.Sprintf("registry.example.com/seid:v%d", s.image)
	s.noticed(s.editFleet("fleet", setImage(image)))
	return image
}

// noticed waits until the operator has seen an edit.
func (s *schedule) noticed(edited *v1alpha1.SeiNodeDeployment) {
	s.t.Helper()
	s.fleetUntil("fleet", "the edit to be noticed", func(f *v1alpha1.SeiNodeDeployment) bool { return f.Status.ObservedGeneration >= edited.Generation })
}

// progress waits until the rollout has come a little further.
func (s *schedule) progress() {
	s.t.Helper()
	from, steps := s.seen.Looks(), s.random.IntN(12)
	each(s.t, "the rollout to go on", func() bool {
		f := &v1alpha1.SeiNodeDeployment{}
		s.get("fleet", f)
		return s.seen.Looks() >= from+steps || fleetIsReady(f)
	})
}

func (s *schedule) disturb() {
	s.t.Helper()
	names := nodeNames("fleet", s.replicas)
	one := names[s.random.IntN(4)] // those are never scaled away
	switch s.random.IntN(5) {
	case 0:
		s.t.Log("the operator restarts")
		s.stop()
		s.start()
	case 1:
		s.t.Logf("%s crashes, and the operator restarts", one)
		s.crash(one)
	case 2:
		s.t.Log("the fleet is paused, and unpaused")
		s.seen.Excuse(names...)
		s.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Paused = true })
		s.fleetUntil("fleet", "all to be stopped", fleetHas(v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPaused))
		s.noticed(s.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Paused = false }))
		s.back(names...)
	case 3:
		before := s.replicas
		s.replicas = 4 + s.random.IntN(3)
		s.t.Logf("%d replicas", s.replicas)
		s.seen.Excuse(nodeNames("fleet", 6)[4:]...)
		s.noticed(s.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Replicas = new(int32(s.replicas)) }))
		if s.replicas > before {
			s.back(nodeNames("fleet", s.replicas)[before:]...)
		}
	case 4:
		s.t.Logf("%s is paused, and unpaused", one)
		s.seen.Excuse(one)
		s.edit(one, func(n *v1alpha1.SeiNode) { n.Spec.Paused = true })
		s.until(one, "the node to be stopped", has(v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPaused))
		s.edit(one, func(n *v1alpha1.SeiNode) { n.Spec.Paused = false })
		s.back(one)
	}
}

// back waits until nodes have been ready again. All images work, so they will be.
func (s *schedule) back(nodes ...string) {
	s.t.Helper()
	for _, node := range nodes {
		s.until(node, "the node to be back", func(n *v1alpha1.SeiNode) bool { return isReady(n) && !n.Spec.Paused && n.DeletionTimestamp == nil })
	}
	s.seen.Expect(nodes...)
}

// crash makes a node not ready, restarts the operator meanwhile, and lets it recover.
func (s *schedule) crash(node string) {
	s.t.Helper()
	s.seen.Excuse(node)
	set := func(value any) {
		pod := &corev1.Pod{}
		if s.person.Get(s.t.Context(), s.key(node+"-0"), pod) != nil {
			return // it is being replaced
		}
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{"lab.sei.io/readiness":%s}}}`, pod.UID, value))
		_ = s.person.Patch(s.t.Context(), pod, patch) // it may be replaced at this very moment
	}
	set(`"never"`)
	s.stop()
	s.start()
	set("null")
	s.pod(node, "the pod to have recovered", func(p *corev1.Pod) bool {
		_, crashes := p.Annotations["lab.sei.io/readiness"]
		return !crashes && plan.PodReady(p)
	})
	s.back(node)
}
