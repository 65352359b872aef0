package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// TestNamesOfLeases: they must never change with the version of the operator, or two
// nodes could reserve one key under two names.
func TestNamesOfLeases(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind            v1alpha1.ReservationKind
		chain, identity string
		want            string
	}{
		"a signing key": {
			kind: v1alpha1.ReservationSigningKey, chain: "pacific-1", identity: publicKey,
			want: "sei-signingkey-848e83f41962c690dc28ab8bedad90a6ba2acf19",
		},
		"the same key of another chain": {
			kind: v1alpha1.ReservationSigningKey, chain: "atlantic-2", identity: publicKey,
			want: "sei-signingkey-b0f6de6b4441a61242603aef39cbcb704e26f066",
		},
		"a node key": {
			kind: v1alpha1.ReservationNodeKey, chain: "pacific-1", identity: nodeID,
			want: "sei-nodekey-5e3d4e721ae7f6ea76ee1698c881370c70469536",
		},
		"a volume": {
			kind: v1alpha1.ReservationDataVolume, identity: string(claimUID),
			want: "sei-datavolume-d51d4dfb9e98f9198175740ff0c4d3f79e3e31ca",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := Wish{Kind: test.kind, Identity: test.identity, Name: test.want}
			if diff := cmp.Diff(want, newWish(test.kind, test.chain, test.identity)); diff != "" {
				t.Errorf("wish (-want +got):\n%s", diff)
			}
			// The API server bounds the names in a status.
			if len(test.want) > 63 || strings.ToLower(test.want) != test.want {
				t.Errorf("no Lease can have the name %s", test.want)
			}
		})
	}
}

