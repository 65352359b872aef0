package nodetask

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

// stage is a world for one step.
type stage struct {
	World

	task    *v1alpha1.SeiNodeTask
	node    *v1alpha1.SeiNode
	others  []v1alpha1.SeiNode
	answers map[uuid.UUID]Answer
	held    string
	patched string
	ended   []uuid.UUID
}

func (s *stage) Task() *v1alpha1.SeiNodeTask { return s.task }
func (s *stage) Node() *v1alpha1.SeiNode     { return s.node }
func (s *stage) Now() time.Time              { return now }
func (s *stage) Witnesses() []string         { return []string{"a:1", "b:1"} }

func (s *stage) HeldReason(context.Context) (string, error) { return s.held, nil }

func (s *stage) Keys(context.Context) (Identity, error) {
	return Identity{PublicKey: "key", NodeID: "id"}, nil
}

func (s *stage) Others(context.Context, map[string]string) ([]v1alpha1.SeiNode, error) {
	return s.others, nil
}

func (s *stage) PatchImage(_ context.Context, image string) error {
	s.patched = image
	return nil
}

func (s *stage) OnSidecar(_ context.Context, _ *v1alpha1.SeiNode, id uuid.UUID, _ string, _ func() (any, error)) (Answer, error) {
	return s.answers[id], nil
}

func (s *stage) Cancel(_ context.Context, _ *v1alpha1.SeiNode, id uuid.UUID) error {
	s.ended = append(s.ended, id)
	return nil
}

