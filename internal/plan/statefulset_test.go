package plan

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

func uncontrolled(s *appsv1.StatefulSet) { s.OwnerReferences = nil }

func terminatingSet(s *appsv1.StatefulSet) { s.DeletionTimestamp = new(metav1.NewTime(now)) }

func selecting(labels map[string]string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels} }
}

func ownedBy(kind, name string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.ObjectMeta = controlledBy("node", kind, name, otherUID) }
}

// lost is a node that runs and whose StatefulSet was deleted, which is persisted.
func lost(edits ...edit) Input {
	return running(append([]edit{noSet, forgotten}, edits...)...)
}

// stillPersisted says that the API server does not know yet that the reference is
// cleared.
func stillPersisted(in *Input) {
	in.Persisted = in.Node.Status.DeepCopy()
	in.Persisted.StatefulSet = &v1alpha1.ObjectIdentity{Name: "node", UID: setUID}
}

func TestTheLifeOfAStatefulSet(t *testing.T) {
	t.Parallel()
	foreign := func(stalled bool, says ...string) wantGate {
		return wantGate{reason: v1alpha1.ReasonForeignStatefulSet, stalled: stalled, says: says}
	}
	for name, test := range map[string]struct {
		in   Input
		want Action
		gate wantGate
		says []string
	}{
		"the tracked one is there":                         {in: running(), want: Assert, says: []string{"node"}},
		"the tracked one is there and the node is deleted": {in: running(deleted), want: Assert},
		"the tracked one is gone":                          {in: running(noSet), want: Forget, says: []string{"node", "set-uid"}},
		"the tracked one is gone and the node is deleted":  {in: running(noSet, deleted), want: Forget},
		"none is tracked and ours is there":                {in: running(forgotten), want: Adopt, says: []string{"node", "set-uid"}},
		"none is tracked and one that nobody controls is there": {
			in: running(forgotten, hasSet(uncontrolled)), want: Adopt,
		},
		"ours is there with another selector": {
			in: running(forgotten, hasSet(selecting(map[string]string{"app": "x"}))), want: Adopt,
		},
		"nobody controls the one that is there, and it selects other pods": {
			in:   running(forgotten, hasSet(uncontrolled, selecting(map[string]string{"app": "x"}))),
			want: LeaveForeign, gate: foreign(true, "node", "selects other pods"),
		},
		"nobody controls the one that is there, and it selects more narrowly": {
			in:   running(forgotten, hasSet(uncontrolled, selecting(map[string]string{v1alpha1.LabelNode: "node", "app": "x"}))),
			want: LeaveForeign, gate: foreign(true),
		},
		"nobody controls the one that is there, and it selects by an expression too": {
			in: running(forgotten, hasSet(uncontrolled, func(s *appsv1.StatefulSet) {
				s.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}
			})),
			want: LeaveForeign, gate: foreign(true),
		},
		"nobody controls the one that is there, and it selects nothing": {
			in:   running(forgotten, hasSet(uncontrolled, func(s *appsv1.StatefulSet) { s.Spec.Selector = nil })),
			want: LeaveForeign, gate: foreign(true),
		},
		"somebody else controls the one that is there": {
			in: running(forgotten, hasSet(ownedBy("HelmRelease", "theirs"))), want: LeaveForeign,
			gate: foreign(true, "StatefulSet node", "HelmRelease theirs"),
		},
		"somebody else controls the one that is there and it is being deleted": {
			in:   running(forgotten, hasSet(ownedBy("HelmRelease", "theirs"), terminatingSet)),
			want: LeaveForeign, gate: foreign(true),
		},
		"an earlier SeiNode of this name controls it": {
			in: running(forgotten, hasSet(ownedBy("SeiNode", "node"))), want: LeaveForeign,
			gate: foreign(false, "StatefulSet node", "earlier SeiNode"),
		},
		"another SeiNode controls it": {
			in: running(forgotten, hasSet(ownedBy("SeiNode", "other"))), want: LeaveForeign,
			gate: foreign(true, "SeiNode other"),
		},
		"something else of this name controls it": {
			in: running(forgotten, hasSet(ownedBy("HelmRelease", "node"))), want: LeaveForeign,
			gate: foreign(true, "HelmRelease node"),
		},
		"the tracked one is being deleted": {
			in: running(hasSet(terminatingSet)), want: AwaitDeletion, says: []string{"node", "being deleted"},
		},
		"an impostor": {
			in:   running(hasSet(func(s *appsv1.StatefulSet) { s.UID = otherUID })),
			want: ReplaceImpostor, says: []string{"node", "the uid other-uid", "the uid set-uid"},
		},
		"an impostor that is being deleted": {
			in:   running(hasSet(terminatingSet, func(s *appsv1.StatefulSet) { s.UID = otherUID })),
			want: AwaitDeletion,
		},
		"none is there and one may be made": {in: lost(), want: Create, says: []string{"current spec"}},
		"none is there, and another pod uses the volume: one without a pod may be made": {
			in: lost(usedBy("job-1")), want: Create,
		},
		"none is there and the spec cannot be rendered": {
			in: lost(unrenderable, stillPersisted), want: HoldCreation,
			gate: wantGate{reason: v1alpha1.ReasonInvalidSpec, stalled: true, says: []string{"would not be safe"}},
		},
		"the reference to the old one is not cleared yet": {
			in: lost(stillPersisted, deleted), want: HoldCreation,
			gate: wantGate{reason: v1alpha1.ReasonWaiting, says: []string{"cleared first"}},
		},
		"the node is being deleted": {
			in: lost(deleted, phase(v1alpha1.PhasePending)), want: HoldCreation,
			gate: wantGate{reason: v1alpha1.ReasonTerminating, says: []string{"being deleted"}},
		},
		"the node was never brought up": {
			in: fresh(), want: HoldCreation,
			gate: wantGate{reason: v1alpha1.ReasonBootstrapping, says: []string{"brings the node up"}},
		},
		"the claim is gone": {
			in: lost(noClaim), want: HoldCreation,
			gate: wantGate{reason: v1alpha1.ReasonDataVolumeLost, stalled: true, says: []string{"data-node", "gone"}},
		},
		"the claim is gone, and a person accepts that": {
			in: lost(noClaim, acceptsLossOf("claim-uid")), want: HoldCreation,
			gate: wantGate{reason: v1alpha1.ReasonDataVolumeLost, stalled: true, says: []string{"not made yet"}},
		},
		"the claim is being deleted": {
			in: lost(hasClaim(terminatingClaim)), want: HoldCreation,
			gate: wantGate{reason: v1alpha1.ReasonDataVolumeTerminating, says: []string{"data-node"}},
		},
		"a key is not there": {
			in: lost(validator, hasClaim(), allKeys, missing(SigningKey)), want: HoldCreation,
			gate: wantGate{reason: v1alpha1.ReasonSecretNotFound, says: []string{"The Secret does not exist."}},
		},
		"a key is not there, and another pod uses the volume": {
			in: lost(validator, hasClaim(), usedBy("job-1"), allKeys, missing(SigningKey)), want: HoldCreation,
			gate: wantGate{reason: v1alpha1.ReasonSecretNotFound},
		},
		"all keys are there":               {in: lost(validator, hasClaim(), allKeys), want: Create},
		"all keys are there, and reserved": {in: signer(noSet, forgotten), want: Create},
		"all keys are there, and not reserved": {
			in: lost(validator, hasClaim(), knownKeys), want: HoldCreation,
			gate: wantGate{reason: v1alpha1.ReasonWaiting, says: []string{"not reserved for it yet"}},
		},
		"another node has a key": {
			in: signer(noSet, forgotten, leased(v1alpha1.ReservationNodeKey, nodeID, Lease{Holder: otherUID, HolderName: "sei/other", Recorded: []string{"sei/other"}})), want: HoldCreation,
			gate: wantGate{reason: v1alpha1.ReasonKeyInUse, stalled: true, after: lookAgain, says: []string{"id-1", "sei/other"}},
		},
		"another node imported the volume": {
			in: lost(leasedTo(v1alpha1.ReservationDataVolume, string(claimUID), otherUID)), want: HoldCreation,
			gate: wantGate{reason: v1alpha1.ReasonVolumeInUse, stalled: true, says: []string{"data-node", "elsewhere/holder"}},
		},
		"the imported volume is reserved": {in: importer(noSet, forgotten), want: Create},
		"the imported volume is not reserved yet": {
			in: importer(noSet, forgotten, unpersisted), want: HoldCreation, gate: wantGate{reason: v1alpha1.ReasonWaiting},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := StatefulSet(test.in)
			if got.Action != test.want {
				t.Fatalf("the action is %s (%s), want %s", got.Action, got.Message, test.want)
			}
			saysAll(t, got.Message, test.says)
			test.gate.check(t, got.Gate)
			if got.Gate != nil && got.Gate.Message != got.Message {
				t.Errorf("it says %q and its gate says %q", got.Message, got.Gate.Message)
			}
		})
	}
}

