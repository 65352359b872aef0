package plan

import (
	"errors"
	"maps"
	"slices"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/seid"
)

var errNoDocument = errors.New("there is no ConfigMap with the configuration")

// maxPeers is how many peers a status may hold. Somebody may have written more into
// the ConfigMap, and then the API server would refuse the status for ever.
const maxPeers = 64

// Rebuild gives a node whose status was emptied, by a restore from a backup for
// example, the status that follows from the world. The mark that a bootstrap leaves
// on the claim says that the node was brought up; nothing of that is done again and
// nothing restarts. It reports whether it changed anything.
func Rebuild(in Input) bool {
	status := &in.Node.Status
	if status.Phase != "" || !Bootstrapped(in) {
		return false
	}
	status.Phase = v1alpha1.PhaseRunning
	status.DataVolume = &v1alpha1.ObjectIdentity{Name: in.Seen.Claim.Name, UID: in.Seen.Claim.UID}
	status.Reservations = nil
	for _, name := range slices.Sorted(maps.Keys(in.Seen.Leases)) {
		if lease := in.Seen.Leases[name]; lease.Holder == in.Node.UID {
			status.Reservations = append(status.Reservations, v1alpha1.Reservation{Kind: lease.Kind, Name: name})
		}
	}
	status.AdmittedSpecHash = in.Want.SpecHash
	if document, err := liveDocument(in); err == nil {
		status.ConfigHash, status.ConfigSerial = seid.Hash(document), document.Serial
		status.AppliedConfigHash = status.ConfigHash
		if len(document.Peers) > 0 {
			status.ResolvedPeers = &v1alpha1.ResolvedPeers{
				Count: int32(len(document.Peers)), Addresses: document.Peers[:min(len(document.Peers), maxPeers)],
			}
		}
	}
	return true
}
