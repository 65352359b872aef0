package plan

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/signing"
)

// SignRecord is what the Lease of a signing key says of what the key signed. The
// height never falls, except by a person's word.
type SignRecord struct {
	Height int64 `json:"height"`
	// Volume is the uid of the claim on which that was seen.
	Volume types.UID `json:"volume,omitempty"`
	// Accepted is the height of the sign state that a person accepted last.
	Accepted *int64 `json:"accepted,omitempty"`
}

// recordEvery is how often a Lease is written for a validator that signs all the time.
const recordEvery = 10 * time.Minute

// acceptedEvery is how often a validator is looked at while what a person accepted waits
// for the first signature: nothing else wakes the operator then. It writes nothing.
const acceptedEvery = 15 * time.Second

// Recording is what to write into the Lease of the signing key.
type Recording struct {
	// Lease is its name; empty: nothing is to be written.
	Lease  string
	Record SignRecord
	// After is when to look again.
	After time.Duration
}

// RecordSigned decides what to write into the Lease of the key that the pod signs with.
// Only a sign state that was written by this key on this volume is believed; what
// another key, or another node, left on the volume says nothing.
func RecordSigned(in Input) Recording {
	if lost := lostRecord(in); lost.Lease != "" {
		return lost
	}
	status, name, lease, known := signingLease(in)
	if !known {
		return Recording{}
	}
	height, guard := *status.SignHeight, signing.Reason(status.SignGuard.Reason)
	if accepted := acceptedSignState(in.Node); accepted != nil {
		// The Lease says what is used up also after its node: the next one of the same manifest
		// has the same annotation.
		if in.Seen.Sidecar.Connected && *accepted == height && guard != signing.Off && !usedUp(lease.Signed, *accepted) {
			return Recording{Lease: name, Record: SignRecord{Height: height, Volume: in.Seen.Claim.UID, Accepted: accepted}, After: acceptedEvery}
		}
	} else if lease.Signed.Accepted != nil {
		record := lease.Signed
		record.Accepted = nil
		return Recording{Lease: name, Record: record}
	}
	return recordHeight(in, name, lease)
}

// recordHeight decides whether the height of the sign state is written now.
func recordHeight(in Input, name string, lease Lease) Recording {
	status := in.Seen.Sidecar.Status
	height, guard := *status.SignHeight, signing.Reason(status.SignGuard.Reason)
	record := lease.Signed
	record.Height, record.Volume = height, in.Seen.Claim.UID
	// The first signature under an acceptance uses it up, and until that is recorded a volume
	// that is put back would be accepted again.
	first := lease.Signed.Height == 0 || lease.Signed.Volume != record.Volume || usedUp(lease.Signed, lease.Signed.Height) && height > lease.Signed.Height
	switch wait := recordEvery - in.Seen.Now.Sub(lease.Renewed); {
	case !guard.Trusted() || height == 0 || height < lease.Signed.Height || height == lease.Signed.Height && !first:
		if lease.Signed.Volume == record.Volume && stillAccepted(in.Node, lease.Signed) != nil {
			return Recording{After: acceptedEvery}
		}
		return Recording{After: recordEvery}
	case first, seidEnded(status.Seid), podGone(in), wait <= 0, wait > recordEvery: // or written by a clock that was ahead
		return Recording{Lease: name, Record: record, After: recordEvery}
	default:
		return Recording{After: wait}
	}
}

// lostRecord puts back into the Lease what the pod was told before, if the Lease says less
// now: it was deleted by force, restored or edited. The ConfigMap goes with the node, and
// the Lease has to tell the next one.
func lostRecord(in Input) Recording {
	told, _ := toldBefore(in)
	wish := newWish(v1alpha1.ReservationSigningKey, in.Node.Spec.ChainID, told.PublicKey)
	lease := in.Seen.Leases[wish.Name]
	record := lease.Signed
	record.Height = stillKnown(told, record)
	if lease.Holder != in.Node.UID || record.Height == lease.Signed.Height {
		return Recording{}
	}
	return Recording{Lease: wish.Name, Record: record, After: acceptedEvery}
}

// stillKnown is the height that a key is known to have signed, by the Lease and by what its
// pod was told before. Only a person's word lowers it.
func stillKnown(told signing.Known, record SignRecord) int64 {
	if usedUp(record, record.Height) {
		return record.Height
	}
	return max(told.Height, record.Height)
}

// toldBefore is what the pod was told of its signing key; the error says that it cannot be
// read, or that there is nothing.
func toldBefore(in Input) (signing.Known, error) {
	if in.Seen.NodeConfig == nil {
		return signing.Parse(nil)
	}
	return signing.Parse([]byte(in.Seen.NodeConfig.Data[signing.File]))
}

// UnreadableRecord is the name of the Lease that has a record of what the node's key signed
// which cannot be read; empty: there is none.
func UnreadableRecord(in Input) string {
	wish, wants := keyWish(in, SigningKey)
	if !wants || !in.Seen.Leases[wish.Name].Unreadable {
		return ""
	}
	return wish.Name
}

