// Package api is the contract between the sidecar and its callers: types, server
// interface and client, generated from openapi.yaml by "make generate".
package api

// NodeUIDHeader names the SeiNode that a caller means.
const NodeUIDHeader = "X-Sei-Node-Uid"

// Bounds of the contract that its schema cannot say.
const (
	// MaxBodyBytes is the largest request body that is read.
	MaxBodyBytes = 1 << 20
	// MaxListed is how many tasks a list holds at most.
	MaxListed = 100
)
