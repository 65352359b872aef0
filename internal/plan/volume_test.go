package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

func labelled(label, value string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Labels[label] = value }
}

func unbound(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending }

// acceptsLossOf is a person's word that the volume with this uid is lost for good.
func acceptsLossOf(uid string) edit { return annotated(v1alpha1.AnnotationAcceptNewVolume, uid) }

func TestVolume(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in     Input
		reason v1alpha1.ConditionReason
		ready  bool
		// holds and stalled: no pod may be made; only a person can change that.
		holds, stalled bool
		says           []string
	}{
		"there is none yet": {
			in: fresh(), reason: v1alpha1.ReasonNotBound, says: []string{"data-node", "not made yet"},
		},
		"its own claim is bound": {
			in: fresh(hasClaim()), ready: true, reason: v1alpha1.ReasonBound, says: []string{"data-node", "pv-1"},
		},
		"its own claim is not bound yet": {
			in: fresh(hasClaim(unbound)), reason: v1alpha1.ReasonNotBound, says: []string{"data-node", "not bound"},
		},
		"the tracked claim is bound": {
			in: fresh(hasClaim(), tracks(claimUID)), ready: true, reason: v1alpha1.ReasonBound,
		},
		"the tracked claim is gone": {
			in: fresh(tracks(claimUID)), reason: v1alpha1.ReasonDataVolumeLost, holds: true, stalled: true,
			says: []string{"data-node", "claim-uid", "sei.io/accept-new-volume=claim-uid"},
		},
		"an imported claim that was tracked is gone": {
			in: fresh(imports, tracks(claimUID)), reason: v1alpha1.ReasonDataVolumeLost, holds: true, stalled: true,
		},
		"the tracked claim is gone, and a person accepts that": {
			in: fresh(tracks(claimUID), acceptsLossOf("claim-uid")), reason: v1alpha1.ReasonNotBound,
		},
		"the tracked claim is gone, and a person accepts the loss of another": {
			in: fresh(tracks(claimUID), acceptsLossOf("other-uid")), reason: v1alpha1.ReasonDataVolumeLost, holds: true, stalled: true,
		},
		"the claim to import is not there": {
			in: fresh(imports), reason: v1alpha1.ReasonImportNotFound, holds: true,
			says: []string{"chain-data", "namespace sei"},
		},
		"the claim to import has labels of its own": {
			in: fresh(imports, hasClaim(labelled(v1alpha1.LabelNode, "x"))), ready: true, reason: v1alpha1.ReasonBound,
		},
		"another claim took the place of the tracked one": {
			in: fresh(hasClaim(claimed(otherUID), terminatingClaim), tracks(claimUID)), reason: v1alpha1.ReasonDataVolumeLost, holds: true, stalled: true,
			says: []string{"data-node", "other-uid", "had claim-uid", "sei.io/accept-new-volume=claim-uid"},
		},
		"another claim took its place, and a person accepts that": {
			in:    fresh(hasClaim(claimed(otherUID)), tracks(claimUID), acceptsLossOf("claim-uid")),
			ready: true, reason: v1alpha1.ReasonBound,
		},
		"the claim is being deleted": {
			in: fresh(hasClaim(terminatingClaim, labelled(v1alpha1.LabelNode, "x"))), reason: v1alpha1.ReasonDataVolumeTerminating, holds: true,
			says: []string{"data-node", `"pv-1"`, "Retain"},
		},
		"the claim is of another node": {
			in: fresh(hasClaim(labelled(v1alpha1.LabelNode, "other")), usedBy("job-1")), reason: v1alpha1.ReasonRetainedVolumeMismatch, holds: true, stalled: true,
			says: []string{"data-node", `"other"`, `"node"`, "sei.io/node"},
		},
		"the claim is of another chain": {
			in:     fresh(hasClaim(labelled(v1alpha1.LabelChain, "atlantic-2"))),
			reason: v1alpha1.ReasonRetainedVolumeMismatch, holds: true, stalled: true, says: []string{`"atlantic-2"`, `"pacific-1"`, "sei.io/chain"},
		},
		"the claim is of another mode": {
			in:     fresh(hasClaim(labelled(v1alpha1.LabelMode, "archive"))),
			reason: v1alpha1.ReasonRetainedVolumeMismatch, holds: true, stalled: true, says: []string{`"archive"`, `"fullNode"`, "sei.io/mode"},
		},
		"other pods use the claim": {
			in: fresh(hasClaim(unbound), usedBy("job-1", "job-2")), reason: v1alpha1.ReasonVolumeInUse, holds: true,
			says: []string{"data-node", "job-1, job-2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Volume(test.in)
			want := VolumeVerdict{Status: metav1.ConditionFalse, Reason: test.reason, Holds: test.holds, Stalled: test.stalled}
			if test.ready {
				want.Status = metav1.ConditionTrue
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(VolumeVerdict{}, "Message")); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			saysAll(t, got.Message, test.says)
			gate := wantGate{}
			if test.holds {
				gate = wantGate{reason: got.Reason, stalled: got.Stalled, says: []string{got.Message}}
			}
			gate.check(t, volumeGate(test.in))
		})
	}
}