func TestWhatANodeWishes(t *testing.T) {
	t.Parallel()
	signing, node, volume := v1alpha1.ReservationSigningKey, v1alpha1.ReservationNodeKey, v1alpha1.ReservationDataVolume
	claim := wishOf(volume, string(claimUID))
	for name, test := range map[string]struct {
		in   Input
		want []Wish
		// also are the Leases that are looked at beyond those that are wished.
		also []Wish
	}{
		"a full node before it has a volume": {in: fresh()},
		"a full node on its own volume":      {in: running(), also: []Wish{claim}},
		"a node that imports a volume":       {in: importer(), want: []Wish{claim}},
		"a node whose import is not there":   {in: fresh(imports)},
		"a validator":                        {in: signer(), want: []Wish{wishOf(signing, publicKey), wishOf(node, nodeID)}, also: []Wish{claim}},
		"a validator with keys to come":      {in: fresh(validator)},
		"a validator with one key to come":   {in: fresh(validator, knownKeys, missing(SigningKey)), want: []Wish{wishOf(node, nodeID)}},
		"a validator with another key":       {in: signer(signs(otherPublicKey, otherAddress)), want: []Wish{wishOf(node, nodeID)}, also: []Wish{claim}},
		"a validator with an accepted key": {
			in:   signer(signs(otherPublicKey, otherAddress), acceptsKey(otherPublicKey)),
			want: []Wish{wishOf(signing, otherPublicKey), wishOf(node, nodeID)}, also: []Wish{claim},
		},
		"a validator whose keys seid made": {
			in: running(ownKeys, hasClaim(), podHas(publicKey, nodeID)), want: []Wish{wishOf(signing, publicKey)}, also: []Wish{claim},
		},
		"a seed": {in: fresh(seed, identifies(nodeID)), want: []Wish{wishOf(node, nodeID)}},
		"a validator on an imported volume": {
			in:   fresh(validator, knownKeys, imports, hasClaim()),
			want: []Wish{wishOf(signing, publicKey), wishOf(node, nodeID), claim},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, Wishes(test.in)); diff != "" {
				t.Errorf("wishes (-want +got):\n%s", diff)
			}
			var names []string
			for _, wish := range slices.Concat(test.want, test.also) {
				names = append(names, wish.Name)
			}
			if diff := cmp.Diff(names, Looked(test.in)); diff != "" {
				t.Errorf("Leases to look at (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsDoneAboutAWish(t *testing.T) {
	t.Parallel()
	signing := v1alpha1.ReservationSigningKey
	wish := wishOf(signing, publicKey)
	mine := records(signing, publicKey)
	held := func(by types.UID, recorded ...string) edit {
		return leased(signing, publicKey, Lease{Holder: by, Recorded: recorded})
	}
	abandoned := leased(signing, publicKey, Lease{Holder: otherUID, Abandoned: true})
	for name, test := range map[string]struct {
		in   Input
		want Reserving
	}{
		"nobody has it":                              {in: fresh(), want: Reserve},
		"another Lease is not this one":              {in: fresh(leasedTo(signing, otherPublicKey, otherUID)), want: Reserve},
		"this node has it":                           {in: fresh(held(nodeUID), mine), want: Reserved},
		"this node has it, which is not persisted":   {in: fresh(held(nodeUID), mine, unpersisted), want: Reserved},
		"this node made it and forgot":               {in: fresh(held(nodeUID)), want: Reserved},
		"another one has it":                         {in: fresh(held(otherUID)), want: LeaveReserved},
		"another one has it and runs by it":          {in: fresh(held(otherUID, "sei/other")), want: LeaveReserved},
		"nobody can tell whose it is":                {in: fresh(held("")), want: LeaveReserved},
		"its holder and the pod of that are gone":    {in: fresh(abandoned), want: TakeOver},
		"somebody deleted that of this node":         {in: fresh(mine), want: Reserve},
		"somebody deleted that of another":           {in: fresh(held("", "sei/other")), want: LeaveReserved},
		"somebody gave that of this node to another": {in: fresh(held(otherUID), mine), want: TakeOver},
		"somebody gave it to another, which is not persisted of this one": {
			in: fresh(held(otherUID), mine, unpersisted), want: LeaveReserved,
		},
		"somebody gave that of another to this node": {in: fresh(held(nodeUID, "sei/other")), want: LeaveReserved},
		"both run by it, and the other one has it":   {in: fresh(held(otherUID, "sei/other"), mine), want: LeaveReserved},
		"its holder is gone, and a third runs by it": {
			in: fresh(leased(signing, publicKey, Lease{Holder: otherUID, Abandoned: true, Recorded: []string{"sei/third"}})), want: LeaveReserved,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ReservationStep(test.in, wish); got != test.want {
				t.Errorf("the step is %s, want %s", got, test.want)
			}
		})
	}
}

// TestAPodWaitsForItsReservations: until they are made, and persisted.
func TestAPodWaitsForItsReservations(t *testing.T) {
	t.Parallel()
	signing, node, volume := v1alpha1.ReservationSigningKey, v1alpha1.ReservationNodeKey, v1alpha1.ReservationDataVolume
	waits := wantGate{reason: v1alpha1.ReasonWaiting, says: []string{"not reserved for it yet"}}
	imported := string(claimUID)
	for name, test := range map[string]struct {
		in   Input
		want wantGate
	}{
		"there is nothing to reserve":            {in: running()},
		"all is reserved":                        {in: signer()},
		"nothing is reserved":                    {in: fresh(validator, knownKeys), want: waits},
		"one of two is reserved":                 {in: fresh(validator, knownKeys, reserves(signing, publicKey)), want: waits},
		"the other of two is reserved":           {in: fresh(validator, knownKeys, reserves(node, nodeID)), want: waits},
		"it is reserved and not persisted":       {in: signer(unpersisted), want: waits},
		"it is persisted and not reserved":       {in: fresh(validator, knownKeys, records(signing, publicKey), records(node, nodeID)), want: waits},
		"it is persisted and to be taken back":   {in: signer(leasedTo(node, nodeID, otherUID)), want: waits},
		"an import is reserved":                  {in: importer()},
		"an import is not reserved":              {in: fresh(imports, hasClaim()), want: waits},
		"an import is reserved and not recorded": {in: fresh(imports, hasClaim(), leasedTo(volume, imported, nodeUID)), want: waits},
		"another node has the import": {
			in:   fresh(imports, hasClaim(), leasedTo(volume, imported, otherUID)),
			want: wantGate{reason: v1alpha1.ReasonVolumeInUse, stalled: true, after: lookAgain, says: []string{"claim chain-data", "SeiNode elsewhere/holder"}},
		},
		"another node has a key, and nothing else is reserved yet": {
			in:   fresh(validator, knownKeys, leasedTo(signing, publicKey, otherUID)),
			want: wantGate{reason: v1alpha1.ReasonKeyInUse, stalled: true, after: lookAgain},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.want.check(t, ReservationGate(test.in))
		})
	}
}

// TestAKeyThatWasReplacedIsLetGo: when the pod that is there runs with the new one, and
// not before.
func TestAKeyThatWasReplacedIsLetGo(t *testing.T) {
	t.Parallel()
	signing, node, volume := v1alpha1.ReservationSigningKey, v1alpha1.ReservationNodeKey, v1alpha1.ReservationDataVolume
	replaced := func(edits ...edit) Input {
		return signer(append([]edit{
			signs(otherPublicKey, otherAddress), identifies(otherNodeID), acceptsKey("public-2,id-2"),
			reserves(signing, otherPublicKey), reserves(node, otherNodeID), reserves(volume, string(claimUID)),
			approvedWith(otherPublicKey, otherNodeID),
		}, edits...)...)
	}
	approval := func(public, id string) edit {
		return sidecar(func(s *Sidecar) { s.Status.Approval.PublicKey, s.Status.Approval.NodeID = public, id })
	}
	for name, test := range map[string]struct {
		in   Input
		want []Wish
	}{
		"nothing was replaced":                                {in: signer()},
		"both were replaced":                                  {in: replaced(), want: []Wish{wishOf(signing, publicKey), wishOf(node, nodeID)}},
		"the pod is approved with the old keys":               {in: replaced(approval(publicKey, nodeID))},
		"the pod has the old keys":                            {in: replaced(podHas(publicKey, nodeID))},
		"only the signing key was put into place":             {in: replaced(approvedWith(otherPublicKey, nodeID)), want: []Wish{wishOf(signing, publicKey)}},
		"only the node key was put into place":                {in: replaced(approvedWith(publicKey, otherNodeID)), want: []Wish{wishOf(node, nodeID)}},
		"the pod is not approved":                             {in: replaced(unapproved)},
		"its sidecar does not answer":                         {in: replaced(silentSidecar)},
		"the Secrets are gone, and what is used is not known": {in: replaced(missing(SigningKey), missing(NodeKey))},
		"a key that seid made came with a new volume": {
			in:   running(ownKeys, approvedWith(otherPublicKey, nodeID), reserves(signing, publicKey), reserves(signing, otherPublicKey)),
			want: []Wish{wishOf(signing, publicKey)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []v1alpha1.Reservation
			for _, wish := range test.want {
				want = append(want, v1alpha1.Reservation{Kind: wish.Kind, Name: wish.Name})
			}
			if diff := cmp.Diff(want, Surplus(test.in)); diff != "" {
				t.Errorf("surplus (-want +got):\n%s", diff)
			}
		})
	}
}
