package seinode

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// budget is held from counting who is updated until it is written down who comes
// next, so that two workers never both take the last place. The places themselves
// are in the statuses of nodes: they are counted again after a restart.
type budget struct{ mu sync.Mutex }

// budgetInterval is when a node that waits looks again, should nobody wake it.
const budgetInterval = time.Minute

// decide decides about plans. An update that has to fit the budget is admitted or
// waits. What it returns is to be called when the decision is written down.
func (r *Reconciler) decide(ctx context.Context, s *scope.Scope) (written func(), err error) {
	s.Decision = plan.Decide(s.Input)
	if s.Decision.Step != plan.Start || s.Decision.Slot == nil {
		return func() {}, nil
	}
	r.budget.mu.Lock()
	others, err := r.updating(ctx, s.Node)
	if err != nil {
		r.budget.mu.Unlock()
		return nil, err
	}
	if gate := plan.Admit(s.Input, s.Decision.Slot, s.Decision.Message, others, r.Platform.MaxConcurrentUpdates); gate != nil {
		waiting := plan.Decision{
			Step: plan.Waiting, Reason: gate.Reason, Message: gate.Message, After: budgetInterval, Superseded: s.Decision.Superseded,
		}
		s.Decision = plan.Meanwhile(s.Input, waiting)
	}
	return r.budget.mu.Unlock, nil
}

// updating are the other nodes of the chain that take a place in the budget.
func (r *Reconciler) updating(ctx context.Context, node *v1alpha1.SeiNode) ([]plan.Neighbour, error) {
	chain, err := r.Tools.Kube.Chain(ctx, node.Spec.ChainID)
	if err != nil {
		return nil, fmt.Errorf("counting the nodes of chain %s that are updated: %w", node.Spec.ChainID, err)
	}
	var others []plan.Neighbour
	for i := range chain {
		other := &chain[i]
		if other.UID == node.UID {
			continue
		}
		neighbour := plan.Neighbour{Name: other.Namespace + "/" + other.Name}
		if last := other.Status.LastPlan; last != nil && last.Outcome == v1alpha1.PlanOutcomeFailed {
			// Whether it still wants what it failed to become is not in its status.
			want, err := render.Node(other, r.Platform)
			neighbour.Failed = err == nil && plan.Freezes(other, want.TemplateHash, want.ConfigHash)
			neighbour.Message = last.Message
		}
		if other.Status.Slot == nil && !neighbour.Failed {
			continue
		}
		others = append(others, neighbour)
	}
	slices.SortFunc(others, func(a, b plan.Neighbour) int { return strings.Compare(a.Name, b.Name) })
	return others, nil
}
