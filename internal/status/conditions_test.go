package status

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

const (
	yes     = metav1.ConditionTrue
	no      = metav1.ConditionFalse
	unknown = metav1.ConditionUnknown
)

func TestConditions(t *testing.T) {
	t.Parallel()
	update, answers := v1alpha1.ConditionNodeUpdateInProgress, v1alpha1.ConditionSidecarReady
	pause, hold, volume := v1alpha1.ConditionPaused, v1alpha1.ConditionHeld, v1alpha1.ConditionDataVolumeReady
	signing, identity, keyring := v1alpha1.ConditionSigningKeyReady, v1alpha1.ConditionNodeKeyReady, v1alpha1.ConditionOperatorKeyringReady
	snapshot, halt, work := v1alpha1.ConditionStateSyncReady, v1alpha1.ConditionUpgradeHalted, v1alpha1.ConditionReconciling
	for name, test := range map[string]struct {
		in     Input
		kind   v1alpha1.ConditionType
		status metav1.ConditionStatus
		reason v1alpha1.ConditionReason
		says   []string
	}{
		"work: none":              {in: running(), kind: work, status: no, reason: v1alpha1.ReasonSettled},
		"work: deletion":          {in: running(deleted, asksForPause), kind: work, status: yes, reason: v1alpha1.ReasonTerminating},
		"work: a plan":            {in: running(doing(v1alpha1.PlanBootstrap)), kind: work, status: yes, reason: v1alpha1.ReasonProgressing, says: []string{"Bootstrap"}},
		"work: catching up":       {in: running(notReadyPod), kind: work, status: yes, reason: v1alpha1.ReasonCatchingUp},
		"work: stopping":          {in: running(asksForPause, noClaim), kind: work, status: yes, reason: v1alpha1.ReasonPaused},
		"work: a person is asked": {in: running(noClaim, doing(v1alpha1.PlanBootstrap)), kind: work, status: no, reason: v1alpha1.ReasonDataVolumeLost},

		"update: none":                 {in: running(), kind: update, status: no, reason: v1alpha1.ReasonUpToDate},
		"update: a bootstrap is none":  {in: running(doing(v1alpha1.PlanBootstrap)), kind: update, status: no, reason: v1alpha1.ReasonUpToDate},
		"update: of the node":          {in: running(doing(v1alpha1.PlanNodeUpdate)), kind: update, status: yes, reason: v1alpha1.ReasonImageChanged, says: []string{"Because of this."}},
		"update: of its configuration": {in: running(doing(v1alpha1.PlanConfigUpdate)), kind: update, status: yes, reason: v1alpha1.ReasonImageChanged},
		"update: it waits for others":  {in: running(decided(plan.Waiting, v1alpha1.ReasonWaitingForBudget, "Waits for one.")), kind: update, status: no, reason: v1alpha1.ReasonWaitingForBudget, says: []string{"Waits for one."}},
		"update: it failed":            {in: running(decided(plan.BackOff, v1alpha1.ReasonPlanFailed, "It failed.")), kind: update, status: no, reason: v1alpha1.ReasonPlanFailed, says: []string{"It failed."}},
		"update: a bootstrap failed":   {in: running(decided(plan.BackOff, v1alpha1.ReasonPlanFailed, "It failed."), phase(v1alpha1.PhaseFailed)), kind: update, status: no, reason: v1alpha1.ReasonUpToDate},
		"update: somebody else put something into the template": {
			in: running(probedByPolicy), kind: update, status: no, reason: v1alpha1.ReasonForeignTemplate, says: []string{"StatefulSet node", "liveness probe"},
		},
		"update: the same during another": {in: running(probedByPolicy, doing(v1alpha1.PlanNodeUpdate)), kind: update, status: yes, reason: v1alpha1.ReasonImageChanged},
		"sidecar: it answers":             {in: running(), kind: answers, status: yes, reason: v1alpha1.ReasonApproved},
		"sidecar: it is not approved":     {in: running(unapproved), kind: answers, status: no, reason: v1alpha1.ReasonNotApproved},
		"sidecar: there is no pod":        {in: running(noPod), kind: answers, status: no, reason: v1alpha1.ReasonNoPod},
		"sidecar: a plan makes the pod":   {in: running(noPod, doing(v1alpha1.PlanBootstrap)), kind: answers, status: no, reason: v1alpha1.ReasonPodStarting},
		"sidecar: a paused plan does not": {
			in: running(noPod, doing(v1alpha1.PlanBootstrap), asksForPause), kind: answers, status: no, reason: v1alpha1.ReasonNoPod,
		},
		"sidecar: it has not started":                {in: running(silent, sidecarStarting), kind: answers, status: no, reason: v1alpha1.ReasonPodStarting},
		"sidecar: it has just started":               {in: running(silent, sidecarUp(now.Add(-sidecarGrace+1))), kind: answers, status: no, reason: v1alpha1.ReasonPodStarting},
		"sidecar: it is overdue":                     {in: running(silent, sidecarUp(now.Add(-sidecarGrace))), kind: answers, status: unknown, reason: v1alpha1.ReasonUnreachable, says: []string{"does not answer."}},
		"sidecar: it is known why":                   {in: running(sidecar(func(s *plan.Sidecar) { *s = plan.Sidecar{Problem: "no route"} })), kind: answers, status: unknown, reason: v1alpha1.ReasonUnreachable, says: []string{"does not answer: no route"}},
		"sidecar: a new operator's word":             {in: running(notHeardOf, said(answers, yes, v1alpha1.ReasonApproved)), kind: answers, status: yes, reason: v1alpha1.ReasonApproved, says: []string{"As it was."}},
		"sidecar: a new operator, never heard of it": {in: running(notHeardOf), kind: answers, status: unknown, reason: v1alpha1.ReasonUnreachable},
		"sidecar: a new operator, and no pod": {
			in: running(noPod, notHeardOf, said(answers, yes, v1alpha1.ReasonApproved)), kind: answers, status: no, reason: v1alpha1.ReasonNoPod,
		},
		"sidecar: it is heard of": {in: running(unapproved, said(answers, yes, v1alpha1.ReasonApproved)), kind: answers, status: no, reason: v1alpha1.ReasonNotApproved},

		"pause: nobody asks":                   {in: running(noPod), kind: pause, status: no, reason: v1alpha1.ReasonNotPaused},
		"pause: it waits for a safe moment":    {in: running(asksForPause, unsafe), kind: pause, status: no, reason: v1alpha1.ReasonWaitingForSafeStop, says: []string{"state sync"}},
		"pause: the pod is there":              {in: running(asksForPause, stoppedSet), kind: pause, status: no, reason: v1alpha1.ReasonStopping, says: []string{"node-0"}},
		"pause: the pod may come back":         {in: running(asksForPause, noPod), kind: pause, status: no, reason: v1alpha1.ReasonStopping, says: []string{"not scaled down"}},
		"pause: the pod is gone":               {in: running(asksForPause, noPod, stoppedSet), kind: pause, status: yes, reason: v1alpha1.ReasonPaused, says: []string{"data-node"}},
		"pause: Kubernetes does not know yet":  {in: running(asksForPause, noPod, stoppedSet, func(in *Input) { in.Seen.StatefulSet.Generation = 2 }), kind: pause, status: no, reason: v1alpha1.ReasonStopping, says: []string{"not scaled down"}},
		"pause: there never was a StatefulSet": {in: running(asksForPause, noPod, func(in *Input) { in.Seen.StatefulSet = nil }), kind: pause, status: yes, reason: v1alpha1.ReasonPaused},

		"hold: none":                             {in: running(), kind: hold, status: no, reason: v1alpha1.ReasonNotHeld},
		"hold: one":                              {in: running(holds), kind: hold, status: yes, reason: v1alpha1.ReasonHeld, says: []string{"ReleaseHold", "the disk is being checked"}},
		"hold: nobody knows":                     {in: running(silent), kind: hold, status: no, reason: v1alpha1.ReasonNotHeld},
		"hold: one when last heard of":           {in: running(silent, said(hold, yes, v1alpha1.ReasonHeld)), kind: hold, status: yes, reason: v1alpha1.ReasonHeld, says: []string{"As it was."}},
		"hold: released when heard of":           {in: running(said(hold, yes, v1alpha1.ReasonHeld)), kind: hold, status: no, reason: v1alpha1.ReasonNotHeld},
		"volume: bound":                          {in: running(), kind: volume, status: yes, reason: v1alpha1.ReasonBound, says: []string{"pv-1"}},
		"volume: lost":                           {in: running(noClaim), kind: volume, status: no, reason: v1alpha1.ReasonDataVolumeLost},
		"volume: nearly full":                    {in: running(fullDisk), kind: volume, status: no, reason: v1alpha1.ReasonDiskNearlyFull, says: []string{"data-node", "spec.dataVolume.size"}},
		"volume: nearly full when last heard of": {in: running(silent, said(volume, no, v1alpha1.ReasonDiskNearlyFull)), kind: volume, status: no, reason: v1alpha1.ReasonDiskNearlyFull},
		"volume: its claim is being deleted":     {in: running(endingClaim), kind: volume, status: no, reason: v1alpha1.ReasonDataVolumeTerminating, says: []string{"volume pv-1", "Retain", "accept-volume-loss=claim-uid"}},
		"key: another node has it":               {in: running(validator, leasedToOther(plan.SigningKey)), kind: signing, status: no, reason: v1alpha1.ReasonKeyInUse, says: []string{"public", "sei/other"}},
		"key: another node has the node's":       {in: running(validator, leasedToOther(plan.NodeKey)), kind: identity, status: no, reason: v1alpha1.ReasonKeyInUse, says: []string{"id", "sei/other"}},
		"key: the Secret holds another one":      {in: running(validator, key(plan.SigningKey, plan.Key{PublicKey: "public"}), reserved(v1alpha1.ReservationSigningKey)), kind: signing, status: no, reason: v1alpha1.ReasonKeyIdentityChanged, says: []string{"accept-key=public"}},
		"key: the Secret is being deleted":       {in: running(validator, key(plan.NodeKey, plan.Key{Problem: v1alpha1.ReasonSecretTerminating, Message: "It ends."})), kind: identity, status: no, reason: v1alpha1.ReasonSecretTerminating, says: []string{"It ends."}},
		"key: none is named":                     {in: running(), kind: signing, status: no, reason: v1alpha1.ReasonNotConfigured, says: []string{"signing key"}},
		"key: it is well":                        {in: running(validator, key(plan.SigningKey, plan.Key{})), kind: signing, status: yes, reason: v1alpha1.ReasonKeyValid, says: []string{"signing key"}},
		"key: what was signed is not certain":    {in: running(validator, key(plan.SigningKey, plan.Key{}), guarded), kind: signing, status: yes, reason: v1alpha1.ReasonSignStateGuarded, says: []string{"height 5", "looks for"}},
		"key: it signs elsewhere":                {in: running(validator, key(plan.SigningKey, plan.Key{}), guarded, refusedToSign, notReadyPod), kind: signing, status: no, reason: v1alpha1.ReasonSignedElsewhere, says: []string{"sei.io/accept-sign-state=5"}},
		"key: it signs elsewhere, and is silent": {in: running(validator, key(plan.SigningKey, plan.Key{}), refusedToSign, notReadyPod), kind: signing, status: no, reason: v1alpha1.ReasonSignedElsewhere, says: []string{"Stop the other signer"}},
		"key: the node's":                        {in: running(validator, key(plan.NodeKey, plan.Key{})), kind: identity, status: yes, reason: v1alpha1.ReasonKeyValid, says: []string{"node key"}},
		"key: the keyring":                       {in: running(validator, key(plan.OperatorKeyring, plan.Key{})), kind: keyring, status: yes, reason: v1alpha1.ReasonKeyValid, says: []string{"operator keyring"}},
		"key: it is missing":                     {in: running(validator, key(plan.NodeKey, plan.Key{Problem: v1alpha1.ReasonSecretNotFound, Message: "Create it."})), kind: identity, status: no, reason: v1alpha1.ReasonSecretNotFound, says: []string{"Create it."}},
		"key: nobody looked":                     {in: running(validator), kind: keyring, status: unknown, reason: v1alpha1.ReasonWaiting, says: []string{"operator keyring"}},
		"key: nobody looked again":               {in: running(validator, said(signing, yes, v1alpha1.ReasonKeyValid)), kind: signing, status: yes, reason: v1alpha1.ReasonKeyValid, says: []string{"As it was."}},
		"key: it was added since":                {in: running(validator, said(keyring, no, v1alpha1.ReasonNotConfigured)), kind: keyring, status: unknown, reason: v1alpha1.ReasonWaiting},
		"key: somebody looked again":             {in: running(validator, key(plan.SigningKey, plan.Key{}), said(signing, no, v1alpha1.ReasonSecretNotFound)), kind: signing, status: yes, reason: v1alpha1.ReasonKeyValid},
		"snapshot: none is asked for":            {in: running(), kind: snapshot, status: no, reason: v1alpha1.ReasonNotConfigured},
		"snapshot: too few witnesses":            {in: running(stateSynced(1)), kind: snapshot, status: no, reason: v1alpha1.ReasonTooFewWitnesses, says: []string{"at least 2", "has 1"}},
		"snapshot: enough witnesses":             {in: running(stateSynced(2)), kind: snapshot, status: yes, reason: v1alpha1.ReasonWitnessesFound, says: []string{"2 RPC servers"}},
		"upgrade: none":                          {in: running(), kind: halt, status: no, reason: v1alpha1.ReasonNoUpgrade},
		"upgrade: one is due":                    {in: running(upgrade(false)), kind: halt, status: no, reason: v1alpha1.ReasonUpgradePending, says: []string{`"v7"`, "height 100"}},
		"upgrade: one is due, somewhere about":   {in: running(upgrade(false), rounded), kind: halt, status: no, reason: v1alpha1.ReasonUpgradePending, says: []string{`"v7"`, "due at about height 100."}},
		"upgrade: seid halted for one":           {in: running(upgrade(true)), kind: halt, status: yes, reason: v1alpha1.ReasonUpgradeNeeded, says: []string{`"v7"`, "height 100", "spec.image"}},
		"upgrade: nobody can tell, yet":          {in: running(silent), kind: halt, status: no, reason: v1alpha1.ReasonNoUpgrade},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Set(test.in)
			got := find(t, test.in, test.kind)
			if got.Status != test.status || got.Reason != string(test.reason) || got.ObservedGeneration != 3 {
				t.Errorf("the condition is %+v, want %s %s", got, test.status, test.reason)
			}
			says(t, got.Message, test.says...)
		})
	}
}

