package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

func labelled(label, value string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Labels[label] = value }
}

func unbound(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending }

// accessible says in which ways a claim can be used.
func accessible(modes ...corev1.PersistentVolumeAccessMode) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes = modes }
}

func inMode(mode corev1.PersistentVolumeMode) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &mode }
}

// signedBy says whose sign state is on a claim.
func signedBy(address string) func(*corev1.PersistentVolumeClaim) {
	return labelled(v1alpha1.LabelConsensusAddress, address)
}

// grows says how large a claim is, and how large it shall be.
func grows(has, wants string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(has)}
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(wants)}
	}
}

// resizing says how far the storage has come with that.
func resizing(state corev1.ClaimResourceStatus) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: state}
	}
}

// sized is an edit of the size of the volume.
func sized(size string) edit {
	return spec(func(s *v1alpha1.SeiNodeSpec) {
		s.DataVolume = &v1alpha1.DataVolumeSpec{Size: new(resource.MustParse(size))}
	})
}

// refused says that the API server did not let the claim grow.
func refused(in *Input) { in.ExpansionRefused = "the class forbids it" }

// diskOf is what the sidecar says of the disk.
func diskOf(total, free int64) edit {
	return sidecar(func(s *Sidecar) { s.Status.TotalBytes, s.Status.FreeBytes = total, free })
}

