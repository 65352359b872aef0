package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// The keys in the Secrets of the validator, and others that might be there instead.
const (
	publicKey, otherPublicKey = "public-1", "public-2"
	nodeID, otherNodeID       = "id-1", "id-2"
	address, otherAddress     = "AAAA", "BBBB"
)

// signs says that the Secret holds the signing key with this public key.
func signs(public, address string) edit {
	return key(SigningKey, Key{PublicKey: public, Address: address})
}

// identifies says that the Secret holds the node key with this node id.
func identifies(id string) edit { return key(NodeKey, Key{NodeID: id}) }

// knownKeys says that the Secrets hold keys that are well-formed.
func knownKeys(in *Input) {
	signs(publicKey, address)(in)
	identifies(nodeID)(in)
	usable(OperatorKeyring)(in)
}

// wishOf names a Lease. A key is one of the chain of all tests.
func wishOf(kind v1alpha1.ReservationKind, identity string) Wish {
	if kind == v1alpha1.ReservationDataVolume {
		return newWish(kind, "", identity)
	}
	return newWish(kind, "pacific-1", identity)
}

// leased puts a Lease there.
func leased(kind v1alpha1.ReservationKind, identity string, lease Lease) edit {
	return func(in *Input) {
		if in.Seen.Leases == nil {
			in.Seen.Leases = map[string]Lease{}
		}
		lease.Kind = kind
		in.Seen.Leases[wishOf(kind, identity).Name] = lease
	}
}

// leasedTo puts a Lease there that this node holds, or another one.
func leasedTo(kind v1alpha1.ReservationKind, identity string, holder types.UID) edit {
	return leased(kind, identity, Lease{Holder: holder, HolderName: "elsewhere/holder"})
}

// records says that the node has a Lease in its status.
func records(kind v1alpha1.ReservationKind, identity string) edit {
	return func(in *Input) {
		entry := v1alpha1.Reservation{Kind: kind, Name: wishOf(kind, identity).Name}
		if !slices.Contains(in.Node.Status.Reservations, entry) {
			in.Node.Status.Reservations = append(in.Node.Status.Reservations, entry)
		}
	}
}

// reserves says that the node has reserved something, which is persisted.
func reserves(kind v1alpha1.ReservationKind, identity string) edit {
	return func(in *Input) {
		leasedTo(kind, identity, nodeUID)(in)
		records(kind, identity)(in)
	}
}

// reservesKeys says that the node has reserved the keys in its Secrets.
func reservesKeys(in *Input) {
	reserves(v1alpha1.ReservationSigningKey, publicKey)(in)
	reserves(v1alpha1.ReservationNodeKey, nodeID)(in)
}

// unpersisted says that the API server does not know yet what is reserved.
func unpersisted(in *Input) {
	in.Persisted = in.Node.Status.DeepCopy()
	in.Persisted.Reservations = nil
}

// signer is a validator that was brought up with the keys in its Secrets, which are
// reserved, and runs.
func signer(edits ...edit) Input {
	return running(append([]edit{validator, hasClaim(marked(nodeUID)), hasSet(), hasPod(), admitted, knownKeys, reservesKeys, settled, approvedWith(publicKey, nodeID)}, edits...)...)
}

// settled says that the node is what its spec wants.
func settled(in *Input) {
	in.Node.Status.ConfigHash, in.Node.Status.AppliedConfigHash = in.Want.ConfigHash, in.Want.ConfigHash
	in.Node.Status.PodTemplateHash = in.Want.TemplateHash
	hasDocument(1)(in)
}

// approvedWith says that the pod has these keys and is approved with them.
func approvedWith(public, id string) edit {
	return func(in *Input) {
		podHas(public, id)(in)
		in.Seen.Sidecar.Status.Approval.PublicKey, in.Seen.Sidecar.Status.Approval.NodeID = public, id
	}
}

// podHas says which keys the sidecar sees in the pod.
func podHas(public, id string) edit {
	return sidecar(func(s *Sidecar) { s.Status.SigningPublicKey, s.Status.NodeID = public, id })
}

// acceptsKey is a person's word that these keys may be used.
func acceptsKey(identities string) edit { return annotated(v1alpha1.AnnotationAcceptKey, identities) }

// importer is a full node on a claim that it imported and reserved, and runs.
func importer(edits ...edit) Input {
	return running(append([]edit{
		imports, hasClaim(), tracks(claimUID), hasSet(), hasPod(), admitted, settled,
		reserves(v1alpha1.ReservationDataVolume, string(claimUID)), broughtUp(nodeUID),
	}, edits...)...)
}

// broughtUp puts the mark of a finished bootstrap on the Lease of the claim.
func broughtUp(by types.UID) edit {
	return func(in *Input) {
		name := wishOf(v1alpha1.ReservationDataVolume, string(claimUID)).Name
		lease := in.Seen.Leases[name]
		lease.Bootstrapped = by
		in.Seen.Leases[name] = lease
	}
}

// claim changes the claim that is there.
func claim(changes ...func(*corev1.PersistentVolumeClaim)) edit {
	return func(in *Input) {
		for _, change := range changes {
			onClaim(in, change)
		}
	}
}
