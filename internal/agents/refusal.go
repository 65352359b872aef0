package agents

import "github.com/sei-operator/sei-operator/internal/sidecar/client"

// Refusal is an answer of a sidecar that says no.
type Refusal = client.Error

// NotFound tells whether a sidecar said that there is no such task.
func NotFound(err error) bool { return client.NotFound(err) }
