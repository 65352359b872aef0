package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// policy is what the spec says about the volume of a node that is deleted.
func policy(policy v1alpha1.DeletionPolicy) edit {
	return spec(func(s *v1alpha1.SeiNodeSpec) {
		if s.DataVolume == nil {
			s.DataVolume = &v1alpha1.DataVolumeSpec{}
		}
		s.DataVolume.DeletionPolicy = policy
	})
}

// reclaims says what becomes of the volume when its claim goes.
func reclaims(policy corev1.PersistentVolumeReclaimPolicy) edit {
	return func(in *Input) { in.Seen.ReclaimPolicy = policy }
}

// givesUp is a person's word that the data on the claim with this uid may go.
func givesUp(uid string) edit { return annotated(v1alpha1.AnnotationAcceptVolumeLoss, uid) }

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

// TestAPodThatKeepsItsVolumeIsNotStopped: when the claim is being deleted, the data goes
// with the pod.
func TestAPodThatKeepsItsVolumeIsNotStopped(t *testing.T) {
	t.Parallel()
	retain, remove := corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete
	atRisk := func(edits ...edit) Input { return running(append([]edit{claim(terminatingClaim)}, edits...)...) }
	gate := wantGate{
		reason: v1alpha1.ReasonDataVolumeTerminating, stalled: true,
		says: []string{"not stopped", "volume pv-1", "Retain", "sei.io/accept-volume-loss=claim-uid"},
	}
	for name, test := range map[string]struct {
		in   Input
		want wantGate
	}{
		"the claim is there":                              {in: running()},
		"the claim is there, and the volume goes with it": {in: running(reclaims(remove))},
		"the claim is gone":                               {in: running(noClaim)},
		"the claim is being deleted":                      {in: atRisk(), want: gate},
		"the volume goes with the claim":                  {in: atRisk(reclaims(remove)), want: gate},
		"the volume stays":                                {in: atRisk(reclaims(retain))},
		"there is no pod":                                 {in: atRisk(noPod)},
		"the pod is ending already":                       {in: atRisk(onPod(endingPod))},
		"the pod has ended":                               {in: atRisk(onPod(inPhase(corev1.PodSucceeded)))},
		"the pod has failed":                              {in: atRisk(onPod(inPhase(corev1.PodFailed)))},
		"the pod has not started":                         {in: atRisk(onPod(inPhase(corev1.PodPending))), want: gate},
		"a person gives it up":                            {in: atRisk(givesUp("claim-uid"))},
		"a person gives up another":                       {in: atRisk(givesUp("other-uid")), want: gate},
		"a person gives up the one that was tracked":      {in: atRisk(claim(claimed(otherUID)), givesUp("claim-uid")), want: wantGate{reason: gate.reason, stalled: true, says: []string{"accept-volume-loss=other-uid"}}},
		"the node is deleted, and its volume with it":     {in: atRisk(policy(v1alpha1.DeletionPolicyDelete), deleted)},
		"the volume would go with the node, which stays":  {in: atRisk(policy(v1alpha1.DeletionPolicyDelete)), want: gate},
		"the node is deleted, and its volume stays":       {in: atRisk(policy(v1alpha1.DeletionPolicyRetain), deleted), want: gate},
		"the node is deleted, nobody speaks of a volume":  {in: atRisk(deleted), want: gate},
		"the node is deleted, and its volume is imported": {
			in:   importer(policy(v1alpha1.DeletionPolicyDelete), claim(terminatingClaim), deleted),
			want: wantGate{reason: gate.reason, stalled: true, says: []string{"chain-data"}},
		},
		"the volume comes before a safe moment": {in: atRisk(unsafe("state sync")), want: gate},
		"nobody cares for a safe moment":        {in: atRisk(unsafe("state sync"), skipsSafeStop("true")), want: gate},
		"a safe moment comes after the volume": {
			in:   atRisk(givesUp("claim-uid"), unsafe("state sync")),
			want: wantGate{reason: v1alpha1.ReasonWaitingForSafeStop, after: safeStopPatience, says: []string{"state sync"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.want.check(t, HoldsStop(test.in, now))
		})
	}
}

func TestAPauseAndADeletionKeepAVolumeAtRisk(t *testing.T) {
	t.Parallel()
	atRisk := claim(terminatingClaim)
	held := wantGate{reason: v1alpha1.ReasonDataVolumeTerminating, stalled: true}
	for name, test := range map[string]struct {
		in   Input
		want int32
		gate wantGate
	}{
		"a pause":                           {in: running(atRisk, paused), want: 1, gate: held},
		"a deletion":                        {in: running(atRisk, deleted), want: 1, gate: held},
		"neither":                           {in: running(atRisk), want: 1},
		"a pause that a person insists on":  {in: running(atRisk, paused, givesUp("claim-uid")), gate: wantGate{reason: v1alpha1.ReasonPaused}},
		"a deletion that takes the volume":  {in: running(atRisk, deleted, policy(v1alpha1.DeletionPolicyDelete)), gate: wantGate{reason: v1alpha1.ReasonTerminating}},
		"a pause whose pod is gone already": {in: running(atRisk, paused, noPod, hasSet(scaled(0))), gate: wantGate{reason: v1alpha1.ReasonPaused}},
		"a pod comes back on no such claim": {in: running(atRisk, noPod, hasSet(scaled(0))), gate: wantGate{reason: v1alpha1.ReasonDataVolumeTerminating}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replicas, gate := Replicas(test.in)
			if replicas != test.want {
				t.Errorf("%d replicas, want %d", replicas, test.want)
			}
			test.gate.check(t, gate)
		})
	}
}