// params are those of a step, as they are sent.
func params(t *testing.T, w World, step string) string {
	t.Helper()
	found, err := KindOf(w.Task()).Step(step).Params(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestWhatIsSent(t *testing.T) {
	peers := of(v1alpha1.TaskKindDiscoverPeers, func(s *v1alpha1.SeiNodeTaskSpec) { s.DiscoverPeers = &v1alpha1.DiscoverPeersPayload{} })
	mark := of(v1alpha1.TaskKindMarkReady, func(s *v1alpha1.SeiNodeTaskSpec) { s.MarkReady = &v1alpha1.MarkReadyPayload{} })
	release := of(v1alpha1.TaskKindReleaseHold, func(s *v1alpha1.SeiNodeTaskSpec) { s.ReleaseHold = &v1alpha1.ReleaseHoldPayload{} })
	height := of(v1alpha1.TaskKindAwaitCondition, func(s *v1alpha1.SeiNodeTaskSpec) {
		s.AwaitCondition = &v1alpha1.AwaitConditionPayload{Height: &v1alpha1.AwaitHeight{TargetHeight: 7}}
	})
	forced := func(n *v1alpha1.SeiNode) {
		n.Annotations = map[string]string{v1alpha1.AnnotationSkipSafeStop: "true"}
	}
	found := func(n *v1alpha1.SeiNode) {
		n.Status.ResolvedPeers = &v1alpha1.ResolvedPeers{Count: 1, Addresses: []string{"id@host:1"}}
	}
	snapshot := func(n *v1alpha1.SeiNode) {
		n.Spec.FullNode.Snapshot = &v1alpha1.SnapshotSource{TrustPeriod: "9h", BackfillBlocks: new(int64(5))}
	}
	for _, c := range []struct {
		kind func(*v1alpha1.SeiNodeTask)
		node func(*v1alpha1.SeiNode)
		step string
		want string
	}{
		{func(*v1alpha1.SeiNodeTask) {}, func(*v1alpha1.SeiNode) {}, "restart-seid", `{}`},
		{func(*v1alpha1.SeiNodeTask) {}, forced, "restart-seid", `{"force":true}`},
		{asHold, func(*v1alpha1.SeiNode) {}, "hold", `{"reason":"SeiNodeTask restart"}`},
		{asHold, forced, "stop-seid", `{"force":true}`},
		{asResync, func(*v1alpha1.SeiNode) {}, "hold", `{"reason":"ResyncNode restart"}`},
		{asResync, func(*v1alpha1.SeiNode) {}, "check-witnesses", `{"rpcServers":["a:1","b:1"],"checkOnly":true}`},
		{asResync, snapshot, "configure-state-sync", `{"rpcServers":["a:1","b:1"],"trustPeriod":"9h","backfillBlocks":5}`},
		{asResync, func(*v1alpha1.SeiNode) {}, "reset-data", `{}`},
		{peers, func(*v1alpha1.SeiNode) {}, "write-peers", `{"peers":[]}`},
		{peers, found, "write-peers", `{"peers":["id@host:1"]}`},
		{mark, func(*v1alpha1.SeiNode) {}, "mark-ready", `{"publicKey":"key","nodeId":"id"}`},
		{release, func(*v1alpha1.SeiNode) {}, "release-hold", `{}`},
		{height, func(*v1alpha1.SeiNode) {}, "await-condition", `{"height":{"targetHeight":7},"timeoutSeconds":86400}`},
		{asWait, func(*v1alpha1.SeiNode) {}, "await-condition", `{"caughtUp":{},"timeoutSeconds":86400}`},
	} {
		w := &stage{task: restart(c.kind, began(0)), node: runningNode(c.node)}
		if diff := cmp.Diff(c.want, params(t, w, c.step)); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", c.step, w.task.Spec.Kind, diff)
		}
	}
}

// A sidecar waits a little shorter than the task may take, and a moment at least.
func TestASidecarTellsBeforeTheTaskIsGivenUp(t *testing.T) {
	for seconds, want := range map[int32]int64{1: 1, 2: 2, 60: 60} {
		w := &stage{task: restart(asWait, began(0), func(task *v1alpha1.SeiNodeTask) { task.Spec.TimeoutSeconds = &seconds })}
		same(t, "what is left", secondsLeft(w), want)
	}
	late := &stage{task: restart(asWait, began(48*time.Hour))}
	same(t, "what is left when it is late", secondsLeft(late), 1)
}

// A resync ends its own hold, and no other.
func TestAResyncEndsItsOwnHold(t *testing.T) {
	w := &stage{task: restart(asResync, began(0)), node: runningNode()}
	own := StepID(w.task, resyncHold)
	same(t, "the release", params(t, w, resyncRelease), `{"hold":"`+own.String()+`"}`)

	hold := KindOf(w.task).Step(resyncHold)
	for _, c := range []struct {
		result, held string
		fails        bool
	}{
		{`{"changed":true}`, "", false},
		{`{"changed":false}`, "ResyncNode earlier", false},
		{`{"changed":false}`, "evidence", true},
		{`{"changed":false}`, "", true},
		{``, "evidence", true},
	} {
		w.held = c.held
		if err := hold.Learn(t.Context(), w, json.RawMessage(c.result), nil); isFailure(err) != c.fails {
			t.Errorf("%s, held because of %q: %v", c.result, c.held, err)
		}
	}
}

func isFailure(err error) bool {
	_, is := errors.AsType[*Failure](err)
	return is
}

func TestWhatIsLearnt(t *testing.T) {
	outputs := &v1alpha1.TaskOutputs{}
	learn := func(task *v1alpha1.SeiNodeTask, result string) {
		if err := KindOf(task).Steps[0].Learn(t.Context(), &stage{}, json.RawMessage(result), outputs); err != nil {
			t.Error(err)
		}
	}
	learn(restart(), `{"newInstance":"x","gapSeconds":1.23456}`)
	learn(restart(asWait), `{"height":77}`)
	if diff := cmp.Diff(&v1alpha1.TaskOutputs{RestartGapSeconds: "1.235", Height: 77}, outputs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	learn(restart(), ``)
	learn(restart(), `{"gapSeconds":9}`)
	same(t, "what nothing is known of", outputs.RestartGapSeconds, "1.235")
}

func TestUpdateNodeImageStepByStep(t *testing.T) {
	w := &stage{task: restart(asImage, began(time.Minute)), node: runningNode()}
	kind := KindOf(w.task)
	look := func(step int) Outcome {
		outcome, err := kind.Steps[step].Do(t.Context(), w, &v1alpha1.TaskOutputs{})
		if err != nil {
			t.Fatal(err)
		}
		return outcome
	}
	same(t, "the first step", look(0).verdict, done)
	same(t, "the image", w.patched, "seid:v2")
	same(t, "an image that is another", look(1).failure.Reason, v1alpha1.ReasonSuperseded)

	w.node.Spec.Image, w.patched = "seid:v2", ""
	same(t, "the first step once more", look(0).verdict, done)
	same(t, "the image", w.patched, "")

	w.node.Generation, w.node.Status.ObservedGeneration, w.node.Status.CurrentImage = 2, 1, "seid:v2"
	same(t, "before the node noticed", look(1).verdict, waiting)
	w.node.Status.ObservedGeneration = 2
	updating(w.node)
	same(t, "while the plan runs", look(1).verdict, waiting)
	w.node.Status.Plan = nil
	same(t, "when it is done", look(1).verdict, done)

	w.node.Status.CurrentImage = "seid:v1"
	w.node.Status.Conditions = []metav1.Condition{{Type: "Ready", Reason: "ImagePullBackOff", Message: "The image cannot be pulled."}}
	if got := look(1); got.verdict != waiting || !strings.Contains(got.message, "cannot be pulled") {
		t.Errorf("with trouble: %+v", got)
	}
	w.node.Status.Conditions[0].Reason = "Updating"
	same(t, "without trouble", look(1).message, "Waits until the node runs seid:v2.")
	w.node.Status.LastPlan = &v1alpha1.PlanRecord{Type: v1alpha1.PlanNodeUpdate, Outcome: v1alpha1.PlanOutcomeFailed, StartTime: *ago(time.Hour), Message: "no"}
	same(t, "after a plan that failed before", look(1).verdict, waiting)
	w.node.Status.LastPlan.StartTime = *ago(0)
	same(t, "after a plan that failed", look(1).failure.Reason, v1alpha1.ReasonTaskFailed)
	w.node.Status.CurrentImage = "seid:v2"
	same(t, "after a plan that failed because the image does not work", look(1).failure.Reason, v1alpha1.ReasonTaskFailed)
	updating(w.node)
	same(t, "while it is tried again", look(1).verdict, waiting)
	w.node.Status.Plan, w.node.Status.Conditions[0].Status = nil, metav1.ConditionTrue
	same(t, "when it got ready all the same", look(1).verdict, done)
	w.node.Status.CurrentImage = "seid:v1"
	w.node.Status.LastPlan, w.node.Spec.Paused = nil, true
	if got := look(1); got.verdict != waiting || !strings.Contains(got.message, "paused") {
		t.Errorf("paused: %+v", got)
	}
}

func TestAwaitNodesCountsAll(t *testing.T) {
	at := func(name string) v1alpha1.SeiNode {
		return *runningNode(func(n *v1alpha1.SeiNode) { n.Name, n.UID = name, types.UID(name) })
	}
	w := &stage{
		task: restart(of(v1alpha1.TaskKindAwaitNodesAtHeight, func(s *v1alpha1.SeiNodeTaskSpec) {
			s.AwaitNodesAtHeight = &v1alpha1.AwaitNodesAtHeightPayload{TargetHeight: 7, Selector: map[string]v1alpha1.LabelValue{"a": "b"}}
		}), began(0)),
		node: runningNode(), others: []v1alpha1.SeiNode{at("z"), *runningNode(), at("b")},
	}
	going := at("going")
	going.DeletionTimestamp = ago(0)
	w.others = append(w.others, going)
	step := KindOf(w.task).Steps[0]
	id := func(uid types.UID) uuid.UUID { return nodeID(w.task, step.Name, uid) }
	reached := func(height int64) Answer {
		content, _ := json.Marshal(tasks.AwaitConditionResult{Met: true, Height: height})
		return Answer{Result: content}
	}
	w.answers = map[uuid.UUID]Answer{
		id("node-uid"): reached(9), id("z"): {Waits: "w", After: time.Second}, id("b"): {Waits: "w", After: time.Minute},
	}
	outputs := &v1alpha1.TaskOutputs{}
	look := func() Outcome {
		outcome, err := step.Do(t.Context(), w, outputs)
		if err != nil {
			t.Fatal(err)
		}
		return outcome
	}
	same(t, "one of three", look(), Waits(time.Second, "1 of 3 nodes have reached the height 7."))
	w.answers[id("b")] = Answer{Reason: "DeadlineExceeded", Message: "at 3", Result: reached(3).Result}
	same(t, "one failed and one is waited for", look().verdict, waiting)
	w.answers[id("z")] = reached(8)
	if got := look(); got.verdict != failed || got.failure.Reason != v1alpha1.ReasonTimeout || !strings.Contains(got.failure.Message, "Node b: ") {
		t.Errorf("one failed: %+v", got)
	}
	want := &v1alpha1.TaskOutputs{Height: 3, Nodes: []v1alpha1.NodeHeight{{Name: "alpha", Height: 9}, {Name: "b", Height: 3}, {Name: "z", Height: 8}}}
	if diff := cmp.Diff(want, outputs); diff != "" {
		t.Errorf("the outputs (-want +got):\n%s", diff)
	}
	w.answers[id("b")] = reached(7)
	same(t, "all of them", look(), Done("All of 3 nodes have reached the height 7."))
	if err := step.Cancel(t.Context(), w); err != nil || len(w.ended) != 3 {
		t.Errorf("cancelled were %v, %v", w.ended, err)
	}
}
