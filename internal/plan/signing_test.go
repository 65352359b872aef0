package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/signing"
)

// signed says how high the sign state is, and why seid would be guarded.
func signed(height int64, guard signing.Reason) edit {
	return sidecar(func(s *Sidecar) {
		s.Status.SignHeight, s.Status.SignGuard = &height, api.SignGuard{Decided: true, Reason: string(guard)}
	})
}

// knows puts what is known into the Lease of the signing key, written this long ago.
func knows(record SignRecord, ago time.Duration) edit {
	return leased(v1alpha1.ReservationSigningKey, publicKey, Lease{Holder: nodeUID, Signed: record, Renewed: now.Add(-ago)})
}

func seidIs(state api.SeidState) edit {
	return sidecar(func(s *Sidecar) { s.Status.Seid.State = state })
}

func hangsUp(in *Input) { in.Seen.Sidecar.Connected = false }

func acceptsSignState(height string) edit {
	return annotated(v1alpha1.AnnotationAcceptSignState, height)
}

func TestWhatAKeySignedIsRecordedNowAndThen(t *testing.T) {
	t.Parallel()
	here := func(height int64) SignRecord { return SignRecord{Height: height, Volume: claimUID} }
	with := func(height int64, accepted int64) SignRecord {
		return SignRecord{Height: height, Volume: claimUID, Accepted: &accepted}
	}
	const often, seldom = time.Minute, time.Hour
	for name, c := range map[string]struct {
		in    Input
		want  *SignRecord
		after time.Duration
	}{
		"nothing was signed":              {in: signer(signed(0, signing.Fresh)), after: recordEvery},
		"the first signature":             {in: signer(signed(5, signing.Off), knows(SignRecord{}, often)), want: new(here(5))},
		"soon after":                      {in: signer(signed(9, signing.Off), knows(here(5), often)), after: recordEvery - often},
		"later":                           {in: signer(signed(9, signing.Off), knows(here(5), seldom)), want: new(here(9))},
		"by a clock that was ahead":       {in: signer(signed(9, signing.Off), knows(here(5), -time.Hour)), want: new(here(9))},
		"later, and it signs no more":     {in: signer(signed(5, signing.Off), knows(here(5), seldom)), after: recordEvery},
		"seid ended":                      {in: signer(signed(9, signing.Off), knows(here(5), often), seidIs(api.SeidStopped)), want: new(here(9))},
		"nobody answers for seid":         {in: signer(signed(9, signing.Off), knows(here(5), often), seidIs(api.SeidUnknown)), want: new(here(9))},
		"it is being stopped":             {in: signer(signed(9, signing.Off), knows(here(5), often), seidIs(api.SeidStopping)), after: recordEvery - often},
		"gone with its pod":               {in: signer(signed(9, signing.Off), knows(here(5), often), onPod(endingPod), hangsUp), want: new(here(9))},
		"a person accepts what is gone":   {in: signer(signed(4, signing.Behind), knows(here(9), often), acceptsSignState("4"), onPod(endingPod), hangsUp), after: recordEvery},
		"the pod has another key":         {in: signer(signed(9, signing.Off), knows(here(5), seldom), sidecar(func(s *Sidecar) { s.Status.SigningPublicKey = otherPublicKey }))},
		"a sidecar without a guard":       {in: signer(signed(9, signing.Off), knows(here(5), seldom), sidecar(func(s *Sidecar) { s.Status.SignGuard = api.SignGuard{} }))},
		"the pod is on its way out":       {in: signer(signed(9, signing.Off), knows(here(5), often), onPod(endingPod)), want: new(here(9))},
		"less than is known":              {in: signer(signed(4, signing.Behind), knows(here(5), seldom)), after: recordEvery},
		"less, and a sidecar that errs":   {in: signer(signed(4, signing.Off), knows(here(5), seldom)), after: recordEvery},
		"a sign state that is doubted":    {in: signer(signed(9, signing.Doubted), knows(here(5), seldom)), after: recordEvery},
		"far behind, and its own":         {in: signer(signed(9, signing.FarBehind), knows(here(5), seldom)), want: new(here(9))},
		"on another volume":               {in: signer(signed(5, signing.Off), knows(SignRecord{Height: 5, Volume: otherUID}, often)), want: new(here(5))},
		"a Lease of another node":         {in: signer(signed(9, signing.Off), leasedTo(v1alpha1.ReservationSigningKey, publicKey, otherUID))},
		"the sidecar does not tell":       {in: signer(knows(here(5), seldom))},
		"the sidecar does not answer":     {in: signer(signed(9, signing.Off), knows(here(5), seldom), hangsUp)},
		"a person accepts it":             {in: signer(signed(4, signing.Behind), knows(here(9), often), acceptsSignState("4")), want: new(with(4, 4))},
		"a person accepts a fresh one":    {in: signer(signed(0, signing.Fresh), knows(here(9), often), acceptsSignState("0")), want: new(with(0, 0))},
		"a person accepts another":        {in: signer(signed(4, signing.Behind), knows(here(9), often), acceptsSignState("5")), after: recordEvery},
		"what a person accepted is used":  {in: signer(signed(4, signing.Behind), knows(with(9, 4), often), acceptsSignState("4")), after: recordEvery},
		"nothing is to be accepted":       {in: signer(signed(9, signing.Off), knows(here(9), often), acceptsSignState("9")), after: recordEvery},
		"no height is accepted":           {in: signer(signed(4, signing.Behind), knows(here(9), often), acceptsSignState("all")), after: recordEvery},
		"the annotation is gone":          {in: signer(signed(9, signing.Off), knows(with(9, 4), often)), want: new(here(9))},
		"it signs on after it was accept": {in: signer(signed(9, signing.Off), knows(with(4, 4), seldom), acceptsSignState("4")), want: new(with(9, 4))},
		"the first after it was accepted": {in: signer(signed(5, signing.Off), knows(with(4, 4), often), acceptsSignState("4")), want: new(with(5, 4))},
		"the next soon after that":        {in: signer(signed(6, signing.Off), knows(with(5, 4), often), acceptsSignState("4")), after: recordEvery - often},
		"it was accepted a moment ago":    {in: signer(signed(4, signing.Behind), knows(with(4, 4), often), acceptsSignState("4")), after: acceptedEvery},
		"it was accepted, and starts":     {in: signer(signed(4, signing.Off), knows(with(4, 4), often), acceptsSignState("4")), after: acceptedEvery},
		"accepted of another volume":      {in: signer(signed(4, signing.Doubted), knows(SignRecord{Height: 4, Volume: otherUID, Accepted: new(int64(4))}, often), acceptsSignState("4")), after: recordEvery},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := RecordSigned(c.in)
			if (got.Lease != "") != (c.want != nil) || c.want != nil && cmp.Diff(got.Record, *c.want) != "" || c.want == nil && got.After != c.after {
				t.Errorf("got %+v, want %+v, after %s", got, c.want, c.after)
			}
		})
	}
}

