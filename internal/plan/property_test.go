package plan

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/seid"
)

// explained fails when a decision does not say why.
func explained(t *rapid.T, what any, texts ...string) {
	if slices.Contains(texts, "") {
		t.Fatalf("it does not explain itself: %+v", what)
	}
}

func TestEveryDecisionIsSafeAndExplained(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := anyWorld(t)()
		checkDecision(t, in, Decide(in))
		checkStatefulSet(t, in, StatefulSet(in))
		checkReplicas(t, in)
		checkDocuments(t, in)
		volume := Volume(in)
		explained(t, volume, string(volume.Status), string(volume.Reason), volume.Message)
	})
}

func checkDecision(t *rapid.T, in Input, got Decision) {
	explained(t, got, string(got.Step), string(got.Reason), got.Message)
	if (got.Step == Start) != (got.Plan != nil) {
		t.Fatalf("step %s with plan %+v", got.Step, got.Plan)
	}
	if (got.Step == BackOff) != (got.Reason == v1alpha1.ReasonPlanFailed) {
		t.Fatalf("step %s with reason %s", got.Step, got.Reason)
	}
	if got.Step == BackOff && (got.After <= 0 || got.After > 10*time.Minute) {
		t.Fatalf("it backs off for %s", got.After)
	}
	if got.Plan != nil {
		checkPlan(t, in, got.Plan)
	}
	if in.Node.Status.Plan != nil {
		checkSupersession(t, in, got)
	}
}

// checkPlan checks a plan that is to start.
func checkPlan(t *rapid.T, in Input, p *v1alpha1.Plan) {
	checkAllowed(t, in, p)
	if !leadsToSpec(in, p) || p.Generation != in.Node.Generation {
		t.Fatalf("a plan leads elsewhere than to the spec: %+v", p)
	}
}

// checkSupersession checks what becomes of the plan that is there.
func checkSupersession(t *rapid.T, in Input, got Decision) {
	current := in.Node.Status.Plan
	obsolete := gaveUpVolume(in) && completed(current, TaskEnsureDataPVC) ||
		!leadsToSpec(in, current) ||
		current.Type != v1alpha1.PlanReapprove && in.Node.Status.AdmittedSpecHash != in.Want.SpecHash
	if got.Step == Continue && obsolete {
		t.Fatalf("a plan is carried on with that leads elsewhere: %+v", current)
	}
	// One that gives way is recorded; only then may another take its place.
	givesWay := got.Step == Start || got.Superseded != nil
	if givesWay && (!obsolete || got.Superseded == nil) {
		t.Fatalf("a plan gives way: %+v", got)
	}
	if obsolete && !slices.Contains([]Step{Start, Blocked, BackOff, Frozen}, got.Step) && (got.Step != Idle || FindDrift(in) != nil) {
		t.Fatalf("an obsolete plan gives way neither to another nor to a gate: %+v", got)
	}
}

func leadsToSpec(in Input, p *v1alpha1.Plan) bool {
	return p.TemplateHash == in.Want.TemplateHash && p.ConfigHash == in.Want.ConfigHash
}

func checkStatefulSet(t *rapid.T, in Input, got StatefulSetStep) {
	explained(t, got, string(got.Action), got.Message)
	if held := got.Action == HoldCreation || got.Action == LeaveForeign; held != (got.Gate != nil) {
		t.Fatalf("action %s with gate %+v", got.Action, got.Gate)
	}
	if got.Gate != nil {
		explained(t, got.Gate, string(got.Gate.Reason), got.Gate.Message)
	}
	if got.Action == Create && (in.Seen.StatefulSet != nil || in.Node.Status.StatefulSet != nil || in.Persisted.StatefulSet != nil ||
		in.Node.DeletionTimestamp != nil || in.Seen.Claim == nil || in.RenderProblem != "") {
		t.Fatalf("it must not be created: %+v", in)
	}
	if got.Action == Create {
		checkReserved(t, in)
	}
}

func checkReplicas(t *rapid.T, in Input) {
	replicas, gate := Replicas(in)
	if replicas != 0 && replicas != 1 || replicas == 0 && gate == nil {
		t.Fatalf("%d replicas with gate %+v", replicas, gate)
	}
	if gate != nil {
		explained(t, gate, string(gate.Reason), gate.Message)
	}
	had := keepsPod(in.Seen.StatefulSet)
	switch {
	case replicas == 0 && had:
		checkStop(t, in)
	case replicas > 0 && !had:
		checkNewPod(t, in)
	case replicas > 0:
		// The one exception: seid runs, and stopping it now would cost the volume.
		waits := gate != nil && (gate.Reason == v1alpha1.ReasonWaitingForSafeStop || gate.Reason == v1alpha1.ReasonDataVolumeTerminating)
		if stops := in.Node.Spec.Paused || in.Node.DeletionTimestamp != nil; stops != waits {
			t.Fatalf("a pod for a node that is paused or deleted: %+v", gate)
		}
	}
}