// notHeardOf is the word of an operator that has only just begun to listen.
var notHeardOf = sidecar(func(s *plan.Sidecar) { *s = plan.Sidecar{New: true} })

// TestAConditionThatIsKeptIsAboutThisSpec: it names the generation of now, so that
// nobody waits for ever for a newer one, and keeps its time.
func TestAConditionThatIsKeptIsAboutThisSpec(t *testing.T) {
	t.Parallel()
	in := running(validator, silent,
		said(v1alpha1.ConditionHeld, yes, v1alpha1.ReasonHeld), said(v1alpha1.ConditionSigningKeyReady, yes, v1alpha1.ReasonKeyValid))
	Set(in)
	for _, kind := range []v1alpha1.ConditionType{v1alpha1.ConditionHeld, v1alpha1.ConditionSigningKeyReady} {
		got := find(t, in, kind)
		if got.ObservedGeneration != 3 || !got.LastTransitionTime.Time.Equal(now.Add(-time.Hour)) || got.Message != "As it was." {
			t.Errorf("the condition is %+v", got)
		}
	}
}

// guarded says that the sign state may not know of all that the key signed.
func guarded(in *Input) {
	status := &in.Seen.Sidecar.Status
	status.SignHeight, status.SignGuard = new(int64(5)), api.SignGuard{Reason: "SignStateBehind", Message: "The sign state is at height 5."}
}

// refusedToSign says that seid found signatures of its own key.
func refusedToSign(in *Input) {
	in.Seen.Sidecar.Status.Seid.State = api.SeidStopped
	in.Seen.Sidecar.Status.Seid.LastExit.Cause = string(v1alpha1.ReasonSignedElsewhere)
}
