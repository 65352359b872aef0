package task

import (
	"context"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/derived"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

// configureGenesis puts the genesis file in place.
func configureGenesis(ctx context.Context, s *scope.Scope, index int) (Outcome, error) {
	params := tasks.ConfigureGenesis{ChainID: s.Node.Spec.ChainID}
	if source := s.Node.Spec.Genesis; source != nil && source.ConfigMap != nil {
		params.File = source.ConfigMap.Key
	} else if source != nil && source.URL != nil {
		params.URL, params.SHA256 = source.URL.URL, source.URL.SHA256
	}
	outcome, _, err := onSidecar(ctx, s, index, tasks.TypeConfigureGenesis, params)
	return outcome, err
}

// configApply has the sidecar make seid's files say what the ConfigMap says. The
// document is read from there, so that the same plan always sends the same.
func configApply(ctx context.Context, s *scope.Scope, index int) (Outcome, error) {
	document, err := derived.Document(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	outcome, _, err := onSidecar(ctx, s, index, tasks.TypeConfigApply, tasks.ConfigApply{Document: &document})
	return outcome, err
}

// configureStateSync has the sidecar find a block that all witnesses agree on.
func configureStateSync(ctx context.Context, s *scope.Scope, index int) (Outcome, error) {
	snapshot := s.Node.Spec.Snapshot()
	outcome, _, err := onSidecar(ctx, s, index, tasks.TypeConfigureStateSync, tasks.ConfigureStateSync{
		RPCServers: s.Want.Witnesses, TrustPeriod: snapshot.TrustPeriod, BackfillBlocks: snapshot.BackfillBlocks,
	})
	return outcome, err
}

// configValidate has the sidecar look for what seid would refuse, which is the dry run
// of its config-apply.
func configValidate(ctx context.Context, s *scope.Scope, index int) (Outcome, error) {
	params := tasks.ConfigApply{DryRun: true}
	if s.Node.Status.Plan.Type == v1alpha1.PlanConfigUpdate {
		params.Document = new(plan.WantedDocument(s.Input)) // before it is applied
	}
	outcome, _, err := onSidecar(ctx, s, index, tasks.TypeConfigApply, params)
	return outcome, err
}

// markReady approves the node to run, and writes on its claim that it was brought
// up. It approves the keys that are reserved for this node and no others.
func markReady(ctx context.Context, s *scope.Scope, index int) (Outcome, error) {
	if outcome, ready := sidecarThere(s); !ready {
		return outcome, nil
	}
	if gate := plan.MayApprove(s.Input); gate != nil {
		if outcome, err := reserved(ctx, s); err != nil || outcome.verdict != done {
			return outcome, err
		}
		return Wait(gate.After, "%s", gate.Message), nil
	}
	outcome, result, err := onSidecar(ctx, s, index, tasks.TypeMarkReady, tasks.MarkReady{
		PublicKey: plan.SigningIdentity(s.Input), NodeID: s.Seen.Keys[plan.NodeKey].NodeID,
	})
	if err != nil {
		return outcome, err
	}
	// A hold always wins. The node is approved as far as the plan is concerned, and
	// runs when it is released.
	if outcome.verdict != done && result.Status == api.TaskFailed && result.Reason == api.ReasonHeld {
		outcome = Done("The node is held; seid starts when it is released.")
	}
	if outcome.verdict != done {
		return outcome, nil
	}
	if err := derived.MarkBootstrapped(ctx, s); err != nil {
		return Outcome{}, err
	}
	// What is recorded at the end shall say that it is approved. If the sidecar does
	// not answer, its stream tells later.
	if view, err := s.Agents.Refresh(ctx, s.Key()); err == nil {
		s.Seen.Sidecar.Status = view.Status
	}
	return outcome, nil
}
