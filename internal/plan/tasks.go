package plan

import (
	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// The types of tasks.
const (
	TaskEnsureDataPVC           = "ensure-data-pvc"
	TaskValidateSigningKey      = "validate-signing-key"
	TaskValidateNodeKey         = "validate-node-key"
	TaskValidateOperatorKeyring = "validate-operator-keyring"
	TaskApplyRBACProxyConfig    = "apply-rbac-proxy-config"
	TaskApplyNodeConfig         = "apply-node-config"
	TaskApplyService            = "apply-service"
	TaskApplyStatefulSet        = "apply-statefulset"
	TaskReplacePod              = "replace-pod"
	TaskConfigureGenesis        = "configure-genesis"
	TaskDiscoverPeers           = "discover-peers"
	TaskConfigApply             = "config-apply"
	TaskConfigureStateSync      = "configure-state-sync"
	TaskConfigValidate          = "config-validate"
	TaskMarkReady               = "mark-ready"
	TaskObserveImage            = "observe-image"
	TaskObserveSeid             = "observe-seid"
	TaskRestartSeid             = "restart-seid"
)

var keyTasks = map[KeyKind]string{
	SigningKey:      TaskValidateSigningKey,
	NodeKey:         TaskValidateNodeKey,
	OperatorKeyring: TaskValidateOperatorKeyring,
}

// tasksOf are the tasks of a plan, in order.
func tasksOf(in Input, kind v1alpha1.PlanType) []string {
	switch kind {
	case v1alpha1.PlanReapprove:
		return []string{TaskMarkReady}
	case v1alpha1.PlanConfigUpdate:
		// What seid would refuse is found while the old configuration still runs.
		return []string{TaskConfigValidate, TaskApplyNodeConfig, TaskConfigApply, TaskRestartSeid}
	case v1alpha1.PlanNodeUpdate:
		return append(preparations(in), TaskApplyNodeConfig, TaskApplyStatefulSet, TaskApplyService, TaskReplacePod, TaskObserveImage, TaskMarkReady, TaskObserveSeid)
	default:
		return bootstrapTasks(in)
	}
}

// preparations are what every plan does that leads to a new pod.
func preparations(in Input) []string {
	var tasks []string
	for _, key := range KeysOf(&in.Node.Spec) {
		tasks = append(tasks, keyTasks[key])
	}
	if in.Want.ProxyConfig != nil {
		tasks = append(tasks, TaskApplyRBACProxyConfig)
	}
	return tasks
}

func bootstrapTasks(in Input) []string {
	tasks := append([]string{TaskEnsureDataPVC}, preparations(in)...)
	tasks = append(tasks, TaskApplyNodeConfig, TaskApplyService, TaskApplyStatefulSet, TaskReplacePod)
	// A volume on which an earlier SeiNode of this name was brought up has its genesis
	// file and its data. Nothing of that is done again.
	fresh := !retained(in)
	if fresh {
		tasks = append(tasks, TaskConfigureGenesis)
	}
	tasks = append(tasks, TaskDiscoverPeers, TaskConfigApply)
	if fresh && in.Node.Spec.Snapshot() != nil {
		tasks = append(tasks, TaskConfigureStateSync)
	}
	return append(tasks, TaskConfigValidate, TaskMarkReady)
}

// retained tells whether an earlier SeiNode was brought up on the volume.
func retained(in Input) bool {
	return bootstrappedBy(in) != ""
}
