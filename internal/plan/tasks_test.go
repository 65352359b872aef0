package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

func accessControl(in *Input) { in.Want.ProxyConfig = corev1ac.ConfigMap("node-rbac-proxy", "sei") }

func TestTasksOfAPlan(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind v1alpha1.PlanType
		in   Input
		want []string
	}{
		"a full node from genesis": {
			kind: v1alpha1.PlanBootstrap, in: fresh(),
			want: []string{
				"ensure-data-pvc", "apply-node-config", "apply-service", "apply-statefulset", "replace-pod",
				"configure-genesis", "discover-peers", "config-apply", "config-validate", "mark-ready",
			},
		},
		"a full node from a snapshot": {
			kind: v1alpha1.PlanBootstrap, in: fresh(stateSync()),
			want: []string{
				"ensure-data-pvc", "apply-node-config", "apply-service", "apply-statefulset", "replace-pod",
				"configure-genesis", "discover-peers", "config-apply", "configure-state-sync", "config-validate", "mark-ready",
			},
		},
		"a validator with all keys behind access control": {
			kind: v1alpha1.PlanBootstrap, in: fresh(validator, accessControl),
			want: []string{
				"ensure-data-pvc", "validate-signing-key", "validate-node-key", "validate-operator-keyring", "apply-rbac-proxy-config",
				"apply-node-config", "apply-service", "apply-statefulset", "replace-pod",
				"configure-genesis", "discover-peers", "config-apply", "config-validate", "mark-ready",
			},
		},
		"on a claim that nobody was brought up on": {
			kind: v1alpha1.PlanBootstrap, in: fresh(stateSync(), hasClaim()),
			want: []string{
				"ensure-data-pvc", "apply-node-config", "apply-service", "apply-statefulset", "replace-pod",
				"configure-genesis", "discover-peers", "config-apply", "configure-state-sync", "config-validate", "mark-ready",
			},
		},
		"on the volume of an earlier node neither genesis nor state sync is done again": {
			kind: v1alpha1.PlanBootstrap, in: fresh(stateSync(), hasClaim(marked(otherUID))),
			want: []string{
				"ensure-data-pvc", "apply-node-config", "apply-service", "apply-statefulset", "replace-pod",
				"discover-peers", "config-apply", "config-validate", "mark-ready",
			},
		},
		"on an imported volume, which nobody was brought up on": {
			kind: v1alpha1.PlanBootstrap, in: importer(broughtUp("")),
			want: []string{
				"ensure-data-pvc", "apply-node-config", "apply-service", "apply-statefulset", "replace-pod",
				"configure-genesis", "discover-peers", "config-apply", "config-validate", "mark-ready",
			},
		},
		"on an imported volume, which this node was brought up on": {
			kind: v1alpha1.PlanBootstrap, in: importer(),
			want: []string{
				"ensure-data-pvc", "apply-node-config", "apply-service", "apply-statefulset", "replace-pod",
				"discover-peers", "config-apply", "config-validate", "mark-ready",
			},
		},
		"an update of a full node": {
			kind: v1alpha1.PlanNodeUpdate, in: running(),
			want: []string{"apply-node-config", "apply-statefulset", "apply-service", "replace-pod", "observe-image", "mark-ready", "observe-seid"},
		},
		"an update of a validator with all keys behind access control": {
			kind: v1alpha1.PlanNodeUpdate, in: running(validator, accessControl),
			want: []string{
				"validate-signing-key", "validate-node-key", "validate-operator-keyring", "apply-rbac-proxy-config",
				"apply-node-config", "apply-statefulset", "apply-service", "replace-pod", "observe-image", "mark-ready", "observe-seid",
			},
		},
		"another configuration replaces no pod": {
			kind: v1alpha1.PlanConfigUpdate, in: running(validator, accessControl),
			want: []string{"config-validate", "apply-node-config", "config-apply", "restart-seid"},
		},
		"a new approval changes nothing else": {
			kind: v1alpha1.PlanReapprove, in: running(validator, accessControl), want: []string{"mark-ready"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, tasksOf(test.in, test.kind)); diff != "" {
				t.Errorf("tasks (-want +got):\n%s", diff)
			}
		})
	}
}