// TestAStatefulSetIsMadeWhenItsTurnHasCome: not before the volume and the keys are
// checked.
func TestAStatefulSetIsMadeWhenItsTurnHasCome(t *testing.T) {
	t.Parallel()
	reapproval := func(in *Input) {
		at(TaskMarkReady)(in)
		in.Node.Status.Plan.Type = v1alpha1.PlanReapprove
	}
	without := func(in *Input) {
		at(TaskMarkReady)(in)
		in.Node.Status.Plan.Tasks = in.Node.Status.Plan.Tasks[:1]
	}
	for name, test := range map[string]struct {
		in   Input
		want bool
	}{
		"nothing was done yet":                 {in: fresh(hasClaim())},
		"bringing it up failed":                {in: fresh(hasClaim(), phase(v1alpha1.PhaseFailed))},
		"the plan is at the volume":            {in: fresh(hasClaim(), at(TaskEnsureDataPVC))},
		"the plan is at the configuration":     {in: fresh(hasClaim(), at(TaskApplyNodeConfig))},
		"the plan is at the Service":           {in: fresh(hasClaim(), at(TaskApplyService))},
		"the plan is at the StatefulSet":       {in: fresh(hasClaim(), at(TaskApplyStatefulSet)), want: true},
		"the plan is beyond the StatefulSet":   {in: fresh(hasClaim(), at(TaskConfigValidate)), want: true},
		"the plan is of another type":          {in: fresh(hasClaim(), reapproval)},
		"the plan makes no StatefulSet":        {in: fresh(hasClaim(), without)},
		"the node was brought up":              {in: lost(), want: true},
		"the node was brought up and is a way": {in: lost(at(TaskEnsureDataPVC), phase(v1alpha1.PhaseRunning)), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := HoldCreation
			if test.want {
				want = Create
			}
			if got := StatefulSet(test.in); got.Action != want {
				t.Errorf("the action is %s: %s", got.Action, got.Message)
			}
			if got := HasStatefulSet(test.in.Node); got != test.want {
				t.Errorf("it has a StatefulSet: %t", got)
			}
		})
	}
}

