package app

import (
	"sync"
	"time"
)

// Shown are the plans that the metrics of seid show: those that a block of this process
// came across, until nothing was heard of them for a while. So a plan is not shown between
// a start and the next block, and one that was carried out, cancelled or replaced is shown
// on, beside the one that took its place.
type Shown struct {
	// For is how long; zero is never.
	For time.Duration

	mu   sync.Mutex
	seen map[Plan]time.Time
}

func (s *Shown) note(plan Plan, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[Plan]time.Time{}
	}
	// Those of one name and info are one sample, whose value is the latest height.
	for other := range s.seen {
		if other.Name == plan.Name && other.Info == plan.Info {
			delete(s.seen, other)
		}
	}
	s.seen[plan] = now
}

// At is what is shown at this time.
func (s *Shown) At(now time.Time) []Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	var plans []Plan
	for plan, seen := range s.seen {
		if now.Sub(seen) < s.For {
			plans = append(plans, plan)
		}
	}
	return plans
}
