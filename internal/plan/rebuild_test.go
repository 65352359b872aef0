package plan

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// emptied is what a restore from a backup may leave of a status.
func emptied(in *Input) { in.Node.Status = v1alpha1.SeiNodeStatus{} }

func TestRebuild(t *testing.T) {
	t.Parallel()
	many := make([]string, 70)
	for i := range many {
		many[i] = fmt.Sprintf("id@peer-%d:26656", i)
	}
	base := func(in Input) v1alpha1.SeiNodeStatus {
		return v1alpha1.SeiNodeStatus{
			Phase: v1alpha1.PhaseRunning, AdmittedSpecHash: in.Want.SpecHash,
			DataVolume: &v1alpha1.ObjectIdentity{Name: "data-node", UID: claimUID},
		}
	}
	for name, test := range map[string]struct {
		in Input
		// rest is what is rebuilt beyond phase, volume and spec; nil: nothing at all is.
		rest func(*v1alpha1.SeiNodeStatus)
	}{
		"a status that is there stays":           {in: running()},
		"a node that was never brought up":       {in: fresh(hasClaim())},
		"a node whose claim is gone":             {in: running(emptied, noClaim)},
		"a claim that an earlier node left":      {in: running(emptied, hasClaim(marked(otherUID)))},
		"a node that was brought up":             {in: running(emptied), rest: func(s *v1alpha1.SeiNodeStatus) { s.ConfigSerial = 1 }},
		"a node without its configuration":       {in: running(emptied, noDocument), rest: func(*v1alpha1.SeiNodeStatus) {}},
		"a node with an unreadable document":     {in: running(emptied, garbage), rest: func(*v1alpha1.SeiNodeStatus) {}},
		"a paused node keeps what it remembered": {in: running(paused, phase(v1alpha1.PhaseFailed))},
		"a validator keeps its keys": {
			in: signer(emptied, leasedTo(v1alpha1.ReservationDataVolume, string(claimUID), otherUID)),
			rest: func(s *v1alpha1.SeiNodeStatus) {
				s.ConfigSerial = 1
				for _, wish := range []Wish{wishOf(v1alpha1.ReservationNodeKey, nodeID), wishOf(v1alpha1.ReservationSigningKey, publicKey)} {
					s.Reservations = append(s.Reservations, v1alpha1.Reservation{Kind: wish.Kind, Name: wish.Name})
				}
			},
		},
		"an importer keeps its claim": {
			in: importer(emptied),
			rest: func(s *v1alpha1.SeiNodeStatus) {
				s.ConfigSerial, s.DataVolume.Name = 1, "chain-data"
				s.Reservations = []v1alpha1.Reservation{{Kind: v1alpha1.ReservationDataVolume, Name: wishOf(v1alpha1.ReservationDataVolume, string(claimUID)).Name}}
			},
		},
		"an importer that was never brought up": {in: importer(emptied, broughtUp(""))},
		"a node with one peer": {
			in: running(emptied, hasDocument(7, "id@a:26656")),
			rest: func(s *v1alpha1.SeiNodeStatus) {
				s.ConfigSerial = 7
				s.ResolvedPeers = &v1alpha1.ResolvedPeers{Count: 1, Addresses: []string{"id@a:26656"}}
			},
		},
		"a node with peers": {
			in: running(emptied, hasDocument(7, "id@a:26656", "id@b:26656")),
			rest: func(s *v1alpha1.SeiNodeStatus) {
				s.ConfigSerial = 7
				s.ResolvedPeers = &v1alpha1.ResolvedPeers{Count: 2, Addresses: []string{"id@a:26656", "id@b:26656"}}
			},
		},
		"a node with more peers than a status holds": {
			in: running(emptied, hasDocument(7, many...)),
			rest: func(s *v1alpha1.SeiNodeStatus) {
				s.ConfigSerial = 7
				s.ResolvedPeers = &v1alpha1.ResolvedPeers{Count: 70, Addresses: many[:64]}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := *test.in.Node.Status.DeepCopy()
			if test.rest != nil {
				want = base(test.in)
				if test.rest(&want); want.ConfigSerial > 0 {
					want.ConfigHash, want.AppliedConfigHash = test.in.Want.ConfigHash, test.in.Want.ConfigHash
				}
			}
			if changed := Rebuild(test.in); changed != (test.rest != nil) {
				t.Errorf("it reports %t", changed)
			}
			if diff := cmp.Diff(want, test.in.Node.Status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// garbage makes the document unreadable.
func garbage(in *Input) { in.Seen.NodeConfig.Data["config.json"] = "{" }

// TestAfterARebuildNothingIsDoneAgain: a status that was emptied leads to no plan.
func TestAfterARebuildNothingIsDoneAgain(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]Input{
		"a full node": running(emptied), "a validator": signer(emptied), "an importer": importer(emptied),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Rebuild(in)
			if got := Decide(in); got.Step != Idle {
				t.Errorf("it decides %+v", got)
			}
			if got := StatefulSet(in); got.Action != Adopt {
				t.Errorf("it decides %+v about the StatefulSet", got)
			}
			if replicas, gate := Replicas(in); replicas != 1 {
				t.Errorf("it is stopped: %+v", gate)
			}
		})
	}
}
