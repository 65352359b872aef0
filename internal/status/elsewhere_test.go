package status

import (
	"strings"
	"testing"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/signing"
)

// The message is cut where it is too long, and then a person lacks the number that decides.
func TestWhoSignsElsewhereIsToldWithAllNumbers(t *testing.T) {
	t.Parallel()
	const height = 178123456 // as high as a chain gets in years
	for _, limits := range []signing.Limits{{Known: height + 1}, {Doubted: height}, {Tip: height + 1000}} {
		in := running(validator, key(plan.SigningKey, plan.Key{}), guarded, refusedToSign, notReadyPod)
		status := &in.Seen.Sidecar.Status
		status.SignHeight = new(int64(height))
		status.SignGuard = api.SignGuard{Reason: string(limits.Guard(height)), Message: limits.Explain(height)}
		Set(in)
		for _, kind := range []v1alpha1.ConditionType{v1alpha1.ConditionReady, v1alpha1.ConditionSigningKeyReady} {
			got := find(t, in, kind).Message
			for _, part := range []string{"signed some of the last blocks", limits.Explain(height), "Stop the other signer", "sei.io/accept-sign-state=178123456"} {
				if !strings.Contains(got, part) {
					t.Errorf("%s does not say %q: %s", kind, part, got)
				}
			}
		}
	}
}