// signingLease is the Lease of the key that the pod signs with, if that is this node's
// and the sidecar tells how far it signed. Its last status counts also when it is gone with
// its pod: there is no newer one. A sidecar that does not decide about the guard cannot say
// whether its sign state is that of the key, and is not believed.
func signingLease(in Input) (status api.Status, name string, lease Lease, known bool) {
	status = in.Seen.Sidecar.Status
	key := status.Approval.PublicKey
	switch {
	case !in.Seen.Sidecar.Connected && !podGone(in), in.Seen.Claim == nil, status.SignHeight == nil, !status.SignGuard.Decided:
		return status, "", Lease{}, false
	case !status.Approved || key == "" || status.SigningPublicKey != key:
		return status, "", Lease{}, false
	}
	name = newWish(v1alpha1.ReservationSigningKey, in.Node.Spec.ChainID, key).Name
	lease = in.Seen.Leases[name]
	return status, name, lease, lease.Holder == in.Node.UID
}

// seidEnded tells whether seid does not run, so that nothing more is signed for now. A
// seid that ended takes its parent with it, and the parent's last status may be lost. Then
// the state is unknown, and that is all that is observed of the end.
func seidEnded(seid api.Seid) bool {
	switch seid.State {
	case api.SeidStopped, api.SeidParked, api.SeidWaiting, api.SeidUnknown:
		return true
	case api.SeidRunning, api.SeidStarting, api.SeidStopping:
	}
	return false
}

// SigningEntry is what the pod is to be told of its signing key, which stands beside its
// configuration; empty: nothing. It changes when the Lease does. What changes with the
// chain is brought up to date only while no pod has read it.
func SigningEntry(in Input) string {
	told := ""
	if in.Seen.NodeConfig != nil {
		told = in.Seen.NodeConfig.Data[signing.File]
	}
	before, err := toldBefore(in)
	wish, wants := toldOf(in, before)
	if !wants {
		return told
	}
	record := in.Seen.Leases[wish.Name].Signed
	known := signing.Known{PublicKey: wish.Identity, Height: record.Height, Tip: in.Seen.Tip, Witnesses: slices.Concat(in.Seen.Witnesses, in.Want.RPCServers)}
	here := in.Seen.Claim != nil && record.Volume == in.Seen.Claim.UID
	known.Vouched = here && record.Height > 0
	if here {
		known.Accepted = stillAccepted(in.Node, record)
	}
	sameKey := err == nil && before.PublicKey == wish.Identity
	if before = before.Of(wish.Identity); known.Tip == 0 {
		known.Tip = before.Tip
	}
	known.Height = stillKnown(before, record)
	// Few blocks decide nothing, and a node that cannot start would be told of each.
	about := podGone(in) && !in.Node.Spec.Paused && known.Tip-before.Tip > signing.Window
	if sameKey && before.SameBut(known) && !about {
		return told
	}
	return known.Text()
}

// toldOf is the key that the pod is to be told of.
func toldOf(in Input, before signing.Known) (Wish, bool) {
	wish, wants := keyWish(in, SigningKey)
	if !wants {
		wish, wants = keyOnVolume(in, before)
	}
	if wants && keepsKey(in, wish, before) {
		wish = newWish(wish.Kind, in.Node.Spec.ChainID, before.PublicKey)
		_, wants = in.Seen.Leases[wish.Name]
	}
	return wish, wants
}

// keyOnVolume is the key of a validator without a Secret while its sidecar is not connected:
// the one that its pod was told of, if this node still has it. Otherwise the next pod would
// be told of a tip and of witnesses from before a pause.
func keyOnVolume(in Input, before signing.Known) (Wish, bool) {
	validator := in.Node.Spec.Validator
	if validator == nil || validator.SigningKey != nil || in.Seen.Sidecar.Connected || before.PublicKey == "" {
		return Wish{}, false
	}
	wish := newWish(v1alpha1.ReservationSigningKey, in.Node.Spec.ChainID, before.PublicKey)
	return wish, in.Seen.Leases[wish.Name].Holder == in.Node.UID
}

// keepsKey tells whether the pod is still to be told of the key that it was told of
// before, and not yet of the one in the Secret. A pod signs with the key that it was
// approved with until there is another pod. Without what is known of that key, the guard
// would go off that keeps its seid from signing twice.
func keepsKey(in Input, wish Wish, before signing.Known) bool {
	if before.PublicKey == "" || before.PublicKey == wish.Identity {
		return false
	}
	return identityChanged(in, SigningKey) || !podGone(in) && in.Seen.Sidecar.Status.Approval.PublicKey != wish.Identity
}

// ForgetsSigned tells whether what is known of a signing key goes with a node that is
// deleted: the key was made on a volume that is deleted with the node. If a copy of that
// volume comes back, its sign state is doubted in any case.
func ForgetsSigned(in Input, record SignRecord) bool {
	validator, policy, volume := in.Node.Spec.Validator, in.Node.Spec.DataVolume, in.Node.Status.DataVolume
	return validator != nil && validator.SigningKey == nil &&
		policy != nil && policy.DeletionPolicy == v1alpha1.DeletionPolicyDelete && policy.Import == nil &&
		volume != nil && volume.UID == record.Volume
}

// ownsDocumentEntry tells whether the document is among what is ours of a ConfigMap.
func ownsDocumentEntry(data map[string]string) bool { return data[render.DocumentEntry] != "" }
