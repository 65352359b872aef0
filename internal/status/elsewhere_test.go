package status

import (
	"strings"
	"testing"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/signing"
)

// A way out that does nothing keeps a person busy while the validator is down.
func TestAnAcceptanceThatDoesNothingIsNamed(t *testing.T) {
	t.Parallel()
	const height = 178123456
	limits := signing.Limits{Doubted: height}
	record := func(signed, accepted int64) plan.SignRecord {
		return plan.SignRecord{Height: signed, Volume: "claim-uid", Accepted: &accepted}
	}
	for name, c := range map[string]struct {
		annotation string
		record     plan.SignRecord
		want       string
	}{
		"nobody accepts":    {"", plan.SignRecord{}, "If there is none and the chain stands still, set sei.io/accept-sign-state=178123456."},
		"not recorded yet":  {"178123456", plan.SignRecord{}, "If there is none and the chain stands still, set sei.io/accept-sign-state=178123456."},
		"it was used":       {"178123456", record(height+9, height), "If there is none, remove sei.io/accept-sign-state=178123456 and set it again: it counted once already."},
		"it is not read":    {"178123456", record(height, height), "sei.io/accept-sign-state=178123456 is recorded: seid is started with it as soon as the pod sees it."},
		"another height":    {"178123455", plan.SignRecord{}, "If there is none, set sei.io/accept-sign-state=178123456: the value that it has is another height."},
		"no height":         {"all", plan.SignRecord{}, "If there is none, set sei.io/accept-sign-state=178123456: the value that it has is not a height."},
		"less than nothing": {"-1", plan.SignRecord{}, "If there is none, set sei.io/accept-sign-state=178123456: the value that it has is not a height."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := running(validator, key(plan.SigningKey, plan.Key{PublicKey: "public"}), guarded, refusedToSign, notReadyPod)
			status := &in.Seen.Sidecar.Status
			status.SignHeight, status.SigningPublicKey, status.Approval.PublicKey = new(int64(height)), "public", "public"
			status.SignGuard = api.SignGuard{Decided: true, Reason: string(limits.Guard(height)), Message: limits.Explain(height)}
			in.Node.Annotations = map[string]string{}
			if c.annotation != "" {
				in.Node.Annotations[v1alpha1.AnnotationAcceptSignState] = c.annotation
			}
			in.Seen.Leases = map[string]plan.Lease{plan.Wishes(in.Input)[0].Name: {Holder: "node-uid", Signed: c.record}}
			Set(in)
			for _, kind := range []v1alpha1.ConditionType{v1alpha1.ConditionReady, v1alpha1.ConditionSigningKeyReady} {
				got := find(t, in, kind).Message
				if !strings.HasSuffix(got, c.want) || !strings.Contains(got, limits.Explain(height)) {
					t.Errorf("%s does not end with %q: %s", kind, c.want, got)
				}
			}
		})
	}
}

// A record that cannot be read counts for nothing, and a person may still have it.
func TestARecordThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	for _, unreadable := range []bool{false, true} {
		in := running(validator, key(plan.SigningKey, plan.Key{PublicKey: "public"}))
		name := plan.Wishes(in.Input)[0].Name
		in.Seen.Leases = map[string]plan.Lease{name: {Holder: "node-uid", Unreadable: unreadable}}
		Set(in)
		got := find(t, in, v1alpha1.ConditionSigningKeyReady).Message
		if says := strings.Contains(got, name) && strings.Contains(got, "cannot be read"); says != unreadable || strings.HasSuffix(got, "...") {
			t.Errorf("unreadable: %t, and it says %s", unreadable, got)
		}
	}
}

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
