package e2e_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/live"
)

// stage is a chain on which stories are told, one after the other.
type stage struct {
	*live.Chain
	watcher *live.Watcher
}

// load is how many transactions per second the chain carries meanwhile.
const load = 10

// newStage starts a chain under load, and its record.
func newStage(t *testing.T, id string) *stage {
	t.Helper()
	if shared == nil {
		t.Skip("there is no real cluster here")
	}
	chain := must(shared.NewChain(t.Context(), id, 4))(t)
	s := &stage{Chain: chain}
	// Not the test's context: that ends before its cleanup does.
	s.watcher = must(chain.Watch(context.WithoutCancel(t.Context()), load))(t)
	t.Cleanup(func() {
		if err := s.watcher.Close(); err != nil {
			t.Errorf("the recording of %s: %v", id, err)
		}
	})
	return s
}

// must ends the test where something that has to work does not.
func must[T any](value T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return value
	}
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// story runs a story, and then asks the chain whether anything bad came of it.
func (s *stage) story(t *testing.T, name string, tell func(*testing.T)) {
	t.Helper()
	s.tell(t, name, func(t *testing.T) {
		tell(t)
		s.sound(t)
	})
}

// tell runs a story for the report.
func (s *stage) tell(t *testing.T, name string, tell func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		began := time.Now()
		defer func() {
			outcome := "ok"
			if t.Failed() {
				outcome = "FAILED"
			}
			told.Lock()
			defer told.Unlock()
			told.stories = append(told.stories, told1{name, outcome, time.Since(began)})
		}()
		tell(t)
	})
}

// sound asserts what holds after every story: all validators sign what comes from now
// on, nobody has signed twice, and every node has the chain's state.
func (s *stage) sound(t *testing.T) {
	t.Helper()
	check(t, s.watcher.Signs(t.Context(), s.watcher.Height(), s.ValidatorNames()...))
	s.watcher.Read(func(r *live.Record) {
		for _, complaint := range r.Complaints() {
			t.Error(complaint)
		}
	})
}

// gap waits until a validator signs steadily again, and tells for how long it did not
// behind a block that it had signed.
func (s *stage) gap(t *testing.T, validator string, behind int64) live.Gap {
	t.Helper()
	return must(s.watcher.Gap(t.Context(), validator, behind))(t)
}

// while is how many blocks the chain is looked at before and after what must not disturb it.
const while = 10

// quiet looks at the chain for a while in which nothing is done to it. The function that
// it returns asserts that since then no validator was silent for longer than is usual: more
// blocks in a row than any was in that while. Where the machine is small one is late now
// and then, so fewer blocks than there are validators always count as usual.
func (s *stage) quiet(t *testing.T) (undisturbed func()) {
	t.Helper()
	silent := func(behind int64) (worst string, missed int) {
		s.watcher.Read(func(r *live.Record) {
			for _, name := range s.ValidatorNames() {
				if gap := r.LongestGap(name, behind); gap.Missed >= missed {
					worst, missed = name, gap.Missed
				}
			}
		})
		return worst, missed
	}
	before := s.watcher.Height()
	check(t, s.watcher.Grow(t.Context(), while))
	_, missed := silent(before)
	usual, now := max(missed, s.Validators-1), s.watcher.Height()
	return func() {
		t.Helper()
		// Who is silent still is not in the record before it signs again.
		check(t, s.watcher.Signs(t.Context(), s.watcher.Height(), s.ValidatorNames()...))
		worst, missed := silent(now)
		if missed > usual {
			t.Errorf("%s missed %d blocks in a row, %d are usual", worst, missed, usual)
		}
		note("%s: a validator missed at most %d blocks in a row", t.Name(), missed)
	}
}

// watchPods watches what becomes of pods. The function that it returns ends that, as soon
// as some pods were seen as they are by then, and shows everything from the beginning.
func (s *stage) watchPods(t *testing.T, which client.ListOption) (seen func(show func(watch.EventType, *corev1.Pod), until ...*corev1.Pod)) {
	t.Helper()
	watched := must(s.Client.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(s.ID), which))(t)
	var mu sync.Mutex
	var events []watch.Event
	go func() {
		for event := range watched.ResultChan() {
			mu.Lock()
			events = append(events, event)
			mu.Unlock()
		}
	}()
	return func(show func(watch.EventType, *corev1.Pod), until ...*corev1.Pod) {
		t.Helper()
		defer watched.Stop()
		check(t, live.Poll(t.Context(), "the watch of pods", func() (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			versions := sets.New[string]()
			for _, event := range events {
				if pod, ok := event.Object.(*corev1.Pod); ok {
					versions.Insert(pod.ResourceVersion)
				}
			}
			return !slices.ContainsFunc(until, func(pod *corev1.Pod) bool { return !versions.Has(pod.ResourceVersion) }), nil
		}))
		mu.Lock()
		defer mu.Unlock()
		for _, event := range events {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				show(event.Type, pod)
			}
		}
	}
}