func TestANodeThatTracksAStatefulSetHasOne(t *testing.T) {
	t.Parallel()
	in := fresh(func(in *Input) { in.Node.Status.StatefulSet = &v1alpha1.ObjectIdentity{Name: "node", UID: setUID} })
	if !HasStatefulSet(in.Node) {
		t.Error("it has none")
	}
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	stopped := hasSet(scaled(0))
	for name, test := range map[string]struct {
		in   Input
		want int32
		gate wantGate
	}{
		"it runs": {in: running(), want: 1},
		"it runs with more replicas than a node has": {in: running(hasSet(scaled(3))), want: 1},
		"its StatefulSet does not say how many":      {in: running(hasSet(func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil }), usedBy("job-1")), want: 1},
		"it runs, and its volume is lost: nothing is stopped": {
			in: running(noClaim), want: 1,
		},
		"it is deleted": {
			in:   running(deleted, paused),
			gate: wantGate{reason: v1alpha1.ReasonTerminating, says: []string{"being deleted"}},
		},
		"it is paused": {
			in: running(paused), gate: wantGate{reason: v1alpha1.ReasonPaused, says: []string{"paused"}},
		},
		"it was stopped and nothing is in the way": {in: running(stopped), want: 1},
		"it has no StatefulSet":                    {in: lost(), want: 1},
		"it has no StatefulSet, and a job goes on": {
			in: lost(usedBy("job-1")), gate: wantGate{reason: v1alpha1.ReasonVolumeInUse, says: []string{"job-1"}},
		},
		"it was stopped, and a job uses its volume": {
			in: running(stopped, usedBy("job-1")), gate: wantGate{reason: v1alpha1.ReasonVolumeInUse, says: []string{"job-1"}},
		},
		"it was stopped, and its claim is not there": {
			in:   running(stopped, noClaim, acceptsLossOf("claim-uid"), usedBy("job-1")),
			gate: wantGate{reason: v1alpha1.ReasonNotBound, says: []string{"data-node", "not made yet"}},
		},
		"it was stopped, and a key is gone": {
			in:   running(validator, hasClaim(), stopped, allKeys, missing(SigningKey)),
			gate: wantGate{reason: v1alpha1.ReasonSecretNotFound},
		},
		"it was stopped, and the keys are there":    {in: running(validator, hasClaim(), stopped, allKeys), want: 1},
		"it was stopped, and the keys are reserved": {in: signer(stopped), want: 1},
		"it was stopped, and the keys are not reserved": {
			in: running(validator, hasClaim(), stopped, knownKeys), gate: wantGate{reason: v1alpha1.ReasonWaiting, says: []string{"not reserved"}},
		},
		"it was stopped, and another node imported its volume": {
			in:   running(stopped, leasedTo(v1alpha1.ReservationDataVolume, string(claimUID), otherUID)),
			gate: wantGate{reason: v1alpha1.ReasonVolumeInUse, stalled: true},
		},
		"it runs, and its keys are not reserved: nothing is stopped":         {in: running(validator, hasClaim(), knownKeys), want: 1},
		"it runs, and another node took its key in the Lease by an accident": {in: signer(leasedTo(v1alpha1.ReservationSigningKey, publicKey, otherUID)), want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, gate := Replicas(test.in)
			if got != test.want {
				t.Errorf("%d replicas, want %d", got, test.want)
			}
			test.gate.check(t, gate)
		})
	}
}