// checkStop checks what is stopped.
func checkStop(t *rapid.T, in Input) {
	claim, pod := in.Seen.Claim, in.Seen.Pod
	if claim != nil && claim.DeletionTimestamp != nil && pod != nil && pod.DeletionTimestamp == nil && !givenUp(in) {
		t.Fatal("a pod is stopped that keeps its volume")
	}
}

// checkNewPod checks what a pod comes to that was not there before.
func checkNewPod(t *rapid.T, in Input) {
	if in.Node.Spec.Paused || in.Node.DeletionTimestamp != nil {
		t.Fatal("a new pod for a node that is paused or deleted")
	}
	if len(in.Seen.OtherPods) > 0 || in.Seen.Claim == nil {
		t.Fatal("a new pod on a claim that somebody else uses or that is not there")
	}
	checkReserved(t, in)
}

func checkDocuments(t *rapid.T, in Input) {
	wanted, highest := WantedDocument(in), highestSerial(in)
	if wanted.Serial != highest && wanted.Serial != highest+1 || wanted.Serial < 1 && in.Seen.NodeConfig == nil {
		t.Fatalf("the serial is %d and the highest is %d", wanted.Serial, highest)
	}
	if seid.Hash(wanted) != seid.Hash(in.Want.Intent) {
		t.Fatalf("the document is not what the spec wants: %+v", wanted)
	}
	if asserted, known := AssertedDocument(in); known && asserted.Serial < highest {
		if live, err := liveDocument(in); err != nil || !reflect.DeepEqual(live, asserted) {
			t.Fatalf("a document of serial %d, after %d was seen", asserted.Serial, highest)
		}
	}
}

// TestTheSameWorldGivesTheSameDecisions, and nothing that was seen is changed.
func TestTheSameWorldGivesTheSameDecisions(t *testing.T) {
	t.Parallel()
	decisions := func(in Input) []any {
		replicas, gate := Replicas(in)
		asserted, known := AssertedDocument(in)
		return []any{
			Decide(in), StatefulSet(in), replicas, gate, Volume(in), WantedDocument(in), asserted, known,
			NothingToRoll(in), FindDrift(in), Wishes(in), Surplus(in), MayApprove(in), RecreateSlot(in),
			HasStatefulSet(in.Node), ShutGate(in, v1alpha1.PlanBootstrap), Bootstrapped(in),
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		world := anyWorld(t)
		one, other := world(), world()
		first, second, third := decisions(one), decisions(one), decisions(other)
		if !reflect.DeepEqual(first, second) || !reflect.DeepEqual(first, third) {
			t.Fatalf("the decisions differ:\n%s", cmp.Diff(first, third))
		}
		if untouched := world(); !reflect.DeepEqual(one, untouched) {
			t.Fatalf("deciding changed what was seen:\n%s", cmp.Diff(untouched, one))
		}
		// Rebuild is the one that writes, and only the status, and only once.
		Rebuild(one)
		if Rebuild(one) {
			t.Fatal("a status is rebuilt twice")
		}
		other.Node.Status = one.Node.Status
		if !reflect.DeepEqual(one, other) {
			t.Fatal("Rebuild changed more than the status")
		}
	})
}

func TestNoTwoTasksEverHaveTheSameID(t *testing.T) {
	t.Parallel()
	seen := map[uuid.UUID]string{}
	rapid.Check(t, func(t *rapid.T) {
		in := fresh(func(in *Input) {
			in.Node.UID = types.UID(rapid.StringMatching(`[a-f0-9]{4}`).Draw(t, "uid"))
			in.Seen.Now = now.Add(time.Duration(rapid.Int64Range(0, 1000).Draw(t, "when")))
		})
		for _, kind := range []v1alpha1.PlanType{v1alpha1.PlanBootstrap, v1alpha1.PlanReapprove} {
			p := newPlan(in, kind, v1alpha1.ReasonBootstrapping, "It is brought up.")
			for i := range p.Tasks {
				name := fmt.Sprintf("%s %s %s %d", in.Node.UID, in.Seen.Now, kind, i)
				if other, taken := seen[TaskID(p, i)]; taken && other != name {
					t.Fatalf("%s and %s have the same id", name, other)
				}
				seen[TaskID(p, i)] = name
			}
		}
	})
}
