package api

// Reasons that the sidecar gives for refusing a call.
const (
	ReasonWrongNode        = "WrongNode"
	ReasonNodeUIDRequired  = "NodeUIDRequired"
	ReasonNotFound         = "NotFound"
	ReasonMethodNotAllowed = "MethodNotAllowed"
	ReasonInvalidRequest   = "InvalidRequest"
	ReasonInvalidID        = "InvalidID"
	ReasonInvalidWait      = "InvalidWait"
	ReasonInvalidParams    = "InvalidParams"
	ReasonUnknownTaskType  = "UnknownTaskType"
	ReasonBodyTooLarge     = "BodyTooLarge"
	ReasonIDConflict       = "IDConflict"
	ReasonStoreUnavailable = "StoreUnavailable"
	ReasonStillRunning     = "StillRunning"
	ReasonDeleting         = "Deleting"
	ReasonShuttingDown     = "ShuttingDown"
	ReasonTooManyStreams   = "TooManyStreams"
	ReasonNodeIDUnknown    = "NodeIDUnknown"
	ReasonNotApproved      = "NotApproved"
	ReasonHeld             = "Held" // also of a task that needs a node that is not held
	ReasonInternalError    = "InternalError"
	// ReasonActionMismatch and ReasonCallerUnknown are those of a sidecar behind the
	// access proxy.
	ReasonActionMismatch = "ActionMismatch"
	ReasonCallerUnknown  = "CallerUnknown"
)

// Reasons of problems that pass by themselves while a node is brought up or changed. There
// are others.
const (
	ProblemSupervisorUnreachable = "SupervisorUnreachable"
	ProblemNotAsWanted           = "SeidNotAsWanted"
	ProblemApprovalOfAnother     = "ApprovalOfAnotherNode"
)

// Reasons that the access proxy gives for refusing a call, in the same shape.
const (
	ReasonUnauthenticated    = "Unauthenticated"
	ReasonForbidden          = "Forbidden"
	ReasonActionRequired     = "ActionRequired"
	ReasonAccessUnchecked    = "AccessUnchecked"
	ReasonSidecarUnavailable = "SidecarUnavailable"
)

// Reasons for which any task may fail; every type has more of its own.
const (
	ReasonDeadlineExceeded  = "DeadlineExceeded"
	ReasonPanic             = "Panic"
	ReasonInvalidResult     = "InvalidResult"
	ReasonInvalidCheckpoint = "InvalidCheckpoint"
	// ReasonTaskFailed is that of an error which says nothing more of itself.
	ReasonTaskFailed = "TaskFailed"
)
