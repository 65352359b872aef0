package plan

import (
	"testing"

	"github.com/sei-operator/sei-operator/internal/signing"
)

func TestWhatAnAcceptanceDoes(t *testing.T) {
	t.Parallel()
	record := func(height int64, accepted *int64) edit {
		return knows(SignRecord{Height: height, Volume: claimUID, Accepted: accepted}, 0)
	}
	four := new(int64(4))
	for name, c := range map[string]struct {
		edits []edit
		want  Acceptance
	}{
		"no annotation":             {nil, AcceptanceMissing},
		"no height":                 {[]edit{acceptsSignState("four")}, AcceptanceUnreadable},
		"nothing":                   {[]edit{acceptsSignState("")}, AcceptanceUnreadable},
		"another height":            {[]edit{acceptsSignState("5")}, AcceptanceOfOther},
		"not recorded yet":          {[]edit{acceptsSignState("4")}, AcceptanceMissing},
		"another was accepted":      {[]edit{acceptsSignState("4"), record(9, new(int64(3)))}, AcceptanceMissing},
		"the sidecar is gone":       {[]edit{acceptsSignState("4"), record(9, four), hangsUp}, AcceptanceMissing},
		"recorded":                  {[]edit{acceptsSignState("4"), record(4, four)}, AcceptanceRecorded},
		"recorded of other volume":  {[]edit{acceptsSignState("4"), knows(SignRecord{Height: 4, Volume: otherUID, Accepted: four}, 0)}, AcceptanceUsed},
		"the volume was reset once": {[]edit{acceptsSignState("4"), record(9, four)}, AcceptanceUsed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := signer(append([]edit{signed(4, signing.Behind), record(9, nil)}, c.edits...)...)
			if got := SignStateAcceptance(in, 4); got != c.want {
				t.Errorf("it is %s, want %s", got, c.want)
			}
		})
	}
}