// claimOf says which other SeiNode the labels of the claim name.
func claimOf(name string) edit {
	return func(in *Input) { in.Seen.ClaimOwner = name }
}

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
		"the claim to import is another node's, which is gone": {
			in: fresh(imports, hasClaim(labelled(v1alpha1.LabelNode, "other"))), ready: true, reason: v1alpha1.ReasonBound,
		},
		"the claim to import is another node's, which exists": {
			in:     fresh(imports, hasClaim(labelled(v1alpha1.LabelNode, "other")), claimOf("other")),
			reason: v1alpha1.ReasonImportInvalid, holds: true, stalled: true, says: []string{"chain-data", "SeiNode other, which exists"},
		},
		"the claim to import is this node's own": {
			in: fresh(imports, hasClaim(), claimOf("")), ready: true, reason: v1alpha1.ReasonBound,
		},
		"the claim to import has no owner, and others are there": {
			in: fresh(imports, hasClaim(labelled(v1alpha1.LabelNode, "")), claimOf("")), ready: true, reason: v1alpha1.ReasonBound,
		},
		"the claim to import lost its volume": {
			in: fresh(imports, hasClaim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost })), reason: v1alpha1.ReasonImportInvalid, holds: true, stalled: true,
			says: []string{"chain-data", "its volume is lost"},
		},
		"the claim to import is a block device": {
			in: fresh(imports, hasClaim(inMode(corev1.PersistentVolumeBlock))), reason: v1alpha1.ReasonImportInvalid, holds: true, stalled: true, says: []string{"block device"},
		},
		"the claim to import is a file system": {
			in: fresh(imports, hasClaim(inMode(corev1.PersistentVolumeFilesystem))), ready: true, reason: v1alpha1.ReasonBound,
		},
		"the claim to import can only be read": {
			in:     fresh(imports, hasClaim(accessible(corev1.ReadOnlyMany)), usedBy("job-1")),
			reason: v1alpha1.ReasonImportInvalid, holds: true, stalled: true, says: []string{"only be read"},
		},
		"the claim to import can be read by many and written by one": {
			in: fresh(imports, hasClaim(accessible(corev1.ReadOnlyMany, corev1.ReadWriteOncePod))), ready: true, reason: v1alpha1.ReasonBound,
		},
		"a claim of its own says nothing of how it can be used": {
			in: fresh(hasClaim(accessible())), ready: true, reason: v1alpha1.ReasonBound,
		},
		"another node imported the claim first": {
			in:     fresh(imports, hasClaim(), leasedTo(v1alpha1.ReservationDataVolume, string(claimUID), otherUID)),
			reason: v1alpha1.ReasonVolumeInUse, holds: true, stalled: true, says: []string{"chain-data", "imported by the SeiNode elsewhere/holder"},
		},
		"another node imported the claim of this one": {
			in:     fresh(hasClaim(), leasedTo(v1alpha1.ReservationDataVolume, string(claimUID), otherUID)),
			reason: v1alpha1.ReasonVolumeInUse, holds: true, stalled: true, says: []string{"data-node", "elsewhere/holder"},
		},
		"another node imported the claim and is gone": {
			in:    fresh(hasClaim(), leased(v1alpha1.ReservationDataVolume, string(claimUID), Lease{Holder: otherUID, Abandoned: true})),
			ready: true, reason: v1alpha1.ReasonBound,
		},
		"another node imported another claim": {
			in: fresh(hasClaim(), leasedTo(v1alpha1.ReservationDataVolume, "x", otherUID)), ready: true, reason: v1alpha1.ReasonBound,
		},
		"the claim holds the sign state of the key": {
			in: fresh(validator, knownKeys, hasClaim(signedBy(address))), ready: true, reason: v1alpha1.ReasonBound,
		},
		"the claim holds the sign state of another key": {
			in:     fresh(validator, knownKeys, hasClaim(signedBy(otherAddress))),
			reason: v1alpha1.ReasonRetainedVolumeMismatch, holds: true, stalled: true, says: []string{"sign state of the address BBBB", "has the address AAAA"},
		},
		"the claim holds the sign state of a key, and that of the node is not known": {
			in: fresh(validator, missing(SigningKey), hasClaim(signedBy(otherAddress))), ready: true, reason: v1alpha1.ReasonBound,
		},
		"the claim holds no sign state": {
			in: fresh(validator, knownKeys, hasClaim(signedBy(""))), ready: true, reason: v1alpha1.ReasonBound,
		},
		"the tracked claim holds the sign state of the key from before": {
			in: fresh(validator, knownKeys, hasClaim(signedBy(otherAddress)), tracks(claimUID)), ready: true, reason: v1alpha1.ReasonBound,
		},
		"it is nearly full": {
			in: running(diskOf(1000, 99)), reason: v1alpha1.ReasonDiskNearlyFull, says: []string{"data-node", "nearly full", "spec.dataVolume.size"},
		},
		"it is nearly full, and not bound": {
			in: running(claim(unbound), diskOf(1000, 99)), reason: v1alpha1.ReasonNotBound,
		},
		"it is nearly full, and cannot grow": {
			in: running(sized("20Gi"), refused, diskOf(1000, 99)), reason: v1alpha1.ReasonDiskNearlyFull,
		},
		"it grows": {
			in: running(claim(grows("10Gi", "20Gi"))), ready: true, reason: v1alpha1.ReasonExpanding, says: []string{"data-node", "from 10Gi to 20Gi"},
		},
		"it has grown": {
			in: running(claim(grows("20Gi", "20Gi"))), ready: true, reason: v1alpha1.ReasonBound,
		},
		"it is larger than was asked for": {
			in: running(claim(grows("30Gi", "20Gi"), resizing(corev1.PersistentVolumeClaimNodeResizeInfeasible))), ready: true, reason: v1alpha1.ReasonBound,
		},
		"it grows, and the storage works on it": {
			in: running(claim(grows("10Gi", "20Gi"), resizing(corev1.PersistentVolumeClaimControllerResizeInProgress))), ready: true, reason: v1alpha1.ReasonExpanding,
		},
		"the storage refuses to grow it": {
			in:     running(claim(grows("10Gi", "20Gi"), resizing(corev1.PersistentVolumeClaimControllerResizeInfeasible))),
			reason: v1alpha1.ReasonExpansionFailed, says: []string{"data-node", "cannot grow to 20Gi", "runs on with 10Gi"},
		},
		"the machine refuses to grow it": {
			in:     running(claim(grows("10Gi", "20Gi"), resizing(corev1.PersistentVolumeClaimNodeResizeInfeasible))),
			reason: v1alpha1.ReasonExpansionFailed, says: []string{"cannot grow to 20Gi"},
		},
		"the API server refuses to grow it": {
			in:     running(sized("20Gi"), claim(grows("10Gi", "15Gi")), refused),
			reason: v1alpha1.ReasonExpansionFailed, says: []string{"data-node", "cannot grow to 20Gi", "the class forbids it"},
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
			says: []string{"data-node", "starts when it is gone"},
		},
		"the claim is being deleted under the pod": {
			in: running(claim(terminatingClaim)), reason: v1alpha1.ReasonDataVolumeTerminating, holds: true,
			says: []string{"data-node", "kept by the pod", "volume pv-1", "Retain", "sei.io/accept-volume-loss=claim-uid"},
		},
		"the imported claim is being deleted, whatever else is wrong with it": {
			in: fresh(imports, hasClaim(terminatingClaim, accessible())), reason: v1alpha1.ReasonDataVolumeTerminating, holds: true,
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
