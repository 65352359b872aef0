// Package api is the contract between the sidecar and its callers: types, server
// interface and client, generated from openapi.yaml by "make generate".
package api

// NodeUIDHeader names the SeiNode that a caller means.
const NodeUIDHeader = "X-Sei-Node-Uid"

// With access control there is a proxy between a caller and the sidecar.
const (
	// ActionHeader says what a call does: the proxy asks the API server whether the
	// caller may, as the sub-resource of the SeiNode, and the sidecar checks that the
	// call does nothing else. It is ActionRead, or the type of the task.
	ActionHeader = "X-Sei-Action"
	// ActionRead is the action of every call that only reads.
	ActionRead = "sidecar"
	// CallerHeader is where the proxy says who calls.
	CallerHeader = "X-Remote-User"
)

// Bounds of the contract that its schema cannot say.
const (
	// MaxBodyBytes is the largest request body that is read.
	MaxBodyBytes = 1 << 20
	// MaxListed is how many tasks a list holds at most.
	MaxListed = 100
)
