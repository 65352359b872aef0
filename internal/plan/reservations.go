package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Lease is a reservation that exists. Making it is what decides between two nodes
// that want the same: only one of them can.
type Lease struct {
	Kind   v1alpha1.ReservationKind
	Holder types.UID
	// HolderName is the namespace and the name of the holder.
	HolderName string
	// Abandoned: the holder does not exist any more, and neither does its pod.
	Abandoned bool
	// Recorded are other SeiNodes that have it in their status. Somebody may have
	// edited the Lease; what is in the status of a node may run.
	Recorded []string
	// ResourceVersion of the Lease as it was seen.
	ResourceVersion string
	// Bootstrapped is the node that was brought up on an imported volume.
	Bootstrapped types.UID
	// Signed is what is known of the signing key that is reserved, and Renewed when that
	// was written.
	Signed  SignRecord
	Renewed time.Time
	// Unreadable: the Lease has a record of what was signed that cannot be read.
	Unreadable bool
}

// Wish is something that a node has to have for itself alone.
type Wish struct {
	Kind v1alpha1.ReservationKind
	// Identity is the public key, the node id, or the uid of the claim.
	Identity string
	// Name of the Lease.
	Name string
}

// newWish names the Lease. Copies of a key have one name, in whatever Secret and
// namespace they are.
func newWish(kind v1alpha1.ReservationKind, chainID, identity string) Wish {
	sum := sha256.Sum256([]byte(chainID + "\n" + string(kind) + "\n" + identity))
	return Wish{Kind: kind, Identity: identity, Name: fmt.Sprintf("sei-%s-%s", strings.ToLower(string(kind)), hex.EncodeToString(sum[:20]))}
}

// keyWish is the wish for a key; false: it needs no reservation, or is not known.
func keyWish(in Input, kind KeyKind) (Wish, bool) {
	switch key := in.Seen.Keys[kind]; {
	case kind == SigningKey && SigningIdentity(in) != "":
		return newWish(v1alpha1.ReservationSigningKey, in.Node.Spec.ChainID, SigningIdentity(in)), true
	case kind == NodeKey && key.NodeID != "":
		return newWish(v1alpha1.ReservationNodeKey, in.Node.Spec.ChainID, key.NodeID), true
	}
	return Wish{}, false
}

// VolumeWish is the wish for the claim that is there. A claim belongs to no chain.
func VolumeWish(in Input) Wish {
	return newWish(v1alpha1.ReservationDataVolume, "", string(in.Seen.Claim.UID))
}

// Wishes are all that the node has to reserve, as far as is known now.
func Wishes(in Input) []Wish {
	var wishes []Wish
	for _, kind := range []KeyKind{SigningKey, NodeKey} {
		if wish, wants := keyWish(in, kind); wants && !identityChanged(in, kind) {
			wishes = append(wishes, wish)
		}
	}
	if imported(in.Node) && in.Seen.Claim != nil {
		wishes = append(wishes, VolumeWish(in))
	}
	return wishes
}

// Looked are the names of the Leases to look for. That of the claim is always among
// them: another node may have imported it.
func Looked(in Input) []string {
	var names []string
	for _, wish := range Wishes(in) {
		names = append(names, wish.Name)
	}
	if in.Seen.Claim != nil && !imported(in.Node) {
		names = append(names, VolumeWish(in).Name)
	}
	return names
}

// Reserving is what to do about a wish.
type Reserving string

// What to do about a wish.
const (
	// Reserve: nobody has it.
	Reserve Reserving = "Reserve"
	// Reserved: this node has it.
	Reserved Reserving = "Reserved"
	// TakeOver: whoever had it is gone, or somebody edited a Lease of this node.
	TakeOver Reserving = "TakeOver"
	// LeaveReserved: another node has it.
	LeaveReserved Reserving = "LeaveReserved"
)

// ReservationStep decides what to do about a wish. The status of a node counts for
// more than the Lease: a pod runs by what is in the status, and a person may have
// edited the Lease.
func ReservationStep(in Input, wish Wish) Reserving {
	lease, exists := in.Seen.Leases[wish.Name]
	mine := recorded(in.Persisted.Reservations, wish.Name)
	switch {
	case len(lease.Recorded) > 0:
		// Also where this node has it in its status too: neither starts anything then, and
		// a person has to decide which of the two is to go.
		return LeaveReserved
	case !exists:
		return Reserve
	case lease.Holder == in.Node.UID:
		return Reserved
	case mine, lease.Abandoned:
		return TakeOver
	}
	return LeaveReserved
}

// heldByOther is shut while another node has what this one wishes.
func heldByOther(in Input, wish Wish) *Gate {
	if ReservationStep(in, wish) != LeaveReserved {
		return nil
	}
	lease := in.Seen.Leases[wish.Name]
	holder := lease.HolderName
	if len(lease.Recorded) > 0 {
		holder = lease.Recorded[0]
	}
	if wish.Kind == v1alpha1.ReservationDataVolume {
		return &Gate{
			Reason: v1alpha1.ReasonVolumeInUse, Stalled: true, After: gateInterval,
			Message: fmt.Sprintf("The claim %s is imported by the SeiNode %s. Delete that one first, or use another claim.", in.Seen.Claim.Name, holder),
		}
	}
	what := map[v1alpha1.ReservationKind]string{v1alpha1.ReservationSigningKey: "signing", v1alpha1.ReservationNodeKey: "node"}[wish.Kind]
	return &Gate{
		Reason: v1alpha1.ReasonKeyInUse, Stalled: true, After: gateInterval,
		Message: fmt.Sprintf("The %s key %s is in use by the SeiNode %s. Two nodes never run with one key: delete that node, or use another key.", what, wish.Identity, holder),
	}
}

// ReservationGate is shut until everything the node wishes is reserved, and that is
// persisted.
func ReservationGate(in Input) *Gate {
	for _, wish := range Wishes(in) {
		if gate := heldByOther(in, wish); gate != nil {
			return gate
		}
		if ReservationStep(in, wish) != Reserved || !recorded(in.Persisted.Reservations, wish.Name) {
			return &Gate{Reason: v1alpha1.ReasonWaiting, Message: "The keys or the volume of this node are not reserved for it yet."}
		}
	}
	return nil
}

// Surplus are the reservations of keys that the node no longer uses. A key that was
// replaced is let go when the pod that is there is approved with the new one.
func Surplus(in Input) []v1alpha1.Reservation {
	sidecar := in.Seen.Sidecar
	if !sidecar.Connected || !sidecar.Status.Approved {
		return nil
	}
	uses := map[v1alpha1.ReservationKind]string{}
	if wish, wants := keyWish(in, SigningKey); wants && sidecar.Status.Approval.PublicKey == wish.Identity && sidecar.Status.SigningPublicKey == wish.Identity {
		uses[wish.Kind] = wish.Name
	}
	if wish, wants := keyWish(in, NodeKey); wants && sidecar.Status.Approval.NodeID == wish.Identity && sidecar.Status.NodeID == wish.Identity {
		uses[wish.Kind] = wish.Name
	}
	var surplus []v1alpha1.Reservation
	for _, has := range in.Node.Status.Reservations {
		if used := uses[has.Kind]; used != "" && used != has.Name {
			surplus = append(surplus, has)
		}
	}
	return surplus
}

func recorded(reservations []v1alpha1.Reservation, name string) bool {
	return slices.ContainsFunc(reservations, func(r v1alpha1.Reservation) bool { return r.Name == name })
}
