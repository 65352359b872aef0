package task

import (
	"context"

	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// observeSeid waits until it is known whether the seid of the new pod works. What keeps
// it from that is told in the condition Ready, and an edit of the spec ends the wait.
func observeSeid(_ context.Context, s *scope.Scope, _ int) (Outcome, error) {
	proof := plan.Proven(s.Input)
	switch {
	case proof.Refused != "":
		return Terminal(string(proof.Refused), proof.Message), nil
	case !proof.Known:
		return Wait(0, "%s", proof.Message), nil
	}
	return Done(proof.Message), nil
}
