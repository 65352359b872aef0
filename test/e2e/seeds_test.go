package e2e_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/live"
)

func (s *stage) statefulSetDeleted(t *testing.T) {
	before, first, pod := s.identity(t, "full"), s.earliest(t, "full"), s.pod(t, "full")
	// What is wanted changes while nobody looks: the new one is made from that.
	check(t, s.StopOperator(t.Context()))
	s.edit(t, "full", func(spec *v1alpha1.SeiNodeSpec) { spec.PodLabels = map[string]v1alpha1.LabelValue{"made": "again"} })
	s.deleteStatefulSet(t, "full")
	check(t, s.StartOperator(t.Context()))
	if now := must(s.NewPod(t.Context(), "full", pod))(t); now.Labels["made"] != "again" {
		t.Errorf("the new pod has the labels %v", now.Labels)
	}
	s.ready(t, "full")
	s.follows(t, "full")
	s.same(t, "full", before)
	s.sameBlocks(t, "full", first)
}

// With --cascade=orphan the pod stays, and the new StatefulSet takes it over: seid is
// not even restarted.
func (s *stage) statefulSetOrphaned(t *testing.T) {
	const name = "validator-0"
	before, pod := s.identity(t, name), s.pod(t, name)
	seid := s.seid(t, pod)
	adopted := must(s.Orphan(t.Context(), name))(t)
	s.tracks(t, name, adopted)
	check(t, s.watcher.Grow(t.Context(), 4))
	s.same(t, name, before)
	now := s.pod(t, name)
	if now.UID != pod.UID || !metav1.IsControlledBy(now, adopted) {
		t.Errorf("the pod %s is now %s, owned by %v", pod.UID, now.UID, now.OwnerReferences)
	}
	if running := s.seid(t, now); running != seid {
		t.Errorf("seid was process %d and is %d", seid, running)
	}
}

// Somebody restores the StatefulSet from a backup while nobody looks. It has the name and
// the owner of the one that the operator made, and even a pod on the node's volume, but
// it is another one: it goes, and exactly one comes in its place.
func (s *stage) impostor(t *testing.T) {
	const name = "full"
	before, first, pod := s.identity(t, name), s.earliest(t, name), s.pod(t, name)
	check(t, s.StopOperator(t.Context()))
	set := s.deleteStatefulSet(t, name)
	restored := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name, Labels: set.Labels, OwnerReferences: set.OwnerReferences},
		Spec:       set.Spec,
	}
	restored.Spec.Template.Labels["made"] = "by-hand"
	check(t, s.Client.Create(t.Context(), restored))
	theirs := must(s.NewPod(t.Context(), name, pod))(t)
	seen := s.watchPods(t, client.MatchingLabels{v1alpha1.LabelNode: name})

	check(t, s.StartOperator(t.Context()))
	ours := must(s.NewPod(t.Context(), name, theirs))(t)
	if ours.Labels["made"] == "by-hand" {
		t.Error("the pod is still made from what was restored")
	}
	check(t, s.Client.Get(t.Context(), s.Key(name), set))
	if set.UID == restored.UID {
		t.Errorf("the StatefulSet %s that was restored is still there", restored.UID)
	}
	s.tracks(t, name, set)
	s.follows(t, name)
	s.same(t, name, before)
	s.sameBlocks(t, name, first)
	made := sets.New[types.UID]()
	seen(func(_ watch.EventType, pod *corev1.Pod) { made.Insert(pod.UID) }, s.pod(t, name))
	if !made.Equal(sets.New(theirs.UID, ours.UID)) {
		t.Errorf("the pods of the node were %v, of which %s and %s are expected", made, theirs.UID, ours.UID)
	}
}

// tracks waits until a node is ready and speaks of this StatefulSet, whose pod may be ready
// before the operator has written down that it made it.
func (s *stage) tracks(t *testing.T, name string, set *appsv1.StatefulSet) {
	t.Helper()
	must(s.Wait(t.Context(), name, "a node that is ready and speaks of the StatefulSet "+string(set.UID), func(node *v1alpha1.SeiNode) bool {
		tracked := node.Status.StatefulSet
		return live.IsReady(node) && tracked != nil && tracked.UID == set.UID
	}))(t)
}

// deleteStatefulSet deletes that of a node, and returns it when its pod is gone.
func (s *stage) deleteStatefulSet(t *testing.T, name string) *appsv1.StatefulSet {
	t.Helper()
	pod, set := s.pod(t, name), &appsv1.StatefulSet{}
	check(t, s.Client.Get(t.Context(), s.Key(name), set))
	check(t, s.Client.Delete(t.Context(), set))
	check(t, s.Gone(t.Context(), pod))
	return set
}

