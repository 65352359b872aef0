package seinode

import (
	"context"
	"time"

	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// budgetInterval is when a node that waits looks again, should nobody wake it.
const budgetInterval = time.Minute

// decide decides about plans. An update that has to fit the budget is admitted or
// waits. What it returns is to be called when the decision is written down.
func (r *Reconciler) decide(ctx context.Context, s *scope.Scope) (written func(), err error) {
	s.Decision = plan.Decide(s.Input)
	if s.Decision.Step != plan.Start || s.Decision.Slot == nil {
		return func() {}, nil
	}
	r.Budget.Lock()
	gate, err := r.Budget.AdmitRoll(ctx, s.Input, s.Decision.Slot, s.Decision.Message)
	if err != nil {
		r.Budget.Unlock()
		return nil, err
	}
	if gate != nil {
		waiting := plan.Decision{
			Step: plan.Waiting, Reason: gate.Reason, Message: gate.Message, After: budgetInterval, Superseded: s.Decision.Superseded,
		}
		s.Decision = plan.Meanwhile(s.Input, waiting)
	}
	return r.Budget.Unlock, nil
}