// Nothing wakes the operator when seid signs. As long as the acceptance is not used up, a
// volume that is put back again would be accepted again.
func TestAnAcceptanceIsLookedAtAgainSoon(t *testing.T) {
	t.Parallel()
	got := RecordSigned(signer(signed(4, signing.Behind), knows(SignRecord{Height: 9, Volume: claimUID}, time.Minute), acceptsSignState("4")))
	if got.Lease == "" || got.After != acceptedEvery {
		t.Errorf("%+v", got)
	}
}

// A Lease can be deleted by force, restored or edited. What the pod was told outlives that,
// but not its node, so it goes back into the Lease.
func TestARecordThatIsLostComesBack(t *testing.T) {
	t.Parallel()
	told := tells(signing.Known{PublicKey: publicKey, Height: 9})
	record := func(height int64, accepted *int64) edit {
		return knows(SignRecord{Height: height, Volume: claimUID, Accepted: accepted}, time.Minute)
	}
	for name, c := range map[string]struct {
		in   Input
		want SignRecord
	}{
		"lost, and the volume was put back": {signer(signed(4, signing.Behind), knows(SignRecord{}, 0), told), SignRecord{Height: 9}},
		"lost, and there is no pod":         {signer(knows(SignRecord{}, 0), told, noPod), SignRecord{Height: 9}},
		"an older one":                      {signer(record(5, nil), told, noPod), SignRecord{Height: 9, Volume: claimUID}},
		"an older one that says more":       {signer(record(5, new(int64(4))), told, noPod), SignRecord{Height: 9, Volume: claimUID, Accepted: new(int64(4))}},
		"a person accepted less":            {signer(record(4, new(int64(4))), told, noPod), SignRecord{}},
		"nothing is lost":                   {signer(record(9, nil), told, noPod), SignRecord{}},
		"the Lease is another node's":       {signer(leasedTo(v1alpha1.ReservationSigningKey, publicKey, otherUID), told, noPod), SignRecord{}},
		"nothing was told":                  {signer(knows(SignRecord{}, 0), noPod), SignRecord{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := RecordSigned(c.in)
			if diff := cmp.Diff(c.want, got.Record); diff != "" || (got.Lease != "") != (c.want.Height != 0) {
				t.Errorf("%+v (-want +got):\n%s", got, diff)
			}
		})
	}
}

