package operator_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/operator"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
	"github.com/sei-operator/sei-operator/test/nodes"
)

// TestASidecarFromBefore: the image of a sidecar may be pinned, and a fleet has the old
// one until it is rolled. The operator gets along with it, and can roll it.
func TestASidecarFromBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *operator.Config) { c.Platform.SidecarImage = nodes.SidecarFromBefore })
	r.sidecars.Node(r.namespace, "alpha").Fail(plan.TaskConfigValidate, 1, tasks.ReasonVolumeError, "the disk is busy", true)
	r.up()
	want := []string{"configure-genesis#1", "config-apply#1", "config-validate#1", "config-validate#2", "mark-ready#1"}
	if diff := cmp.Diff(want, r.ran("alpha")); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
	r.override("alpha", key, "77")
	r.until("alpha", "the configuration to be updated", func(n *v1alpha1.SeiNode) bool {
		return isReady(n) && n.Status.LastPlan.Type == v1alpha1.PlanConfigUpdate
	})
	r.task("peers", v1alpha1.TaskKindDiscoverPeers)
	r.ends("peers", v1alpha1.ReasonTaskComplete, "")
	r.upgrade(newSidecar)
	r.until("alpha", "the node to have the new sidecar", func(n *v1alpha1.SeiNode) bool {
		return isReady(n) && n.Status.CurrentSidecarImage == newSidecar && n.Status.Slot == nil
	})
	r.override("alpha", key, "78")
	r.until("alpha", "the configuration to be updated again", func(n *v1alpha1.SeiNode) bool {
		return isReady(n) && r.applied("alpha").Overrides[key] == "78"
	})
}