// follows waits until nodes have a state that is newer than the chain's is now.
func (s *stage) follows(t *testing.T, nodes ...string) {
	t.Helper()
	check(t, s.watcher.Follows(t.Context(), s.watcher.Height(), nodes...))
}

// identity is what has to stay through everything that is no person's wish.
type identity struct {
	volume types.UID
	node   string
}

func (s *stage) identity(t *testing.T, name string) identity {
	t.Helper()
	node := &v1alpha1.SeiNode{}
	check(t, s.Client.Get(t.Context(), s.Key(name), node))
	if node.Status.DataVolume == nil {
		t.Fatalf("%s has no volume", name)
	}
	// The claim itself is asked, not only what is said of it.
	claim := &corev1.PersistentVolumeClaim{}
	check(t, s.Client.Get(t.Context(), s.Key(node.Status.DataVolume.Name), claim))
	return identity{claim.UID, must(s.NodeID(t.Context(), name))(t)}
}

// same asserts that a node still is who it was.
func (s *stage) same(t *testing.T, name string, before identity) {
	t.Helper()
	if now := s.identity(t, name); now != before {
		t.Errorf("%s was %+v and is %+v", name, before, now)
	}
}

// create creates nodes.
func (s *stage) create(t *testing.T, nodes ...*v1alpha1.SeiNode) {
	t.Helper()
	for _, node := range nodes {
		check(t, s.Client.Create(t.Context(), node))
	}
}

// edit changes a node.
func (s *stage) edit(t *testing.T, name string, change func(*v1alpha1.SeiNodeSpec)) {
	t.Helper()
	check(t, s.Edit(t.Context(), name, func(node *v1alpha1.SeiNode) { change(&node.Spec) }))
}

// ready waits until a node is ready and at rest.
func (s *stage) ready(t *testing.T, name string) *v1alpha1.SeiNode {
	t.Helper()
	return must(s.Ready(t.Context(), name))(t)
}

func (s *stage) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	return must(s.Pod(t.Context(), name))(t)
}

// seid is the process of seid in a pod, of which there is exactly one.
func (s *stage) seid(t *testing.T, pod *corev1.Pod) int {
	t.Helper()
	found := must(live.Processes(pod, "seid"))(t)
	if len(found) != 1 {
		t.Fatalf("in the pod %s there are %d processes of seid", pod.Name, len(found))
	}
	return found[0]
}

// syncedNode brings up a full node from a snapshot.
func (s *stage) syncedNode(t *testing.T, name string) {
	t.Helper()
	check(t, s.watcher.Snapshot(t.Context()))
	s.create(t, s.Node(name, s.StateSync))
	s.ready(t, name)
	s.follows(t, name)
}

// nodeStatus is what a node says of itself.
type nodeStatus struct {
	Node struct {
		Moniker string `json:"moniker"`
	} `json:"node_info"`
	Sync struct {
		Earliest string `json:"earliest_block_height"`
	} `json:"sync_info"`
}

func (s *stage) status(t *testing.T, name string) (status nodeStatus) {
	t.Helper()
	check(t, json.Unmarshal(must(s.RPC(t.Context(), name, "status"))(t), &status))
	return status
}

// earliest is the first block that a node has.
func (s *stage) earliest(t *testing.T, name string) string {
	t.Helper()
	return s.status(t, name).Sync.Earliest
}

// sameBlocks asserts that a node still has the first block that it had: one that had synced
// anew would have another.
func (s *stage) sameBlocks(t *testing.T, name, first string) {
	t.Helper()
	if now := s.earliest(t, name); now != first {
		t.Errorf("the first block of %s was %s and is %s: it has synced anew", name, first, now)
	}
}

// moniker is what a node calls itself.
func (s *stage) moniker(t *testing.T, name string) string {
	t.Helper()
	return s.status(t, name).Node.Moniker
}

// version is that of the seid that runs.
func (s *stage) version(t *testing.T, name string) string {
	t.Helper()
	var info struct {
		Response struct {
			Version string `json:"version"`
		} `json:"response"`
	}
	check(t, json.Unmarshal(must(s.RPC(t.Context(), name, "abci_info"))(t), &info))
	return info.Response.Version
}

// has waits for a condition with a reason.
func (s *stage) has(t *testing.T, name string, kind v1alpha1.ConditionType, reason v1alpha1.ConditionReason) {
	t.Helper()
	must(s.Wait(t.Context(), name, string(kind)+" "+string(reason), func(node *v1alpha1.SeiNode) bool {
		return live.Condition(node, kind).Reason == string(reason)
	}))(t)
}

// remove deletes nodes with their volumes, so that the next story has the machine to
// itself.
func (s *stage) remove(t *testing.T, names ...string) {
	t.Helper()
	check(t, s.Remove(t.Context(), names...))
}