func tells(known signing.Known) edit {
	return func(in *Input) { in.Seen.NodeConfig.Data[signing.File] = known.Text() }
}

// otherKey says that there is another key in the Secret.
func otherKey(in *Input) { key(SigningKey, Key{PublicKey: otherPublicKey})(in) }

// A key that was made on a volume is nobody's when that volume is deleted.
func TestWhatIsForgottenWithAVolume(t *testing.T) {
	t.Parallel()
	own := func(in *Input) { in.Node.Spec.Validator.SigningKey = nil }
	deletes := func(in *Input) {
		in.Node.Spec.DataVolume = &v1alpha1.DataVolumeSpec{DeletionPolicy: v1alpha1.DeletionPolicyDelete}
	}
	tracked := func(in *Input) { in.Node.Status.DataVolume = &v1alpha1.ObjectIdentity{UID: claimUID} }
	imports := func(in *Input) { in.Node.Spec.DataVolume.Import = &v1alpha1.VolumeImport{} }
	here := SignRecord{Height: 5, Volume: claimUID}
	for name, c := range map[string]struct {
		in     Input
		record SignRecord
		want   bool
	}{
		"its own key, on its volume":   {signer(own, deletes, tracked), here, true},
		"a key from a Secret":          {signer(deletes, tracked), here, false},
		"the volume stays":             {signer(own, tracked), here, false},
		"an imported volume stays":     {signer(own, deletes, imports, tracked), here, false},
		"it signed on another volume":  {signer(own, deletes, tracked), SignRecord{Height: 5, Volume: otherUID}, false},
		"nobody knows which volume":    {signer(own, deletes, func(in *Input) { in.Node.Status.DataVolume = nil }), here, false},
		"no policy, and so it is kept": {signer(own, tracked, func(in *Input) { in.Node.Spec.DataVolume = nil }), here, false},
		"it does not sign":             {running(), SignRecord{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ForgetsSigned(c.in, c.record); got != c.want {
				t.Errorf("forgotten: %t", got)
			}
		})
	}
}

