package operator_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestANodeIsBroughtUp(t *testing.T) {
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	node := r.ready("alpha")
	if diff := cmp.Diff([]string{"configure-genesis#1", "config-apply#1", "config-validate#1", "mark-ready#1"}, r.ran("alpha")); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
	t.Logf("%+v", node.Status)
}
