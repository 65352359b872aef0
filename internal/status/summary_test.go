package status

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

func failedRecord(kind v1alpha1.PlanType) *v1alpha1.PlanRecord {
	return &v1alpha1.PlanRecord{Type: kind, Outcome: v1alpha1.PlanOutcomeFailed, Message: "it broke"}
}

const unsafeMessage = "seid must not be stopped at this moment (state sync)"

// at gives the node an update that is at a task.
func at(task string, status v1alpha1.PlanTaskStatus, message string) edit {
	return func(in *Input) {
		doing(v1alpha1.PlanNodeUpdate)(in)
		in.Node.Status.Plan.Tasks = []v1alpha1.PlanTask{
			{Type: task, Status: status, Message: message, StartTime: new(metav1.NewTime(now))},
		}
	}
}

// TestSummary: what Ready, Reconciling and Stalled say. Where two things are the
// matter at once, the case shows which one is told.
func TestSummary(t *testing.T) {
	t.Parallel()
	refused := plan.Gate{Reason: v1alpha1.ReasonAPIRefused, Message: "The API server refuses the Service.", Stalled: true}
	for name, test := range map[string]struct {
		in     Input
		reason v1alpha1.ConditionReason
		says   []string
		// idle: nothing is under way; stalled: a person has to act. A node that is ready
		// is idle.
		ready, idle, stalled bool
	}{
		"all is well": {
			in: running(), ready: true, idle: true, reason: v1alpha1.ReasonRunning, says: []string{"ready"},
		},
		"it is being deleted": {
			in: running(deleted, noPod, asksForPause), reason: v1alpha1.ReasonTerminating, says: []string{"being deleted."},
		},
		"it is being deleted and its pod is still there": {
			in: running(deleted, crashing), reason: v1alpha1.ReasonTerminating, says: []string{"node-0"},
		},
		"it is being deleted and its pod is out of reach": {
			in:     running(deleted, endsAt(now.Add(-time.Hour))),
			reason: v1alpha1.ReasonPodUnreachable, says: []string{"machine-1"},
		},
		"it is being deleted, and waits for a safe moment": {
			in: running(deleted, unsafe), reason: v1alpha1.ReasonWaitingForSafeStop, says: []string{"state sync"},
		},
		"it signs elsewhere": {
			in:      running(validator, key(plan.SigningKey, plan.Key{}), guarded, refusedToSign, crashing),
			stalled: true, idle: true, reason: v1alpha1.ReasonSignedElsewhere, says: []string{"sei.io/accept-sign-state=5"},
		},
		"a key went away after the plan began": {
			in: running(validator, key(plan.SigningKey, plan.Key{Problem: v1alpha1.ReasonSecretNotFound, Message: "It is gone."}),
				doing(v1alpha1.PlanBootstrap), decided(plan.Continue, "", "")),
			reason: v1alpha1.ReasonSecretNotFound, says: []string{"gone"},
		},
		"an update waits for a SeiNodeTask": {
			in: running(at(plan.TaskReplacePod, v1alpha1.PlanTaskRunning, ""), func(in *Input) {
				in.Seen.Task = &plan.RunningTask{Name: "restart", Kind: "RestartSeid", Until: now.Add(time.Minute)}
			}),
			reason: v1alpha1.ReasonWaitingForTask, says: []string{"SeiNodeTask restart"},
		},
		"a plan that needs nothing more": {
			in: running(doing(v1alpha1.PlanNodeUpdate), decided(plan.Continue, "", "")), reason: v1alpha1.ReasonUpdating, says: []string{"Because of this."},
		},
		"an update waits for a safe moment": {
			in:     running(unsafe, at(plan.TaskReplacePod, v1alpha1.PlanTaskRunning, unsafeMessage)),
			reason: v1alpha1.ReasonWaitingForSafeStop, says: []string{"state sync"},
		},
		"an update waits for a safe moment, and says so in short": {
			in:     running(unsafe, at(plan.TaskReplacePod, v1alpha1.PlanTaskRunning, "seid must not be stopped...")),
			reason: v1alpha1.ReasonWaitingForSafeStop,
		},
		"a change of the configuration waits for a safe moment": {
			in:     running(unsafe, at(plan.TaskRestartSeid, v1alpha1.PlanTaskRunning, unsafeMessage)),
			reason: v1alpha1.ReasonWaitingForSafeStop,
		},
		"an update waits for something else": {
			in:     running(unsafe, at(plan.TaskReplacePod, v1alpha1.PlanTaskRunning, "Waits for the pod to end.")),
			reason: v1alpha1.ReasonUpdating,
		},
		"an update has not come to stopping anything": {
			in: running(unsafe, at(plan.TaskReplacePod, v1alpha1.PlanTaskPending, unsafeMessage)), reason: v1alpha1.ReasonUpdating,
		},
		"an update is at something that stops nothing": {
			in: running(unsafe, at(plan.TaskObserveImage, v1alpha1.PlanTaskRunning, unsafeMessage)), reason: v1alpha1.ReasonUpdating,
		},
		"an update is at something that has no start": {
			in: running(unsafe, at(plan.TaskReplacePod, v1alpha1.PlanTaskRunning, unsafeMessage), func(in *Input) {
				in.Node.Status.Plan.Tasks[0].StartTime = nil
			}),
			reason: v1alpha1.ReasonUpdating,
		},
		"an update may stop seid": {
			in: running(at(plan.TaskReplacePod, v1alpha1.PlanTaskRunning, unsafeMessage)), reason: v1alpha1.ReasonUpdating,
		},
		"it is paused": {
			in: running(asksForPause, noPod, trouble(refused)), idle: true, reason: v1alpha1.ReasonPaused, says: []string{"spec.paused"},
		},
		"it is paused and its pod is still there": {
			in: running(asksForPause), reason: v1alpha1.ReasonPaused,
		},
		"the API server refuses an object": {
			in:      running(trouble(refused, plan.Gate{Reason: v1alpha1.ReasonForeignObject}), noClaim),
			stalled: true, idle: true, reason: v1alpha1.ReasonAPIRefused, says: []string{"refuses the Service"},
		},
		"an object belongs to an earlier node for a moment longer": {
			in:     running(trouble(plan.Gate{Reason: v1alpha1.ReasonForeignObject, Message: "It is being removed."})),
			reason: v1alpha1.ReasonForeignObject,
		},
		"its volume is lost while it runs": {
			in:      running(noClaim, decided(plan.Blocked, v1alpha1.ReasonInvalidSpec, "No.")),
			stalled: true, idle: true, reason: v1alpha1.ReasonDataVolumeLost, says: []string{"accept-new-volume"},
		},
		"another pod uses its volume while it runs": {
			in: running(usedByJob), ready: true, idle: true, reason: v1alpha1.ReasonRunning,
		},
		"its spec cannot be rendered": {
			in:      running(blocked(v1alpha1.ReasonInvalidSpec, "It would not be safe."), holds),
			stalled: true, idle: true, reason: v1alpha1.ReasonInvalidSpec, says: []string{"It would not be safe."},
		},
		"a gate is shut that only a person opens": {
			in:      running(stateSynced(1), blocked(v1alpha1.ReasonTooFewWitnesses, "Too few.")),
			stalled: true, idle: true, reason: v1alpha1.ReasonTooFewWitnesses, says: []string{"Too few."},
		},
		"a gate is shut that opens by itself": {
			in:     running(usedByJob, decided(plan.Blocked, v1alpha1.ReasonVolumeInUse, "In use.")),
			reason: v1alpha1.ReasonVolumeInUse, says: []string{"In use."},
		},
		"a gate was shut a moment ago": {
			in: running(decided(plan.Blocked, v1alpha1.ReasonWaiting, "It waits.")), reason: v1alpha1.ReasonWaiting,
		},
		"it is held": {
			in: running(holds, parkedFor("X")), reason: v1alpha1.ReasonHeld, says: []string{"ReleaseHold", "the disk is being checked"},
		},
		"it was held when it was last heard of": {
			in:     running(silent, said(v1alpha1.ConditionHeld, metav1.ConditionTrue, v1alpha1.ReasonHeld)),
			reason: v1alpha1.ReasonHeld, says: []string{"As it was."},
		},
		"seid may not start with its key": {
			in:      running(parkedFor("KeyIdentityChanged"), crashing),
			stalled: true, idle: true, reason: v1alpha1.ReasonKeyIdentityChanged, says: []string{"the key is another one"},
		},
		"seid may not start with its key, and the Secret holds another": {
			in:      running(validator, key(plan.SigningKey, plan.Key{PublicKey: "public"}), reserved(v1alpha1.ReservationSigningKey), parkedFor("KeyIdentityChanged")),
			stalled: true, idle: true, reason: v1alpha1.ReasonKeyIdentityChanged, says: []string{"accept-key=public"},
		},
		"seid may not start, nobody says why": {
			in: running(parkedFor("")), stalled: true, idle: true, reason: v1alpha1.ReasonPodNotReady,
		},
		"the image is too new": {
			in: running(parkedFor("BinaryTooNew"), crashing), stalled: true, idle: true, reason: v1alpha1.ReasonBinaryTooNew, says: []string{"spec.image back"},
		},
		"the image is too old": {
			in: running(parkedFor("BinaryTooOld"), crashing), stalled: true, idle: true, reason: v1alpha1.ReasonBinaryTooOld, says: []string{"lacks an upgrade"},
		},
		"the key signs elsewhere": {
			in: running(crashing, notReadyPod, sidecar(func(s *plan.Sidecar) {
				s.Status.Seid = api.Seid{State: api.SeidUnknown, LastExit: api.Exit{Cause: "SignedElsewhere"}}
			})),
			stalled: true, idle: true, reason: v1alpha1.ReasonSignedElsewhere, says: []string{"Stop the other signer for good"},
		},
		"seid was parked when it was last heard of": {
			in:    running(parkedFor("KeyIdentityChanged"), sidecar(func(s *plan.Sidecar) { s.Connected = false })),
			ready: true, idle: true, reason: v1alpha1.ReasonRunning,
		},
		"seid halted for an upgrade": {
			in:     running(parkedFor("UpgradeNeeded"), upgrade(true), crashing),
			reason: v1alpha1.ReasonUpgradeHalted, says: []string{"height 100", `"v7"`, "spec.image"},
		},
		"it lives, and gets no block one below an upgrade": {
			in:     running(upgrade(true), sidecar(func(s *plan.Sidecar) { s.Status.Seid.State = api.SeidRunning })),
			reason: v1alpha1.ReasonUpgradeHalted, says: []string{"height 100", `"v7"`, "spec.image", "other validators"},
		},
		"it gets no block somewhere below an upgrade": {
			in:     running(upgrade(true), rounded, sidecar(func(s *plan.Sidecar) { s.Status.Seid.State = api.SeidRunning })),
			reason: v1alpha1.ReasonUpgradeHalted, says: []string{"for about height 100", `"v7"`},
		},
		"an upgrade is due": {
			in: running(upgrade(false)), ready: true, idle: true, reason: v1alpha1.ReasonRunning,
		},
		"its volume is ruined, and its pod crashes": {
			in:      running(ruined, crashing),
			stalled: true, idle: true, reason: v1alpha1.ReasonVolumeRuined, says: []string{"ResyncNode"},
		},
		"its volume is ruined, and it validates": {
			in:      running(validator, key(plan.SigningKey, plan.Key{PublicKey: "public"}), reserved(v1alpha1.ReservationSigningKey), ruined, crashing),
			stalled: true, idle: true, reason: v1alpha1.ReasonVolumeRuined, says: []string{"accept-new-volume"},
		},
		"its volume was ruined, and seid lives on other data": {
			in: running(ruined, notReadyPod, sidecar(func(s *plan.Sidecar) {
				s.Status.Seid.State, s.Status.Seid.Since = api.SeidRunning, time.Time{}
			})),
			reason: v1alpha1.ReasonCatchingUp,
		},
		"its disk is nearly full": {
			in: running(fullDisk), ready: true, idle: true, reason: v1alpha1.ReasonRunning,
		},
		"its disk is nearly full, and its pod crashes": {
			in: running(fullDisk, crashing), reason: v1alpha1.ReasonDiskNearlyFull, says: []string{"data-node", "nearly full"},
		},
		"its disk is nearly full, and its image cannot be pulled": {
			in: running(fullDisk, unpullable), reason: v1alpha1.ReasonImagePullBackOff, says: []string{"cannot be pulled"},
		},
		"its disk is nearly full, and it is held": {
			in: running(fullDisk, notReadyPod, holds), reason: v1alpha1.ReasonHeld,
		},
		"its claim is being deleted while it runs": {
			in: running(endingClaim), ready: true, idle: true, reason: v1alpha1.ReasonRunning,
		},
		"another node has its key": {
			in:      running(validator, leasedToOther(plan.SigningKey), blocked(v1alpha1.ReasonKeyInUse, "In use.")),
			stalled: true, idle: true, reason: v1alpha1.ReasonKeyInUse, says: []string{"In use."},
		},
		"its pod crashes": {
			in:     running(crashing, doing(v1alpha1.PlanBootstrap)),
			reason: v1alpha1.ReasonCrashLoopBackOff, says: []string{"node-0"},
		},
		"its pod crashes, and it was held when it was last heard of": {
			in:     running(crashing, silent, said(v1alpha1.ConditionHeld, yes, v1alpha1.ReasonHeld)),
			reason: v1alpha1.ReasonCrashLoopBackOff,
		},
		"it had halted for an upgrade when it was last heard of": {
			in:     running(upgrade(true), sidecar(func(s *plan.Sidecar) { s.Connected = false }), doing(v1alpha1.PlanBootstrap)),
			reason: v1alpha1.ReasonUpgradeHalted, says: []string{`"v7"`},
		},
		"it was stopped, and another pod uses its volume": {
			in:     running(stoppedSet, usedByJob, noPod, doing(v1alpha1.PlanBootstrap)),
			reason: v1alpha1.ReasonVolumeInUse, says: []string{"job-1"},
		},
		"it is brought up": {
			in: running(doing(v1alpha1.PlanBootstrap), noPod), reason: v1alpha1.ReasonBootstrapping, says: []string{"Because of this."},
		},
		"it has no StatefulSet yet, and another pod uses its volume": {
			in:     running(doing(v1alpha1.PlanBootstrap), noPod, usedByJob, func(in *Input) { in.Seen.StatefulSet = nil }),
			reason: v1alpha1.ReasonBootstrapping,
		},
		"it is approved again": {
			in: running(doing(v1alpha1.PlanReapprove), unapproved), reason: v1alpha1.ReasonNotApproved, says: []string{"Because of this."},
		},
		"it is updated": {
			in: running(doing(v1alpha1.PlanNodeUpdate)), reason: v1alpha1.ReasonUpdating, says: []string{"Because of this."},
		},
		"a plan failed and waits": {
			in:     running(decided(plan.BackOff, v1alpha1.ReasonPlanFailed, "The last Bootstrap failed."), noPod),
			reason: v1alpha1.ReasonPlanFailed, says: []string{"The last Bootstrap failed."},
		},
		"bringing it up failed just now": {
			in: running(phase(v1alpha1.PhaseFailed), noPod, func(in *Input) {
				in.Node.Status.LastPlan = failedRecord(v1alpha1.PlanBootstrap)
			}),
			reason: v1alpha1.ReasonPlanFailed, says: []string{"Bootstrap", "it broke"},
		},
		"an update failed in this very moment": {
			in: running(func(in *Input) {
				doing(v1alpha1.PlanNodeUpdate)(in)
				in.Persisted = in.Node.Status.DeepCopy()
				in.Node.Status.Plan, in.Node.Status.LastPlan = nil, failedRecord(v1alpha1.PlanNodeUpdate)
			}),
			reason: v1alpha1.ReasonPlanFailed, says: []string{"NodeUpdate", "it broke"},
		},
		"another node was faster to reserve the key, when a plan was under way": {
			in:     running(validator, key(plan.SigningKey, plan.Key{Problem: v1alpha1.ReasonKeyInUse, Message: "It is theirs."}), at(plan.TaskValidateSigningKey, v1alpha1.PlanTaskRunning, ""), decided(plan.Continue, "", "")),
			reason: v1alpha1.ReasonKeyInUse, says: []string{"It is theirs."},
		},
		"the Secret is gone when a plan comes to approve the node": {
			in:     running(validator, key(plan.SigningKey, plan.Key{Problem: v1alpha1.ReasonSecretNotFound, Message: "It is gone."}), at(plan.TaskMarkReady, v1alpha1.PlanTaskRunning, ""), decided(plan.Continue, "", "")),
			reason: v1alpha1.ReasonSecretNotFound, says: []string{"It is gone."},
		},
		"an update failed, and another is under way": {
			in: running(doing(v1alpha1.PlanNodeUpdate), func(in *Input) {
				in.Persisted = in.Node.Status.DeepCopy()
				in.Node.Status.LastPlan = failedRecord(v1alpha1.PlanNodeUpdate)
			}),
			reason: v1alpha1.ReasonUpdating,
		},
		"an update failed some time ago": {
			in:    running(func(in *Input) { in.Node.Status.LastPlan = failedRecord(v1alpha1.PlanNodeUpdate) }),
			ready: true, idle: true, reason: v1alpha1.ReasonRunning,
		},
		"an update was complete in this very moment": {
			in: running(func(in *Input) {
				doing(v1alpha1.PlanNodeUpdate)(in)
				in.Persisted = in.Node.Status.DeepCopy()
				in.Node.Status.Plan, in.Node.Status.LastPlan = nil, &v1alpha1.PlanRecord{Outcome: v1alpha1.PlanOutcomeComplete}
			}),
			ready: true, idle: true, reason: v1alpha1.ReasonRunning,
		},
		"a new operator has not heard of it, and it was catching up": {
			in:     running(notHeardOf, notReadyPod, said(v1alpha1.ConditionReady, no, v1alpha1.ReasonCatchingUp)),
			reason: v1alpha1.ReasonCatchingUp, says: []string{"As it was."},
		},
		"a new operator has not heard of it, and a person was asked": {
			in: running(notHeardOf, notReadyPod, said(v1alpha1.ConditionReady, no, v1alpha1.ReasonKeyIdentityChanged),
				said(v1alpha1.ConditionStalled, yes, v1alpha1.ReasonKeyIdentityChanged)),
			stalled: true, idle: true, reason: v1alpha1.ReasonKeyIdentityChanged, says: []string{"As it was."},
		},
		"a new operator has not heard of it, and it was ready": {
			in:     running(notHeardOf, notReadyPod, said(v1alpha1.ConditionReady, yes, v1alpha1.ReasonRunning)),
			reason: v1alpha1.ReasonPodNotReady, says: []string{"node-0"},
		},
		"a new operator has not heard of it, and Kubernetes knows better": {
			in:     running(notHeardOf, crashing, said(v1alpha1.ConditionReady, no, v1alpha1.ReasonCatchingUp)),
			reason: v1alpha1.ReasonCrashLoopBackOff,
		},
		"it is heard of, and no longer catching up": {
			in:     running(notReadyPod, silent, said(v1alpha1.ConditionReady, no, v1alpha1.ReasonCatchingUp)),
			reason: v1alpha1.ReasonPodNotReady,
		},
		"bringing it up failed, nobody knows how": {
			in: running(phase(v1alpha1.PhaseFailed), noPod), reason: v1alpha1.ReasonPodNotReady,
		},
		"there is no pod": {
			in: running(noPod), reason: v1alpha1.ReasonPodNotReady, says: []string{"no pod"},
		},
		"another node was approved on its volume": {
			in: running(unapproved, notReadyPod), reason: v1alpha1.ReasonNotApproved, says: []string{"MarkReady"},
		},
		"its sidecar does not answer, and its pod is ready": {
			in: running(silent), ready: true, idle: true, reason: v1alpha1.ReasonRunning,
		},
		"its pod is ending": {
			in: running(endsAt(now)), reason: v1alpha1.ReasonPodNotReady, says: []string{"node-0", "ending"},
		},
		"seid runs and is behind": {
			in: running(notReadyPod), reason: v1alpha1.ReasonCatchingUp, says: []string{"head of the chain"},
		},
		"seid does not run yet": {
			in: running(notReadyPod, sidecar(func(s *plan.Sidecar) { s.Status.Seid.State = api.SeidStopped })), reason: v1alpha1.ReasonPodNotReady,
			says: []string{"node-0", "not ready"},
		},
		"its pod is not ready, and its sidecar does not answer": {
			in:     running(notReadyPod, sidecar(func(s *plan.Sidecar) { s.Connected = false })),
			reason: v1alpha1.ReasonPodNotReady,
		},
		"its pod finds no machine": {
			in: running(pod(func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
			})),
			reason: v1alpha1.ReasonUnschedulable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Set(test.in)
			ready := find(t, test.in, v1alpha1.ConditionReady)
			if ready.Status != isTrue(test.ready) || ready.Reason != string(test.reason) {
				t.Errorf("Ready is %+v, want reason %s", ready, test.reason)
			}
			says(t, ready.Message, test.says...)
			reconciling, stalled := find(t, test.in, v1alpha1.ConditionReconciling), find(t, test.in, v1alpha1.ConditionStalled)
			if reconciling.Status != isTrue(!test.idle) || stalled.Status != isTrue(test.stalled) {
				t.Errorf("Reconciling is %+v and Stalled is %+v", reconciling, stalled)
			}
			if test.stalled && (stalled.Reason != ready.Reason || stalled.Message != ready.Message) {
				t.Errorf("Ready is %+v and Stalled is %+v", ready, stalled)
			}
		})
	}
}

// TestAStopThatWouldCostTheVolumeNeedsAPerson: nothing goes on until one has decided.
func TestAStopThatWouldCostTheVolumeNeedsAPerson(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]edit{"a pause": asksForPause, "a deletion": deleted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := running(endingClaim, stop)
			Set(in)
			ready, stalled := find(t, in, v1alpha1.ConditionReady), find(t, in, v1alpha1.ConditionStalled)
			for _, got := range []metav1.Condition{ready, stalled} {
				if got.Reason != string(v1alpha1.ReasonDataVolumeTerminating) {
					t.Errorf("the condition is %+v", got)
				}
				says(t, got.Message, "data-node", "volume pv-1", "Retain", "accept-volume-loss=claim-uid")
			}
			if ready.Status != no || stalled.Status != yes {
				t.Errorf("Ready is %s and Stalled is %s", ready.Status, stalled.Status)
			}
			if got := find(t, in, v1alpha1.ConditionPaused); got.Status != no {
				t.Errorf("others take the volume for free: %+v", got)
			}
		})
	}
}
