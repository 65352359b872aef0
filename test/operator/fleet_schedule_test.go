package operator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/operator"
)

// schedules is how many random schedules are run against the real control plane.
const schedules = 20

// schedule is one of them.
type schedule struct {
	*rig

	random   *rand.Rand
	seen     atomic.Pointer[availability]
	replicas int
	image    int
}

// While the template is edited three times, nodes crash, the operator restarts, and people
// scale, pause and unpause, no more nodes are down because of us than the budget allows: of
// the pods that the operator itself deletes, each is back before there are too many.
func TestRandomSchedulesOfAFleet(t *testing.T) {
	t.Parallel()
	for seed := range uint64(schedules) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			s := &schedule{random: rand.New(rand.NewPCG(seed, 8)), replicas: 5, image: 1}
			s.rig = newRig(t, func(c *operator.Config) { c.AroundWrite = s.around })
			limit := 1 + s.random.IntN(2)
			s.create(s.deployment("fleet", int32(s.replicas), maxUnavailable(fmt.Sprint(limit))))
			s.fleetReady("fleet")
			s.seen.Store(s.watchAvailability("fleet", s.replicas))
			for range 3 {
				s.editTemplate()
				for range s.random.IntN(3) {
					s.disturb()
				}
				s.progress()
			}
			last := s.editTemplate()
			s.fleetReady("fleet")
			seen := s.seen.Load()
			_, looks := seen.End()
			t.Logf("maxUnavailable %d: at most %d were down because of us, in %d observations", limit, seen.MostTaken, looks)
			if seen.MostTaken > limit || seen.MostTaken == 0 {
				t.Errorf("%d were down at once because of us: %v", seen.MostTaken, seen.History)
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
	from, steps := s.seen.Load().Looks(), s.random.IntN(12)
	each(s.t, "the rollout to go on", func() bool {
		f := &v1alpha1.SeiNodeDeployment{}
		s.get("fleet", f)
		return s.seen.Load().Looks() >= from+steps || fleetHas(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonRolledOut)(f)
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
		s.begin()
	case 1:
		s.t.Logf("%s crashes, and the operator restarts", one)
		s.crash(one)
	case 2:
		s.t.Log("the fleet is paused, and unpaused")
		s.noticed(s.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Paused = true }))
		s.noticed(s.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Paused = false }))
		// Also those whose deletion was under way when the pause came.
		s.seen.Load().Forgive(names...)
	case 3:
		s.replicas = 4 + s.random.IntN(3)
		s.t.Logf("%d replicas", s.replicas)
		s.noticed(s.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Replicas = new(int32(s.replicas)) }))
	case 4:
		s.t.Logf("%s is paused, and unpaused", one)
		s.edit(one, func(n *v1alpha1.SeiNode) { n.Spec.Paused = true })
		s.progress()
		s.edit(one, func(n *v1alpha1.SeiNode) { n.Spec.Paused = false })
		s.seen.Load().Forgive(one)
	}
}

// around tells of the pods that the operator deletes.
func (s *schedule) around(ctx context.Context, write kube.Write, do func(context.Context) error) error {
	seen := s.seen.Load()
	if seen == nil || write.Verb != "delete" || write.Kind != "Pod" {
		return do(ctx)
	}
	// Before it is gone: afterwards another may be ready before we have told of this one.
	// And by live reads: the operator may know better than our watch what is back, and which
	// nodes somebody wants to stand still or to go.
	pods, nodes := &corev1.PodList{}, &v1alpha1.SeiNodeList{}
	if err := errors.Join(s.person.List(ctx, nodes, client.InNamespace(s.namespace)), s.person.List(ctx, pods, client.InNamespace(s.namespace))); err != nil {
		return err
	}
	wanted := map[string]bool{}
	for i := range nodes.Items {
		wanted[nodes.Items[i].Name+"-0"] = !nodes.Items[i].Spec.Paused && nodes.Items[i].DeletionTimestamp.IsZero()
	}
	seen.Back(pods.Items)
	seen.Keep(wanted)
	for i := range pods.Items {
		if pods.Items[i].Name == write.Key.Name && wanted[write.Key.Name] {
			seen.Takes(&pods.Items[i])
		}
	}
	return do(ctx)
}

// crash makes a node not ready, restarts the operator meanwhile, and lets it recover.
func (s *schedule) crash(node string) {
	s.t.Helper()
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
	s.begin()
	set("null")
}

// begin starts the operator and waits until it is at work: one that is stopped before that
// leaves a goroutine of its library behind.
func (s *schedule) begin() {
	s.t.Helper()
	s.start()
	s.noticed(s.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.MinReadySeconds = 1 - f.Spec.MinReadySeconds }))
}
