package v1alpha1

// ConditionType names a condition. "Off" is status False with a reason, never
// absence: once an object was reconciled, every condition of its kind is there.
type ConditionType string

// ConditionReason is the machine-readable reason of a condition, a finite set
// that people and alerts may rely on.
type ConditionReason string

// The conditions that every kind carries for tools that speak kstatus, such as
// kubectl wait, Flux and Argo CD.
const (
	// ConditionReady sums an object up: the others say why it is not True.
	ConditionReady ConditionType = "Ready"
	// ConditionReconciling is True while the operator works on the object.
	ConditionReconciling ConditionType = "Reconciling"
	// ConditionStalled is True when the operator cannot go on without a person.
	ConditionStalled ConditionType = "Stalled"
)

// Reasons that mean the same on every condition.
const (
	// ReasonNotConfigured: the spec does not ask for what the condition is about.
	ReasonNotConfigured ConditionReason = "NotConfigured"
	// ReasonProgressing: work is under way.
	ReasonProgressing ConditionReason = "Progressing"
	// ReasonSettled: the object is as the spec wants it and nothing is under way.
	ReasonSettled ConditionReason = "Settled"
	// ReasonPaused: the spec says paused.
	ReasonPaused ConditionReason = "Paused"
	// ReasonNotPaused: the spec does not say paused.
	ReasonNotPaused ConditionReason = "NotPaused"
	// ReasonTerminating: the object is being deleted.
	ReasonTerminating ConditionReason = "Terminating"
)
