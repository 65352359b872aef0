package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/live"
)

// A pause that comes in the middle of a state sync waits until a stop ruins nothing: until
// there is a block after the sync, which comes no earlier than this story wants.
func (s *stage) stopInStateSync(t *testing.T) {
	const name = "syncer"
	pod := must(s.Syncing(t.Context(), s.watcher, name))(t)
	seid := s.seid(t, pod)
	check(t, s.HoldBlocks(pod))
	before := s.identity(t, name)
	s.edit(t, name, func(spec *v1alpha1.SeiNodeSpec) { spec.Paused = true })
	for _, danger := range []string{"StateSyncing", "AwaitingBlock"} {
		must(s.Wait(t.Context(), name, "a stop that waits because of "+danger, func(node *v1alpha1.SeiNode) bool {
			paused := live.Condition(node, v1alpha1.ConditionPaused)
			return paused.Reason == string(v1alpha1.ReasonWaitingForSafeStop) && strings.Contains(paused.Message, danger)
		}))(t)
	}
	if now := s.pod(t, name); now.UID != pod.UID || now.DeletionTimestamp != nil || s.seid(t, now) != seid {
		t.Error("the pod or seid was stopped before it was safe")
	}
	check(t, s.LetGo(pod))
	check(t, s.Gone(t.Context(), pod))
	s.has(t, name, v1alpha1.ConditionPaused, v1alpha1.ReasonPaused)
	must(s.Unpause(t.Context(), name))(t)
	s.follows(t, name)
	s.same(t, name, before)
	if first := s.earliest(t, name); first == "1" {
		t.Error("the node did not begin with a snapshot")
	}
	s.remove(t, name)
}

// seid is killed between the end of its state sync and the next block: the one moment
// that ruins a volume for good.
func (s *stage) ruined(t *testing.T) {
	const name = "ruin"
	check(t, s.Ruin(t.Context(), s.watcher, name))
	before := s.identity(t, name)
	check(t, s.Resync(t.Context(), name))
	s.ready(t, name)
	s.follows(t, name)
	s.same(t, name, before)
	s.remove(t, name)
}

// fleet scales a fleet from one node to two, rolls an image over it, and scales it down.
func (s *stage) fleet(t *testing.T) {
	undisturbed := s.quiet(t)
	height, signing := s.watcher.Height(), map[string]int{}
	for _, name := range s.ValidatorNames() {
		signing[name] = s.seid(t, s.pod(t, name))
	}
	check(t, s.Client.Create(t.Context(), s.Fleet("rpc", 1)))
	s.fleetIs(t, 1, live.ImageV1)
	check(t, s.EditFleet(t.Context(), "rpc", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Replicas = new(int32(2)) }))
	s.fleetIs(t, 2, live.ImageV1)
	s.follows(t, "rpc-0", "rpc-1")
	first, second := s.identity(t, "rpc-0"), s.identity(t, "rpc-1")

	seen := s.watchPods(t, client.HasLabels{v1alpha1.LabelDeployment})
	check(t, s.EditFleet(t.Context(), "rpc", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Template.Spec.Image = live.ImageV2 }))
	s.fleetIs(t, 2, live.ImageV2)
	ready, fewest := map[string]bool{"rpc-0-0": true, "rpc-1-0": true}, 2
	seen(func(event watch.EventType, pod *corev1.Pod) {
		ready[pod.Name] = event != watch.Deleted && live.PodReady(pod)
		count := 0
		for _, is := range ready {
			if is {
				count++
			}
		}
		fewest = min(fewest, count)
	}, s.pod(t, "rpc-0"), s.pod(t, "rpc-1"))
	// Had it stayed two, nothing would have been seen.
	if fewest != 1 {
		t.Errorf("at the worst moment %d nodes of the fleet were ready", fewest)
	}
	s.follows(t, "rpc-0", "rpc-1")
	s.same(t, "rpc-0", first)
	s.same(t, "rpc-1", second)
	for _, name := range []string{"rpc-0", "rpc-1"} {
		if now := s.version(t, name); now != "v2" {
			t.Errorf("%s runs seid %s", name, now)
		}
	}
	superfluous := s.ready(t, "rpc-1")
	check(t, s.EditFleet(t.Context(), "rpc", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Replicas = new(int32(1)) }))
	s.fleetIs(t, 1, live.ImageV2)
	check(t, s.Gone(t.Context(), superfluous))
	// What is done to a fleet is not done to those who sign.
	for name, pid := range signing {
		if now := s.seid(t, s.pod(t, name)); now != pid {
			t.Errorf("seid of %s was process %d and is %d", name, pid, now)
		}
	}
	// A fleet that is deleted leaves its nodes; here they go too.
	fleet := &v1alpha1.SeiNodeDeployment{}
	check(t, s.Client.Get(t.Context(), s.Key("rpc"), fleet))
	check(t, s.Client.Delete(t.Context(), fleet))
	check(t, s.Gone(t.Context(), fleet))
	s.remove(t, "rpc-0")
	undisturbed()
	s.watcher.Read(func(r *live.Record) {
		missed := 0
		for _, name := range s.ValidatorNames() {
			missed += r.Missed(name, height, r.Height())
		}
		note("scale and rolling update of a fleet: %d signatures of %d missed", missed, (r.Height()-height)*int64(s.Validators))
	})
}