func TestNothingToRoll(t *testing.T) {
	t.Parallel()
	stopped := hasSet(scaled(0))
	wasPaused := func(reason v1alpha1.ConditionReason) edit {
		return func(in *Input) {
			in.Node.Status.Conditions = []metav1.Condition{
				{Type: string(v1alpha1.ConditionReady), Reason: string(v1alpha1.ReasonPaused)},
				{Type: string(v1alpha1.ConditionPaused), Reason: string(reason)},
			}
		}
	}
	for name, test := range map[string]struct {
		in   Input
		want bool
	}{
		"it runs":               {in: running()},
		"it has no StatefulSet": {in: lost(noPod), want: true},
		"it has no StatefulSet, and its pod is still there": {in: running(noSet)},
		"it is to be stopped":                               {in: running(paused)},
		"it is stopped, and its pod is still there":         {in: running(paused, stopped)},
		"it is stopped, and its pod is ending":              {in: running(paused, stopped, hasPod(endingPod)), want: true},
		"it is stopped, and its pod is gone":                {in: running(paused, stopped, noPod), want: true},
		"its pod is gone and comes back":                    {in: running(noPod)},
		"its pod is ending and comes back":                  {in: running(hasPod(endingPod))},
		"it leaves a pause":                                 {in: running(wasPaused(v1alpha1.ReasonPaused)), want: true},
		"it leaves a pause that was never complete":         {in: running(wasPaused(v1alpha1.ReasonStopping)), want: true},
		"it leaves a pause, and nothing else is known of it": {
			in: running(func(in *Input) { in.Node.Status.Conditions[0].Reason = string(v1alpha1.ReasonPaused) }), want: true,
		},
		"it leaves a pause that waited and stopped nothing": {in: running(wasPaused(v1alpha1.ReasonWaitingForSafeStop))},
		"it left the pause":                         {in: running(wasPaused(v1alpha1.ReasonNotPaused))},
		"it stays paused, and its pod does not end": {in: running(paused, wasPaused(v1alpha1.ReasonStopping))},
		"nobody ever said whether it was paused":    {in: running(func(in *Input) { in.Node.Status.Conditions = nil })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := NothingToRoll(test.in); got != test.want {
				t.Errorf("there is nothing to roll: %t", got)
			}
		})
	}
}

func TestStopped(t *testing.T) {
	t.Parallel()
	// seen is how far the controller of StatefulSets has come.
	seen := func(generation, observed int64, replicas int32) func(*appsv1.StatefulSet) {
		return func(s *appsv1.StatefulSet) {
			s.Generation, s.Status.ObservedGeneration, s.Status.Replicas = generation, observed, replicas
		}
	}
	for name, test := range map[string]struct {
		in   Input
		want bool
	}{
		"its pod is there": {in: running(hasSet(scaled(0)))},
		"its pod is there, and its StatefulSet is gone": {in: running(noSet)},
		"both are gone":                                  {in: lost(noPod), want: true},
		"its pod is gone, and comes back":                {in: running(noPod)},
		"its pod is gone, and the controller knows":      {in: running(noPod, hasSet(scaled(0), seen(2, 2, 0))), want: true},
		"its pod is gone, and the controller knew first": {in: running(noPod, hasSet(scaled(0), seen(2, 3, 0))), want: true},
		"its pod is gone, and the controller does not know yet": {
			in: running(noPod, hasSet(scaled(0), seen(2, 1, 0))),
		},
		"its pod is gone, and the controller still counts one": {
			in: running(noPod, hasSet(scaled(0), seen(2, 2, 1))),
		},
		"its pod is gone, and the StatefulSet is somebody else's": {
			in: running(noPod, hasSet(ownedBy("HelmRelease", "theirs"))), want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Stopped(test.in); got != test.want {
				t.Errorf("it is stopped: %t", got)
			}
		})
	}
}
