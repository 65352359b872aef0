package observe

import (
	"slices"
	"testing"
)

func TestWitnessesOfTheOwnNamespaceComeFirst(t *testing.T) {
	t.Parallel()
	got := nearest([]string{"http://a.other.svc:26657", "http://b.other.svc:26657", "http://c.other.svc:26657", "http://z.sei.svc:26657"}, ".sei.svc:")
	if want := []string{"http://z.sei.svc:26657", "http://a.other.svc:26657", "http://b.other.svc:26657"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
