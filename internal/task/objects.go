package task

import (
	"context"
	"time"

	"github.com/sei-operator/sei-operator/internal/derived"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// gatePause is when a gate is looked at again that opens without our noticing.
const gatePause = 10 * time.Second

// ensureDataPVC makes the claim, or takes the one that is there.
func ensureDataPVC(ctx context.Context, s *scope.Scope, _ int) (Outcome, error) {
	gate, err := derived.Claim(ctx, s)
	if gate != nil {
		return Wait(0, "%s", gate.Message), nil
	}
	return Done(""), err
}

// validateKey looks at a key once more: since the gate let the plan pass, its Secret
// may have changed.
func validateKey(kind plan.KeyKind) func(context.Context, *scope.Scope, int) (Outcome, error) {
	return func(_ context.Context, s *scope.Scope, _ int) (Outcome, error) {
		key, looked := s.Seen.Keys[kind]
		switch {
		case !looked:
			return Wait(gatePause, "The %s was not looked at yet.", kind), nil
		case key.Problem != "":
			return Wait(gatePause, "%s", key.Message), nil
		}
		return Done(""), nil
	}
}

func applyRBACProxyConfig(ctx context.Context, s *scope.Scope, _ int) (Outcome, error) {
	return Done(""), derived.ProxyConfig(ctx, s)
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
