package plan

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// reservation is what was drawn about something that only one node may use.
type reservation struct {
	kind     v1alpha1.ReservationKind
	identity string
	lease    *Lease
	recorded bool
}

// drawReservation draws one that is mostly as it should be: a pod comes only when all are.
func drawReservation(t *rapid.T, kind v1alpha1.ReservationKind, identity string) reservation {
	if rapid.IntRange(0, 2).Draw(t, "as it should be") > 0 {
		return reservation{kind: kind, identity: identity, lease: &Lease{Holder: nodeUID}, recorded: true}
	}
	drawn := reservation{kind: kind, identity: identity, recorded: rapid.Bool().Draw(t, "in the status")}
	if rapid.IntRange(0, 3).Draw(t, "leased") > 0 {
		drawn.lease = new(anyLease(t))
	}
	return drawn
}

func (r reservation) apply(in *Input) {
	if r.lease != nil {
		leased(r.kind, r.identity, *r.lease)(in)
	}
	if r.recorded {
		records(r.kind, r.identity)(in)
	}
}

// own tells whether this node holds it, no other one runs by it, and that is persisted.
func (r reservation) own(persisted bool) bool {
	return persisted && r.recorded && r.lease != nil && r.lease.Holder == nodeUID && len(r.lease.Recorded) == 0
}

// taken tells whether another node has it, or may run by it.
func (r reservation) taken() bool {
	return r.lease != nil && (len(r.lease.Recorded) > 0 || r.lease.Holder != nodeUID && !r.lease.Abandoned)
}

// TestNoPodBeforeItsKeysAndItsImportAreItsOwn: it comes when they are and that is
// persisted, and no sooner.
func TestNoPodBeforeItsKeysAndItsImportAreItsOwn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := []reservation{drawReservation(t, v1alpha1.ReservationNodeKey, nodeID)}
		edits := []edit{seed, identifies(nodeID)}
		if rapid.Bool().Draw(t, "signs") {
			keys = append(keys, drawReservation(t, v1alpha1.ReservationSigningKey, publicKey))
			edits = []edit{validator, knownKeys}
		}
		volume := drawReservation(t, v1alpha1.ReservationDataVolume, string(claimUID))
		imported := rapid.Bool().Draw(t, "imports")
		if imported {
			edits = append(edits, imports)
		} else {
			volume.recorded = false
		}
		edits = append(edits, hasClaim(), tracks(claimUID), forgotten, noPod, volume.apply)
		if rapid.Bool().Draw(t, "scaled to zero") {
			edits = append(edits, hasSet(scaled(0)))
		} else {
			edits = append(edits, noSet)
		}
		persisted := rapid.IntRange(0, 3).Draw(t, "persisted") > 0
		may := imported && volume.own(persisted) || !imported && !volume.taken()
		for _, key := range keys {
			edits = append(edits, key.apply)
			may = may && key.own(persisted)
		}
		if !persisted {
			edits = append(edits, unpersisted)
		}
		in := running(edits...)
		replicas, gate := Replicas(in)
		step := StatefulSet(in)
		if comes := replicas > 0 || step.Action == Create; comes != may {
			t.Fatalf("a pod may come: %t, and there are %d replicas with gate %+v, and %+v", may, replicas, gate, step)
		}
	})
}

// givenUp tells whether the data of a claim that is being deleted needs no pod to keep
// it, or a person said that it may go.
func givenUp(in Input) bool {
	volume := in.Node.Spec.DataVolume
	goesAlong := in.Node.DeletionTimestamp != nil && volume != nil && volume.DeletionPolicy == v1alpha1.DeletionPolicyDelete && volume.Import == nil
	return goesAlong || in.Seen.ReclaimPolicy == corev1.PersistentVolumeReclaimRetain ||
		in.Node.Annotations[v1alpha1.AnnotationAcceptVolumeLoss] == string(in.Seen.Claim.UID)
}

// checkReserved fails unless everything that a new pod would use is this node's, which is
// persisted.
func checkReserved(t *rapid.T, in Input) {
	names := []string{}
	if key := in.Seen.Keys[SigningKey]; in.Node.Spec.Validator != nil && in.Node.Spec.Validator.SigningKey != nil && key.PublicKey != "" {
		names = append(names, wishOf(v1alpha1.ReservationSigningKey, key.PublicKey).Name)
	}
	if key := in.Seen.Keys[NodeKey]; slices.Contains(KeysOf(&in.Node.Spec), NodeKey) && key.NodeID != "" {
		names = append(names, wishOf(v1alpha1.ReservationNodeKey, key.NodeID).Name)
	}
	if volume := in.Node.Spec.DataVolume; volume != nil && volume.Import != nil {
		names = append(names, wishOf(v1alpha1.ReservationDataVolume, string(in.Seen.Claim.UID)).Name)
	}
	for _, name := range names {
		lease := in.Seen.Leases[name]
		persisted := slices.ContainsFunc(in.Persisted.Reservations, func(r v1alpha1.Reservation) bool { return r.Name == name })
		if lease.Holder != in.Node.UID || !persisted {
			t.Fatalf("a pod comes with %s, which is %+v, persisted %t", name, lease, persisted)
		}
	}
}