func TestAPodIsToldWhatIsKnownOfItsKey(t *testing.T) {
	t.Parallel()
	at := func(tip int64) edit {
		return func(in *Input) { in.Seen.Tip, in.Seen.Witnesses = tip, []string{"http://full.sei.svc:26657"} }
	}
	named := func(servers ...string) edit { return func(in *Input) { in.Want.RPCServers = servers } }
	signer := func(edits ...edit) Input { return signer(append([]edit{named()}, edits...)...) }
	base := signing.Known{PublicKey: publicKey, Height: 5, Vouched: true}
	for name, c := range map[string]struct {
		in   Input
		want signing.Known
	}{
		"for the first time": {signer(knows(SignRecord{Height: 5, Volume: claimUID}, 0), at(7)), signing.Known{PublicKey: publicKey, Height: 5, Vouched: true, Tip: 7, Witnesses: []string{"http://full.sei.svc:26657"}}},
		"people named others of the chain": {signer(at(7), named("https://rpc.example.com:443")), signing.Known{
			PublicKey: publicKey, Tip: 7, Witnesses: []string{"http://full.sei.svc:26657", "https://rpc.example.com:443"},
		}},
		"on another volume":                     {signer(knows(SignRecord{Height: 5, Volume: otherUID}, 0)), signing.Known{PublicKey: publicKey, Height: 5}},
		"nothing":                               {signer(), signing.Known{PublicKey: publicKey}},
		"the tip moved":                         {signer(knows(SignRecord{Height: 5, Volume: claimUID}, 0), tells(base), at(70)), base},
		"the tip moved, no pod":                 {signer(knows(SignRecord{Height: 5, Volume: claimUID}, 0), tells(base), at(700), noPod), signing.Known{PublicKey: publicKey, Height: 5, Vouched: true, Tip: 700, Witnesses: []string{"http://full.sei.svc:26657"}}},
		"a few blocks, no pod":                  {signer(knows(SignRecord{Height: 5, Volume: claimUID}, 0), tells(base), at(signing.Window), noPod), base},
		"the tip moved, paused":                 {signer(knows(SignRecord{Height: 5, Volume: claimUID}, 0), tells(base), at(70), noPod, paused), base},
		"a node of ours is gone":                {signer(knows(SignRecord{Height: 6, Volume: claimUID}, 0), tells(signing.Known{PublicKey: publicKey, Height: 5, Tip: 70})), signing.Known{PublicKey: publicKey, Height: 6, Vouched: true, Tip: 70}},
		"it signed":                             {signer(knows(SignRecord{Height: 6, Volume: claimUID}, 0), tells(base)), signing.Known{PublicKey: publicKey, Height: 6, Vouched: true}},
		"of another key before":                 {signer(knows(SignRecord{Height: 6, Volume: claimUID}, 0), tells(signing.Known{PublicKey: "other", Tip: 900})), signing.Known{PublicKey: publicKey, Height: 6, Vouched: true}},
		"accepted once, and nobody says so now": {signer(knows(SignRecord{Height: 4, Volume: claimUID, Accepted: new(int64(4))}, 0), tells(base)), signing.Known{PublicKey: publicKey, Height: 4, Vouched: true}},
		"accepted of another volume":            {signer(knows(SignRecord{Height: 4, Volume: "another", Accepted: new(int64(4))}, 0), acceptsSignState("4"), tells(base)), signing.Known{PublicKey: publicKey, Height: 4}},
		"accepted":                              {signer(knows(SignRecord{Height: 4, Volume: claimUID, Accepted: new(int64(4))}, 0), acceptsSignState("4"), tells(base)), signing.Known{PublicKey: publicKey, Height: 4, Vouched: true, Accepted: new(int64(4))}},
		"accepted long ago":                     {signer(knows(SignRecord{Height: 6, Volume: claimUID, Accepted: new(int64(4))}, 0), tells(base)), signing.Known{PublicKey: publicKey, Height: 6, Vouched: true}},
		"another Secret, which nobody accepted": {signer(knows(SignRecord{Height: 6, Volume: claimUID}, 0), tells(base), otherKey), signing.Known{PublicKey: publicKey, Height: 6, Vouched: true}},
		"another one, accepted, and the pod":    {signer(knows(SignRecord{Height: 6, Volume: claimUID}, 0), tells(base), otherKey, acceptsKey(otherPublicKey)), signing.Known{PublicKey: publicKey, Height: 6, Vouched: true}},
		"accepted, and the pod goes":            {signer(knows(SignRecord{Height: 6, Volume: claimUID}, 0), tells(base), otherKey, acceptsKey(otherPublicKey), onPod(endingPod)), signing.Known{PublicKey: otherPublicKey}},
		"accepted, and the pod is approved":     {signer(knows(SignRecord{Height: 6, Volume: claimUID}, 0), tells(base), otherKey, acceptsKey(otherPublicKey), approvedWith(otherPublicKey, nodeID)), signing.Known{PublicKey: otherPublicKey}},
		"not accepted, and the Lease is gone":   {signer(tells(base), otherKey, func(in *Input) { in.Seen.Leases = nil }), base},
		"its own key, before it is scaled up":   {signer(ownKeys, knows(SignRecord{Height: 6, Volume: claimUID}, 0), tells(base), at(700), noPod, named()), signing.Known{PublicKey: publicKey, Height: 6, Vouched: true, Tip: 700, Witnesses: []string{"http://full.sei.svc:26657"}}},
		"its own key, which another node has":   {signer(ownKeys, leasedTo(v1alpha1.ReservationSigningKey, publicKey, otherUID), tells(base), at(700), noPod), base},
		"its own key, and the Lease is gone":    {signer(ownKeys, tells(base), at(700), noPod, func(in *Input) { in.Seen.Leases = nil }), base},
		"its own key, and the pod has none yet": {signer(ownKeys, knows(SignRecord{Height: 6, Volume: claimUID}, 0), tells(base), at(700), podHas("", nodeID)), base},
		"the record is lost":                    {signer(knows(SignRecord{}, 0), tells(base)), signing.Known{PublicKey: publicKey, Height: 5}},
		"an older record came back":             {signer(knows(SignRecord{Height: 3, Volume: claimUID, Accepted: new(int64(2))}, 0), tells(base)), base},
		"the Secret is gone":                    {signer(tells(base), key(SigningKey, Key{Problem: v1alpha1.ReasonSecretNotFound})), base},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := signing.Parse([]byte(SigningEntry(c.in)))
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	if got := SigningEntry(running()); got != "" {
		t.Errorf("a node that does not sign is told %s", got)
	}
	if got := SigningEntry(fresh()); got != "" {
		t.Errorf("a node without a ConfigMap is told %s", got)
	}
}

func TestARecordThatCannotBeRead(t *testing.T) {
	t.Parallel()
	unreadable := Lease{Holder: nodeUID, Unreadable: true}
	in := signer(leased(v1alpha1.ReservationSigningKey, publicKey, unreadable))
	if got, want := UnreadableRecord(in), wishOf(v1alpha1.ReservationSigningKey, publicKey).Name; got != want {
		t.Errorf("it is in %q, want %q", got, want)
	}
	if got := UnreadableRecord(signer()); got != "" {
		t.Errorf("%q has nothing to read", got)
	}
}
