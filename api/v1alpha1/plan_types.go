package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Plan is a piece of work on a node: an ordered list of tasks, written down
// before anything that it causes happens.
type Plan struct {
	// id of the plan. The ids of its tasks are derived from it.
	// +required
	// +kubebuilder:validation:MaxLength=36
	ID string `json:"id"`

	// type says what the plan is for.
	// +required
	Type PlanType `json:"type"`

	// reason is the machine-readable reason for the plan.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message says for people why the plan was made.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// progress is the type with the number of tasks done and the number of all,
	// for example "Bootstrap 3/12".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Progress string `json:"progress,omitempty"`

	// generation is the generation of the spec that the plan was made for.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// templateHash identifies the pod template that the plan leads to.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TemplateHash string `json:"templateHash,omitempty"`

	// configHash identifies the configuration that the plan leads to.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ConfigHash string `json:"configHash,omitempty"`

	// startTime is when the plan was made.
	// +required
	StartTime metav1.Time `json:"startTime"`

	// tasks are done one after the other, in this order.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=24
	Tasks []PlanTask `json:"tasks"`
}

// PlanType says what a plan is for.
//
// +kubebuilder:validation:Enum=Bootstrap;NodeUpdate;ConfigUpdate;Reapprove
type PlanType string

// The types of plans.
const (
	// PlanBootstrap brings a node up for the first time.
	PlanBootstrap PlanType = "Bootstrap"
	// PlanNodeUpdate replaces the pod because its template changed.
	PlanNodeUpdate PlanType = "NodeUpdate"
	// PlanConfigUpdate changes the configuration in the running pod.
	PlanConfigUpdate PlanType = "ConfigUpdate"
	// PlanReapprove approves a node again whose approval is gone.
	PlanReapprove PlanType = "Reapprove"
)

// PlanTask is one step of a plan.
type PlanTask struct {
	// type says what the task does, for example apply-statefulset.
	// +required
	// +kubebuilder:validation:MaxLength=48
	Type string `json:"type"`

	// status is how far the task is.
	// +required
	Status PlanTaskStatus `json:"status"`

	// startTime is when the task first ran, or ran again after a pause. Its
	// deadline counts from here.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// retryTime is when a task that failed is tried again.
	// +optional
	RetryTime *metav1.Time `json:"retryTime,omitempty"`

	// retries is how often the task failed and was tried again.
	// +optional
	Retries int32 `json:"retries,omitempty"`

	// message says for people what the task waits for or why it failed.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// PlanTaskStatus is how far a task is.
//
// +kubebuilder:validation:Enum=Pending;Running;Complete;Failed
type PlanTaskStatus string

// The states of a task.
const (
	PlanTaskPending  PlanTaskStatus = "Pending"
	PlanTaskRunning  PlanTaskStatus = "Running"
	PlanTaskComplete PlanTaskStatus = "Complete"
	PlanTaskFailed   PlanTaskStatus = "Failed"
)

// PlanRecord is how a plan ended.
type PlanRecord struct {
	// type of the plan.
	// +required
	Type PlanType `json:"type"`

	// outcome of the plan.
	// +required
	Outcome PlanOutcome `json:"outcome"`

	// reason is the machine-readable reason for the outcome.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message says for people how it ended.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// startTime is when the plan was made.
	// +required
	StartTime metav1.Time `json:"startTime"`

	// completionTime is when it ended.
	// +required
	CompletionTime metav1.Time `json:"completionTime"`

	// failures is how many plans of this type have failed in a row, this one
	// included. The next is the later the more there were.
	// +optional
	Failures int32 `json:"failures,omitempty"`

	// slot is the place in the update budget that the plan took. When the plan failed
	// it keeps others of the chain from the same.
	// +optional
	Slot *UpdateSlot `json:"slot,omitempty"`

	// retry is the value that the annotation sei.io/retry had when the plan ended;
	// another value makes the operator try again at once.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Retry string `json:"retry,omitempty"`
}

// PlanOutcome is how a plan ended.
//
// +kubebuilder:validation:Enum=Complete;Failed;Superseded
type PlanOutcome string

// The outcomes of a plan.
const (
	// PlanOutcomeComplete: every task was done.
	PlanOutcomeComplete PlanOutcome = "Complete"
	// PlanOutcomeFailed: a task failed for good.
	PlanOutcomeFailed PlanOutcome = "Failed"
	// PlanOutcomeSuperseded: the plan could no longer reach the spec.
	PlanOutcomeSuperseded PlanOutcome = "Superseded"
)
