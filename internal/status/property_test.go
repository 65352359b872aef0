package status

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// happenings are what can happen to a node and its world, in any number and order.
var happenings = map[string]func(*rapid.T) edit{
	"paused":       always(asksForPause),
	"deleted":      always(deleted),
	"no pod":       always(noPod),
	"no claim":     always(noClaim),
	"no set":       always(func(in *Input) { in.Seen.StatefulSet = nil }),
	"stopped":      always(ifSet(stoppedSet)),
	"unready":      always(ifPod(notReadyPod)),
	"crashing":     always(ifPod(crashing)),
	"starting":     always(ifPod(sidecarStarting)),
	"silent":       always(silent),
	"not heard of": always(notHeardOf),
	"used":         always(usedByJob),
	"full disk":    always(fullDisk),
	"keys": always(func(in *Input) {
		for _, kind := range []plan.KeyKind{plan.SigningKey, plan.NodeKey, plan.OperatorKeyring} {
			key(kind, plan.Key{PublicKey: "public", NodeID: "id"})(in)
		}
	}),
	"keys of another": always(leasedToOther(plan.SigningKey)),
	"approved before": always(reserved(v1alpha1.ReservationSigningKey)),
	"empty status":    always(emptied),
	"validator":       always(ifClaim(validator)),
	"much to tell":    always(ifClaim(muchToTell)),
	"unrenderable":    always(func(in *Input) { in.RenderProblem = "it would not be safe" }),
	"unsafe":          always(unsafe),
	"slot":            always(func(in *Input) { in.Node.Status.Slot = &v1alpha1.UpdateSlot{Cause: v1alpha1.UpdateCauseEdit} }),
	"no conditions":   always(func(in *Input) { in.Node.Status.Conditions = nil }),
	"ends": func(t *rapid.T) edit {
		return ifPod(endsAt(anyTime(t)))
	},
	"up since": func(t *rapid.T) edit {
		when := anyTime(t)
		return ifPod(func(in *Input) {
			if in.Seen.Pod.Status.InitContainerStatuses[1].State.Running != nil {
				sidecarUp(when)(in)
			}
		})
	},
	"sidecar": func(t *rapid.T) edit {
		found := plan.Sidecar{
			New: rapid.Bool().Draw(t, "new"), Connected: rapid.Bool().Draw(t, "connected"), Problem: rapid.String().Draw(t, "problem"),
			Status: api.Status{
				Approved: rapid.Bool().Draw(t, "approved"), Held: rapid.Bool().Draw(t, "held"), HeldReason: rapid.String().Draw(t, "why"),
				Seid: api.Seid{
					State:         rapid.SampledFrom([]api.SeidState{"", api.SeidRunning, api.SeidParked, api.SeidStopped}).Draw(t, "state"),
					ParkedBecause: rapid.SampledFrom([]string{"", "KeyIdentityChanged", "VolumeRuined"}).Draw(t, "parked"),
				},
				Upgrade: api.Upgrade{Halted: rapid.Bool().Draw(t, "halted"), Name: rapid.String().Draw(t, "upgrade")},
			},
		}
		return func(in *Input) { in.Seen.Sidecar = found }
	},
	"plan": func(t *rapid.T) edit {
		return doing(rapid.SampledFrom([]v1alpha1.PlanType{
			v1alpha1.PlanBootstrap, v1alpha1.PlanReapprove, v1alpha1.PlanNodeUpdate, v1alpha1.PlanConfigUpdate,
		}).Draw(t, "plan"))
	},
	"phase": func(t *rapid.T) edit {
		return phase(rapid.SampledFrom([]v1alpha1.SeiNodePhase{"", v1alpha1.PhasePending, v1alpha1.PhaseFailed, v1alpha1.PhaseRunning}).Draw(t, "phase"))
	},
	"failed": always(func(in *Input) {
		in.Node.Status.LastPlan = &v1alpha1.PlanRecord{
			Type: v1alpha1.PlanBootstrap, Outcome: v1alpha1.PlanOutcomeFailed, Message: "it broke", CompletionTime: metav1.NewTime(now),
		}
	}),
	"trouble": func(t *rapid.T) edit {
		return trouble(plan.Gate{Reason: v1alpha1.ReasonAPIRefused, Message: "It is refused.", Stalled: rapid.Bool().Draw(t, "stalled")})
	},
	"said": func(t *rapid.T) edit {
		kind := rapid.SampledFrom(v1alpha1.SeiNodeConditions).Draw(t, "condition")
		return func(in *Input) {
			if !slices.ContainsFunc(in.Node.Status.Conditions, func(c metav1.Condition) bool { return c.Type == string(kind) }) {
				said(kind, metav1.ConditionTrue, v1alpha1.ReasonBound)(in)
			}
		}
	},
}