func (s *stage) fleetIs(t *testing.T, replicas int32, image string) {
	t.Helper()
	must(live.Until(t.Context(), s.Cluster, s.Key("rpc"), fmt.Sprintf("%d nodes with %s", replicas, image), func(f *v1alpha1.SeiNodeDeployment) bool {
		status := f.Status
		return status.ObservedGeneration == f.Generation && status.AvailableReplicas == replicas && status.UpdatedReplicas == replicas
	}))(t)
	for i := range replicas {
		s.withImage(t, fmt.Sprintf("rpc-%d", i), image)
	}
}

// operatorKilled kills the operator at random moments of plans. Each plan replaces the
// pod of a validator, so whatever is done twice or not at all can be seen.
func (s *stage) operatorKilled(t *testing.T) {
	const name, times = "validator-2", 20
	before := s.identity(t, name)
	seed := uint64(time.Now().UnixNano())
	t.Logf("moments are drawn from the seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // moments, not secrets
	const edited = "example.com/edit"
	seen := s.watchPods(t, client.MatchingLabels{v1alpha1.LabelNode: name})
	last, killed := "", 0
	for i := 0; killed < times; i++ {
		last = fmt.Sprint(i)
		s.edit(t, name, func(spec *v1alpha1.SeiNodeSpec) { spec.PodAnnotations = map[string]string{edited: last} })
		// A moment is a number of changes of the node's status, so it is one of the plan,
		// unless that is over before.
		changes := random.IntN(8)
		node := must(s.Wait(t.Context(), name, "the middle of a plan", func(node *v1alpha1.SeiNode) bool {
			changes--
			return node.Status.Plan != nil && changes < 0 || live.IsReady(node) && node.Status.ObservedGeneration == node.Generation
		}))(t)
		if node.Status.Plan == nil {
			continue
		}
		// The plan may be the word of one that was killed, and the next one not there yet.
		switch {
		case killed == 0:
			s.outlived(t)
			killed++
		case must(s.KillOperator(t.Context()))(t):
			killed++
		}
	}
	pod := must(live.Until(t.Context(), s.Cluster, s.Key(name+"-0"), "a pod of the last edit", func(pod *corev1.Pod) bool {
		return pod.Annotations[edited] == last && live.PodReady(pod)
	}))(t)
	s.ready(t, name)
	check(t, s.OperatorAtWork(t.Context()))
	s.same(t, name, before)
	made := map[types.UID]string{}
	seen(func(_ watch.EventType, pod *corev1.Pod) { made[pod.UID] = pod.Annotations[edited] }, pod)
	pods := map[string]int{}
	for _, edit := range made {
		if pods[edit]++; pods[edit] > 1 {
			t.Errorf("for the edit %q another pod was made again", edit)
		}
	}
}

// outlived kills the operator and leaves its Lease. The next one waits until that has run
// out, and takes it over.
func (s *stage) outlived(t *testing.T) {
	t.Helper()
	before, after, err := s.KillLeader(t.Context())
	check(t, err)
	if after.UID != before.UID {
		t.Error("the Lease was not taken over, it is another one")
	}
	valid := time.Duration(*before.Spec.LeaseDurationSeconds) * time.Second
	if waited := after.Spec.AcquireTime.Sub(before.Spec.RenewTime.Time); waited < valid {
		t.Errorf("a Lease of %s was taken over after %s", valid, waited)
	}
}

// restarted kills a daemon of the cluster. The validators sign as if nothing had happened,
// no pod and no seid is touched for it, and afterwards the operator still does its work.
func (s *stage) restarted(daemon string) func(*testing.T) {
	return func(t *testing.T) {
		names := append(s.ValidatorNames(), "archive", "provider", "full")
		before, pods, seids := map[string]identity{}, map[string]*corev1.Pod{}, map[string]int{}
		for _, name := range names {
			before[name], pods[name] = s.identity(t, name), s.pod(t, name)
			seids[name] = s.seid(t, pods[name])
		}
		undisturbed := s.quiet(t)
		check(t, s.Restart(t.Context(), daemon))
		check(t, s.watcher.Grow(t.Context(), while))
		must(s.Wait(t.Context(), names[0], "the API", func(*v1alpha1.SeiNode) bool { return true }))(t)
		for _, name := range names {
			s.ready(t, name)
			s.same(t, name, before[name])
			now := s.pod(t, name)
			if now.UID != pods[name].UID {
				t.Errorf("the pod of %s was replaced", name)
				continue
			}
			if pid := s.seid(t, now); pid != seids[name] {
				t.Errorf("seid of %s was process %d and is %d", name, seids[name], pid)
			}
		}
		check(t, s.OperatorAtWork(t.Context()))
		undisturbed()
		must(s.RestartSeid(t.Context(), names[0]))(t)
	}
}

// deaf stops the process of seid, which so ignores every SIGTERM. A restart that is
// asked for fails and says so; nobody kills it, and no second one is started.
func (s *stage) deaf(t *testing.T) {
	const name = "validator-3"
	before, pod := s.identity(t, name), s.pod(t, name)
	was := s.seid(t, pod)
	task := must(s.Deaf(t.Context(), name))(t)
	if task.Status.Phase != v1alpha1.TaskPhaseFailed || !strings.Contains(task.Status.Message, "not done within 1m0s") {
		t.Errorf("the restart is %s: %s", task.Status.Phase, task.Status.Message)
	}
	// The signal was not lost: seid ends when it can, and another one is started.
	check(t, s.Another(t.Context(), pod, "seid", []int{was}))
	s.seid(t, pod)
	s.gap(t, name, s.watcher.LastSigned(name))
	s.ready(t, name)
	s.same(t, name, before)
	if now := s.pod(t, name); now.UID != pod.UID {
		t.Error("the pod was replaced")
	}
}

// upgrade halts the whole chain, and swaps the image of nodes that are not ready, which
// is what a StatefulSet by itself never gets over.
func (s *stage) upgrade(t *testing.T) {
	height := s.watcher.Height() + 10
	names := append(s.ValidatorNames(), "archive", "provider", "full")
	before := map[string]identity{}
	for _, name := range names {
		before[name] = s.identity(t, name)
	}
	check(t, s.ScheduleUpgrade(t.Context(), "v2", height))
	check(t, s.HaltedAt(t.Context(), s.watcher, height, len(names), names...))
	swapped := time.Now()
	for _, name := range names {
		s.edit(t, name, func(spec *v1alpha1.SeiNodeSpec) { spec.Image = live.ImageV2 })
	}
	check(t, s.watcher.Signs(t.Context(), height, s.ValidatorNames()...))
	note("the chain signs again %.1f s after the image was swapped on all nodes", time.Since(swapped).Seconds())
	for _, name := range names {
		s.withImage(t, name, live.ImageV2)
		s.same(t, name, before[name])
	}
	check(t, s.watcher.Follows(t.Context(), height, "archive", "provider", "full"))
	for _, name := range []string{"archive", "provider", "full"} {
		if now := s.version(t, name); now != "v2" {
			t.Errorf("%s runs seid %s", name, now)
		}
	}
}
