package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// happenings are what can happen to a node and its world, in any number and order.
var happenings = map[string]func(*rapid.T) edit{
	"paused":        always(paused),
	"deleted":       always(deleted),
	"unrenderable":  always(unrenderable),
	"edited image":  always(newImage),
	"edited config": always(override("y")),
	"validator":     always(validator),
	"seed":          always(seed),
	"imports":       always(imports),
	"no claim":      always(noClaim),
	"no set":        always(noSet),
	"forgotten":     always(forgotten),
	"no pod":        always(noPod),
	"no document":   always(noDocument),
	"no status":     always(emptied),
	"reapproving":   always(reapproving),
	"snapshot": func(*rapid.T) edit {
		return spec(func(s *v1alpha1.SeiNodeSpec) {
			if s.FullNode != nil {
				s.FullNode.Snapshot = &v1alpha1.SnapshotSource{StateSync: &v1alpha1.StateSyncSource{}}
			}
		})
	},
	"no witnesses": always(func(in *Input) { in.Want.Witnesses = nil }),
	"new template": always(func(in *Input) { in.Want.TemplateHash = "another" }),
	"phase": func(t *rapid.T) edit {
		return phase(rapid.SampledFrom([]v1alpha1.SeiNodePhase{
			"", v1alpha1.PhasePending, v1alpha1.PhaseInitializing, v1alpha1.PhaseRunning, v1alpha1.PhaseFailed, v1alpha1.PhaseTerminating,
		}).Draw(t, "phase"))
	},
	"bootstrapping": func(t *rapid.T) edit {
		task := rapid.SampledFrom([]string{TaskEnsureDataPVC, TaskApplyService, TaskApplyStatefulSet, TaskMarkReady, "unknown"}).Draw(t, "task")
		return at(task)
	},
	"another spec was admitted": always(func(in *Input) { in.Node.Status.AdmittedSpecHash = "another" }),
	"last plan":                 anyRecord,
	"retry": func(t *rapid.T) edit {
		return annotated(v1alpha1.AnnotationRetry, rapid.StringN(-1, -1, 300).Draw(t, "retry"))
	},
	"accepts a loss": func(t *rapid.T) edit { return acceptsLossOf(string(anyUID(t))) },
	"claim": func(t *rapid.T) edit {
		claim := hasClaim(claimed(anyUID(t)))
		if rapid.Bool().Draw(t, "marked") {
			claim = hasClaim(claimed(anyUID(t)), marked(anyUID(t)))
		}
		return claim
	},
	"claim ends":      always(func(in *Input) { onClaim(in, terminatingClaim) }),
	"claim unbound":   always(func(in *Input) { onClaim(in, unbound) }),
	"claim mislabels": always(func(in *Input) { onClaim(in, func(c *corev1.PersistentVolumeClaim) { c.Labels = nil }) }),
	"tracks":          func(t *rapid.T) edit { return tracks(anyUID(t)) },
	"used": func(t *rapid.T) edit {
		return usedBy(rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,8}`), 0, 2).Draw(t, "pods")...)
	},
	"set": func(t *rapid.T) edit {
		changes := rapid.SliceOfN(rapid.SampledFrom([]func(*appsv1.StatefulSet){
			uncontrolled, terminatingSet, scaled(0), scaled(1), scaled(2), ownedBy("HelmRelease", "theirs"),
			selecting(nil), func(s *appsv1.StatefulSet) { s.UID = otherUID }, func(s *appsv1.StatefulSet) { s.Spec.Selector, s.Spec.Replicas = nil, nil },
		}), 0, 3).Draw(t, "changes of the StatefulSet")
		return hasSet(changes...)
	},
	"foreign Service": always(func(in *Input) {
		in.Seen.Service = &corev1.Service{ObjectMeta: controlledBy("node", "HelmRelease", "theirs", otherUID)}
	}),
	"pod ends": always(func(in *Input) { hasPod(endingPod)(in) }),
	"document": func(t *rapid.T) edit { return hasDocument(rapid.Int64Range(0, 9).Draw(t, "serial")) },
	"tampered": always(tampered(foreignText)),
	"emptied document": always(func(in *Input) {
		tampered(foreignText)(in)
		garbage(in)
	}),
	"peers": func(t *rapid.T) edit {
		return knowsPeers(rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,8}`), 0, 3).Draw(t, "peers")...)
	},
	"no config admitted": always(func(in *Input) { in.Node.Status.ConfigHash = "" }),
	"serial":             func(t *rapid.T) edit { return remembers(rapid.Int64Range(0, 9).Draw(t, "remembered serial")) },
	"sidecar": func(t *rapid.T) edit {
		found := Sidecar{Connected: rapid.Bool().Draw(t, "connected"), New: rapid.Bool().Draw(t, "new"), Status: api.Status{
			Approved: rapid.Bool().Draw(t, "approved"), Held: rapid.Bool().Draw(t, "held"),
			Approval: api.Approval{NodeUID: rapid.SampledFrom([]string{"", "node-uid", "other-uid"}).Draw(t, "approval")},
			Config:   api.Config{Serial: rapid.Int64Range(0, 9).Draw(t, "applied serial")},
		}}
		return sidecar(func(s *Sidecar) { *s = found })
	},
	"keys": func(t *rapid.T) edit {
		found := rapid.SampledFrom([]edit{allKeys, missing(SigningKey), malformed(NodeKey), usable(SigningKey), usable(NodeKey, SigningKey)})
		return found.Draw(t, "keys")
	},
	"old reference": always(stillPersisted),
	"updating": func(t *rapid.T) edit {
		kind := rapid.SampledFrom([]v1alpha1.PlanType{v1alpha1.PlanNodeUpdate, v1alpha1.PlanConfigUpdate}).Draw(t, "update")
		return func(in *Input) {
			updating(in)
			in.Node.Status.Plan.Type = kind
		}
	},
	"slot":           always(has(v1alpha1.UpdateSlot{Cause: v1alpha1.UpdateCauseOperator, TemplateHash: "another"})),
	"unsafe":         always(unsafe("state sync")),
	"skip safe stop": always(skipsSafeStop("true")),
	"stop requested": func(t *rapid.T) edit {
		return wantsStop(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "stop requested")))
	},
	"leaves a pause": always(func(in *Input) {
		for i := range in.Node.Status.Conditions {
			in.Node.Status.Conditions[i].Reason = string(v1alpha1.ReasonStopping)
		}
	}),
}

