package task

import (
	"context"
	"errors"

	"github.com/sei-operator/sei-operator/internal/derived"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// ensureDataPVC makes the claim, or takes the one that is there.
func ensureDataPVC(ctx context.Context, s *scope.Scope, _ int) (Outcome, error) {
	gate, err := derived.Claim(ctx, s)
	if gate != nil {
		return Wait(gate.After, "%s", gate.Message), nil
	}
	return Done(""), err
}

// validateKey looks at a key once more: since the gate let the plan pass, its Secret
// may have changed. Then it reserves all that is known, and waits until that is
// persisted: from then on no other node can run with it.
func validateKey(kind plan.KeyKind) func(context.Context, *scope.Scope, int) (Outcome, error) {
	return func(ctx context.Context, s *scope.Scope, _ int) (Outcome, error) {
		if gate := plan.KeyTrouble(s.Input, kind); gate != nil {
			return Wait(gate.After, "%s", gate.Message), nil
		}
		return reserved(ctx, s)
	}
}

// reserved is done when all that is to be reserved is, and that is persisted.
func reserved(ctx context.Context, s *scope.Scope) (Outcome, error) {
	if err := derived.Reservations(ctx, s); err != nil {
		return Outcome{}, err
	}
	if gate := plan.ReservationGate(s.Input); gate != nil {
		return Wait(gate.After, "%s", gate.Message), nil
	}
	return Done(""), nil
}

// applyRBACProxyConfig is done when there is all that the proxy needs to start.
func applyRBACProxyConfig(ctx context.Context, s *scope.Scope, _ int) (Outcome, error) {
	if gate := plan.AccessTrouble(s.Input); gate != nil {
		return Wait(gate.After, "%s", gate.Message), nil
	}
	return Done(""), errors.Join(derived.ProxyConfig(ctx, s), derived.Certificate(ctx, s))
}

func applyService(ctx context.Context, s *scope.Scope, _ int) (Outcome, error) {
	return Done(""), derived.Service(ctx, s)
}

// applyStatefulSet is done when the StatefulSet is there and is what the spec wants.
func applyStatefulSet(ctx context.Context, s *scope.Scope, _ int) (Outcome, error) {
	step, err := derived.StatefulSet(ctx, s, true)
	if err != nil {
		return Outcome{}, err
	}
	switch step.Action {
	case plan.Create, plan.Adopt, plan.Assert:
		return Done(""), nil
	default:
		// Whatever it is, the next reconcile starts from what is then there.
		return Wait(0, "%s", step.Message), nil
	}
}

// applyNodeConfig makes the configuration what the spec wants, with the peers that
// are known so far.
func applyNodeConfig(ctx context.Context, s *scope.Scope, _ int) (Outcome, error) {
	resolvePeers(ctx, s)
	return Done(""), derived.NodeConfig(ctx, s)
}
