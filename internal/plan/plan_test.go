package plan

import (
	"testing"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

func TestOnlyTheNodesOwnMarkCountsAsBootstrapped(t *testing.T) {
	t.Parallel()
	volume := v1alpha1.ReservationDataVolume
	for name, test := range map[string]struct {
		in   Input
		want bool
	}{
		"there is no claim":                        {in: fresh(noClaim)},
		"the claim has no mark":                    {in: fresh(hasClaim())},
		"an earlier node of this name left a mark": {in: fresh(hasClaim(marked(otherUID)))},
		"this node left its mark":                  {in: fresh(hasClaim(marked(nodeUID))), want: true},
		"the mark is empty":                        {in: fresh(hasClaim(marked("")))},
		"there is no claim to import":              {in: fresh(imports)},
		"an imported claim is marked on its Lease": {in: importer(), want: true},
		"an imported claim is not marked yet":      {in: importer(broughtUp(""))},
		"another node's mark is on the Lease":      {in: importer(broughtUp(otherUID))},
		"an imported claim has no Lease, and a mark on itself": {
			in: fresh(imports, hasClaim(marked(nodeUID))),
		},
		"a claim of its own has no mark, and its Lease has": {
			in: fresh(hasClaim(), leased(volume, string(claimUID), Lease{Bootstrapped: nodeUID})),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Bootstrapped(test.in); got != test.want {
				t.Errorf("bootstrapped is %t", got)
			}
		})
	}
}