// TestNoStopCostsAVolume: while the claim of a pod that lives is being deleted, the pod
// is all that keeps the data.
func TestNoStopCostsAVolume(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom([]func(...edit) Input{running, signer, importer}).Draw(t, "node")
		edits := []edit{
			rapid.SampledFrom([]edit{paused, deleted, all(paused, deleted), all()}).Draw(t, "stop"),
			rapid.SampledFrom([]edit{all(), all(), unsafe("state sync"), silentSidecar}).Draw(t, "safety"),
			rapid.SampledFrom([]edit{all(), skipsSafeStop("true"), wantsStop(2 * safeStopPatience)}).Draw(t, "patience"),
			policy(rapid.SampledFrom([]v1alpha1.DeletionPolicy{"", v1alpha1.DeletionPolicyRetain, v1alpha1.DeletionPolicyDelete}).Draw(t, "policy")),
			reclaims(rapid.SampledFrom([]corev1.PersistentVolumeReclaimPolicy{
				"", corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain,
			}).Draw(t, "reclaim policy")),
			givesUp(string(anyUID(t))), acceptsLossOf(string(anyUID(t))), tracks(anyUID(t)),
			onPod(rapid.SampledFrom([]func(*corev1.Pod){func(*corev1.Pod) {}, inPhase(corev1.PodPending), inPhase("")}).Draw(t, "pod")),
			claim(terminatingClaim),
		}
		in := base(edits...)
		given := givenUp(in)
		replicas, _ := Replicas(in)
		if gate := HoldsStop(in, StopRequested(in)); !given && (replicas == 0 || gate == nil) {
			t.Fatalf("the pod is stopped: %d replicas, gate %+v", replicas, gate)
		}
		if step := Decide(in); step.Plan != nil && slices.ContainsFunc(step.Plan.Tasks, func(task v1alpha1.PlanTask) bool { return task.Type == TaskReplacePod }) {
			t.Fatalf("a plan starts that replaces the pod: %+v", step.Plan)
		}
		// Whoever has given the data up is not held up by it.
		stops := in.Node.DeletionTimestamp != nil || in.Node.Spec.Paused
		if safe, _ := SafeStop(in, StopRequested(in)); given && safe == nil && stops != (replicas == 0) {
			t.Fatalf("%d replicas", replicas)
		}
	})
}

// contest is a Lease that nodes want, as they all see it.
type contest struct {
	wish     Wish
	exists   bool
	holder   types.UID
	recorded map[types.UID]bool
}

// step is what one of the nodes does.
func (c contest) step(uid types.UID) Reserving {
	in := fresh(func(in *Input) { in.Node.UID = uid })
	var lease Lease
	if c.exists {
		lease = Lease{Holder: c.holder, Abandoned: c.holder == gone}
	}
	for _, other := range []types.UID{nodeUID, otherUID, third} {
		if other != uid && c.recorded[other] {
			lease.Recorded = append(lease.Recorded, "sei/"+string(other))
		}
	}
	if c.exists || len(lease.Recorded) > 0 {
		in.Seen.Leases = map[string]Lease{c.wish.Name: lease}
	}
	if c.recorded[uid] {
		in.Persisted.Reservations = []v1alpha1.Reservation{{Kind: c.wish.Kind, Name: c.wish.Name}}
	}
	return ReservationStep(in, c.wish)
}

// A holder that does not exist any more, and a node that is looked at by none.
const (
	gone  types.UID = "gone"
	third types.UID = "third"
)

// TestOfTwoNodesOnlyOneReserves: whatever the Lease and the status of the two say. Where
// both go ahead, the API server decides: they make the same Lease, or change the same
// version of one that nobody has any more.
func TestOfTwoNodesOnlyOneReserves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := contest{
			wish: wishOf(v1alpha1.ReservationSigningKey, publicKey), exists: rapid.Bool().Draw(t, "exists"),
			holder: rapid.SampledFrom([]types.UID{nodeUID, otherUID, gone, third, ""}).Draw(t, "holder"), recorded: map[types.UID]bool{},
		}
		for _, node := range []types.UID{nodeUID, otherUID, third} {
			c.recorded[node] = rapid.Bool().Draw(t, string(node)+" has it in its status")
		}
		one, other := c.step(nodeUID), c.step(otherUID)
		if one == LeaveReserved || other == LeaveReserved {
			return
		}
		steps := [2]Reserving{one, other}
		made := !c.exists && steps == [2]Reserving{Reserve, Reserve}
		takenOver := c.exists && c.holder == gone && steps == [2]Reserving{TakeOver, TakeOver}
		if !made && !takenOver {
			t.Fatalf("one node: %s, the other: %s", one, other)
		}
		if c.recorded[nodeUID] || c.recorded[otherUID] || c.recorded[third] {
			t.Fatalf("both take what a node has in its status: %s, %s", one, other)
		}
	})
}