func always(change edit) func(*rapid.T) edit { return func(*rapid.T) edit { return change } }

func ifPod(change edit) edit {
	return func(in *Input) {
		if in.Seen.Pod != nil {
			change(in)
		}
	}
}

func ifSet(change edit) edit {
	return func(in *Input) {
		if in.Seen.StatefulSet != nil {
			change(in)
		}
	}
}

func ifClaim(change edit) edit {
	return func(in *Input) {
		if in.Seen.Claim != nil {
			change(in)
		}
	}
}

func anyTime(t *rapid.T) time.Time {
	return now.Add(time.Duration(rapid.Int64Range(-int64(time.Minute), int64(time.Minute)).Draw(t, "time")))
}

// anyWorld draws what happened to a node and what was decided about it.
func anyWorld(t *rapid.T) Input {
	var edits []edit
	for _, name := range rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(maps.Keys(happenings))), 0, 8).Draw(t, "story") {
		edits = append(edits, happenings[name](t))
	}
	in := running(edits...)
	in.Decision = plan.Decide(in.Input)
	return in
}

func TestAnyStatusIsWholeAndHonest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := anyWorld(t)
		if wait := Set(in); wait < 0 || wait > time.Hour {
			t.Fatalf("it looks again after %s", wait)
		}
		seen := map[string]metav1.Condition{}
		for _, c := range in.Node.Status.Conditions {
			if c.Reason == "" || c.Message == "" || c.Status == "" || c.ObservedGeneration != in.Node.Generation || c.LastTransitionTime.IsZero() {
				t.Fatalf("the condition is %+v", c)
			}
			seen[c.Type] = c
		}
		if len(seen) != len(v1alpha1.SeiNodeConditions) || len(in.Node.Status.Conditions) != len(seen) {
			t.Fatalf("the conditions are %+v", in.Node.Status.Conditions)
		}
		checkSummary(t, in, seen)
		if size := sizeOf(in.Node.Status.Plan, in.Node.Status.Conditions); size > maxSize {
			t.Fatalf("plan and conditions are %d bytes", size)
		}
	})
}

// checkSummary checks what follows from Ready, and from Stalled.
func checkSummary(t *rapid.T, in Input, seen map[string]metav1.Condition) {
	ready, stalled := seen[string(v1alpha1.ConditionReady)], seen[string(v1alpha1.ConditionStalled)]
	reconciling, held := seen[string(v1alpha1.ConditionReconciling)], seen[string(v1alpha1.ConditionHeld)]
	if stalled.Status == yes && (ready.Status == yes || reconciling.Status == yes && in.Node.DeletionTimestamp == nil) {
		t.Fatalf("Ready is %+v, Reconciling is %+v and Stalled is %+v", ready, reconciling, stalled)
	}
	if ready.Status != yes {
		return
	}
	sidecar := in.Seen.Sidecar
	if !plan.PodReady(in.Seen.Pod) || in.Node.Status.Plan != nil || sidecar.Connected && !sidecar.Status.Approved || held.Status == yes ||
		reconciling.Status == yes || in.Node.Spec.Paused || in.Node.DeletionTimestamp != nil {
		t.Fatalf("it is ready: %+v", in)
	}
}

func TestAnyStatusIsWrittenOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := anyWorld(t)
		Set(in)
		in.Persisted = in.Node.Status.DeepCopy()
		Set(in)
		if !reflect.DeepEqual(in.Persisted, &in.Node.Status) {
			t.Fatalf("the second time (-first +second):\n%s", cmp.Diff(in.Persisted, &in.Node.Status))
		}
		if events := Transitions(in.Persisted, &in.Node.Status); events != nil {
			t.Fatalf("it is told twice: %+v", events)
		}
		if wait := Postpone(in.Persisted, &in.Node.Status, now); wait != 0 {
			t.Fatalf("nothing is postponed by %s", wait)
		}
	})
}