// TestWhenAClaimGrows: a person said so, and the claim is the node's own.
func TestWhenAClaimGrows(t *testing.T) {
	t.Parallel()
	larger := func(edits ...edit) Input {
		return running(append([]edit{sized("20Gi"), claim(grows("10Gi", "10Gi"))}, edits...)...)
	}
	for name, test := range map[string]struct {
		in   Input
		want string
	}{
		"the spec wants more":                      {in: larger(), want: "20Gi"},
		"the spec wants as much":                   {in: larger(claim(grows("10Gi", "20Gi")))},
		"the spec wants less":                      {in: larger(claim(grows("30Gi", "30Gi")))},
		"the spec wants no size":                   {in: larger(policyOnly)},
		"the spec says nothing of it":              {in: running(claim(grows("10Gi", "10Gi")))},
		"the claim is imported":                    {in: larger(spec(func(s *v1alpha1.SeiNodeSpec) { s.DataVolume.Import = &v1alpha1.VolumeImport{PVCName: "chain-data"} }))},
		"the node is deleted":                      {in: larger(deleted)},
		"the claim is gone":                        {in: larger(noClaim)},
		"the claim was never taken":                {in: larger(func(in *Input) { in.Node.Status.DataVolume = nil })},
		"the claim is another one":                 {in: larger(claim(claimed(otherUID)))},
		"the claim is being deleted":               {in: larger(claim(terminatingClaim))},
		"the claim is not bound":                   {in: larger(claim(unbound))},
		"the node is paused":                       {in: larger(paused), want: "20Gi"},
		"the storage has refused, and may not now": {in: larger(claim(resizing(corev1.PersistentVolumeClaimControllerResizeInfeasible))), want: "20Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Expansion(test.in)
			if (got != nil) != (test.want != "") || got != nil && got.Cmp(resource.MustParse(test.want)) != 0 {
				t.Errorf("it grows to %s, want %s", got, test.want)
			}
		})
	}
}

// policyOnly leaves the size out of the spec.
func policyOnly(in *Input) { in.Node.Spec.DataVolume.Size = nil }

// TestADiskThatFillsUp is told of at a tenth, and until there is room again.
func TestADiskThatFillsUp(t *testing.T) {
	t.Parallel()
	was := func(reason v1alpha1.ConditionReason) edit {
		return func(in *Input) {
			in.Node.Status.Conditions = append(in.Node.Status.Conditions,
				metav1.Condition{Type: string(v1alpha1.ConditionDataVolumeReady), Reason: string(reason)})
		}
	}
	full := was(v1alpha1.ReasonDiskNearlyFull)
	for name, test := range map[string]struct {
		in   Input
		want bool
	}{
		"nobody says how large it is":                  {in: running()},
		"it is empty":                                  {in: running(diskOf(1000, 1000))},
		"a tenth is left":                              {in: running(diskOf(1000, 100))},
		"less than a tenth is left":                    {in: running(diskOf(1000, 99)), want: true},
		"nothing is left":                              {in: running(diskOf(1000, 0)), want: true},
		"there is hardly more room than before":        {in: running(diskOf(1000, 129), full), want: true},
		"there is room again":                          {in: running(diskOf(1000, 130), full)},
		"a tenth is left, and it was something else":   {in: running(diskOf(1000, 100), was(v1alpha1.ReasonBound))},
		"it was full, and nobody says how large it is": {in: running(full), want: true},
		"it was full, and the sidecar is silent":       {in: running(diskOf(1000, 1000), silentSidecar, full), want: true},
		"it was not, and the sidecar is silent":        {in: running(diskOf(1000, 0), silentSidecar, was(v1alpha1.ReasonBound))},
		"it is a large one":                            {in: running(diskOf(1<<50, 1<<50/8))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := DiskNearlyFull(test.in); got != test.want {
				t.Errorf("nearly full is %t", got)
			}
		})
	}
}