func (s *stage) templateDrift(t *testing.T) {
	const name = "validator-1"
	before, pod, height := s.identity(t, name), s.pod(t, name), s.watcher.LastSigned(name)
	s.edit(t, name, func(spec *v1alpha1.SeiNodeSpec) { spec.PodLabels = map[string]v1alpha1.LabelValue{"team": "one"} })
	now := must(s.NewPod(t.Context(), name, pod))(t)
	if now.Labels["team"] != "one" {
		t.Errorf("the new pod has the labels %v", now.Labels)
	}
	s.ready(t, name)
	s.same(t, name, before)
	note("a changed template: %s", s.gap(t, name, height))
}

// The operator is replaced by one that brings another sidecar. A StatefulSet that was
// deleted meanwhile comes back with that at once. All other pods roll, each one once, and
// never two validators at a time.
func (s *stage) newSidecar(t *testing.T) {
	validators := sets.New(s.ValidatorNames()...)
	names := append(s.ValidatorNames(), "archive", "provider", "full")
	before := map[string]identity{}
	for _, name := range names {
		before[name] = s.identity(t, name)
	}
	first, height := s.earliest(t, "full"), s.watcher.Height()
	check(t, s.StopOperator(t.Context()))
	check(t, s.BringSidecar(t.Context(), live.ImageNextSidecar))
	s.deleteStatefulSet(t, "full")
	seen := s.watchPods(t, client.HasLabels{v1alpha1.LabelNode})
	check(t, s.StartOperator(t.Context()))

	s.untilSidecar(t, live.ImageNextSidecar, names)
	var pods []*corev1.Pod
	for _, name := range names {
		s.same(t, name, before[name])
		pod := s.pod(t, name)
		if !slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Image == live.ImageNextSidecar }) {
			t.Errorf("the pod of %s has another sidecar", name)
		}
		pods = append(pods, pod)
	}
	s.sameBlocks(t, "full", first)
	made, down, most := map[types.UID]string{}, sets.New[string](), 0
	seen(func(event watch.EventType, pod *corev1.Pod) {
		made[pod.UID] = pod.Labels[v1alpha1.LabelNode]
		switch {
		case !validators.Has(pod.Labels[v1alpha1.LabelNode]):
		case event == watch.Deleted || !live.PodReady(pod):
			down.Insert(pod.Name)
		default:
			down.Delete(pod.Name)
		}
		most = max(most, down.Len())
	}, pods...)
	// Had it been none, nothing would have been seen.
	if most != 1 {
		t.Errorf("at the worst moment %d validators were down", most)
	}
	count := map[string]int{}
	for _, name := range made {
		count[name]++
	}
	for _, name := range names {
		expected := 2 // The one that was there, and the one with the new sidecar.
		if name == "full" {
			expected = 1 // The one that was there was gone before.
		}
		if count[name] != expected {
			t.Errorf("%s had %d pods, and %d are expected", name, count[name], expected)
		}
	}
	// Who is silent still is not in the record before it signs again.
	check(t, s.watcher.Signs(t.Context(), s.watcher.Height(), s.ValidatorNames()...))
	s.watcher.Read(func(r *live.Record) {
		for _, name := range s.ValidatorNames() {
			note("%s got another sidecar: %s", name, r.LongestGap(name, height))
		}
	})
}

// untilSidecar waits until all these nodes are ready with this sidecar. They get it one after
// the other, in the operator's order: each may take as long as a wait does.
func (s *stage) untilSidecar(t *testing.T, image string, left []string) {
	t.Helper()
	for len(left) > 0 {
		check(t, live.Poll(t.Context(), fmt.Sprintf("the sidecar %s on one more of %v", image, left), func() (bool, error) {
			still, err := s.withoutSidecar(t, image, left)
			if err != nil || len(still) == len(left) {
				return false, err
			}
			left = still
			return true, nil
		}))
	}
}

// withoutSidecar are those of these nodes that are not ready with this sidecar.
func (s *stage) withoutSidecar(t *testing.T, image string, names []string) (left []string, err error) {
	t.Helper()
	for _, name := range names {
		node := &v1alpha1.SeiNode{}
		if err := s.Client.Get(t.Context(), s.Key(name), node); err != nil {
			return nil, err
		}
		if !live.IsReady(node) || node.Status.CurrentSidecarImage != image {
			left = append(left, name)
		}
	}
	return left, nil
}