func always(change edit) func(*rapid.T) edit { return func(*rapid.T) edit { return change } }

func onClaim(in *Input, change func(*corev1.PersistentVolumeClaim)) {
	if in.Seen.Claim != nil {
		change(in.Seen.Claim)
	}
}

func anyUID(t *rapid.T) types.UID {
	return rapid.SampledFrom([]types.UID{nodeUID, claimUID, otherUID, ""}).Draw(t, "uid")
}

func anyRecord(t *rapid.T) edit {
	kind := rapid.SampledFrom([]v1alpha1.PlanType{v1alpha1.PlanBootstrap, v1alpha1.PlanReapprove, v1alpha1.PlanNodeUpdate}).Draw(t, "type of the last plan")
	outcome := rapid.SampledFrom([]v1alpha1.PlanOutcome{
		v1alpha1.PlanOutcomeFailed, v1alpha1.PlanOutcomeComplete, v1alpha1.PlanOutcomeSuperseded,
	}).Draw(t, "outcome of the last plan")
	ago := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "age of the last plan"))
	return ended(kind, outcome, ago, rapid.Int32Min(-1).Draw(t, "failures"))
}

// anyWorld draws what happened, and builds the same world as often as asked.
func anyWorld(t *rapid.T) func() Input {
	names := slices.Sorted(maps.Keys(happenings))
	story := rapid.SliceOfN(rapid.SampledFrom(names), 0, 10).Draw(t, "story")
	start := rapid.SampledFrom([]string{"fresh", "running"}).Draw(t, "start")
	edits := make([]edit, len(story))
	for i, name := range story {
		edits[i] = happenings[name](t)
	}
	return func() Input {
		if start == "fresh" {
			return fresh(edits...)
		}
		return running(edits...)
	}
}

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
	if in.Node.Spec.Paused || in.RenderProblem != "" {
		t.Fatalf("a plan starts for a node that is paused or cannot be rendered: %+v", p)
	}
	if gate := ShutGate(in, p.Type); gate != nil {
		t.Fatalf("a plan starts while a gate is shut: %+v", gate)
	}
	if !leadsToSpec(in, p) || p.Generation != in.Node.Generation {
		t.Fatalf("a plan leads elsewhere than to the spec: %+v", p)
	}
}

// checkSupersession checks what becomes of the plan that is there.
func checkSupersession(t *rapid.T, in Input, got Decision) {
	current := in.Node.Status.Plan
	obsolete := !leadsToSpec(in, current) || current.Type != v1alpha1.PlanReapprove && in.Node.Status.AdmittedSpecHash != in.Want.SpecHash
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
}

func checkReplicas(t *rapid.T, in Input) {
	replicas, gate := Replicas(in)
	if replicas != 0 && replicas != 1 || replicas == 0 && gate == nil {
		t.Fatalf("%d replicas with gate %+v", replicas, gate)
	}
	if gate != nil {
		explained(t, gate, string(gate.Reason), gate.Message)
	}
	if replicas == 0 {
		return
	}
	had := keepsPod(in.Seen.StatefulSet)
	// The one exception: seid runs, and stopping it now would cost the volume.
	waits := had && gate != nil && (gate.Reason == v1alpha1.ReasonWaitingForSafeStop || gate.Reason == v1alpha1.ReasonDataVolumeTerminating)
	if stops := in.Node.Spec.Paused || in.Node.DeletionTimestamp != nil; stops != waits {
		t.Fatalf("a pod for a node that is paused or deleted: %+v", gate)
	}
	if !had && (len(in.Seen.OtherPods) > 0 || in.Seen.Claim == nil) {
		t.Fatal("a new pod on a claim that somebody else uses or that is not there")
	}
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
			NothingToRoll(in), FindDrift(in), Wishes(in), Surplus(in), MayApprove(in), RecreateSlot(in), HasStatefulSet(in.Node), ShutGate(in, v1alpha1.PlanBootstrap), Bootstrapped(in),
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
