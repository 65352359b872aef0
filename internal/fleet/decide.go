package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
)

// Action is what is done to one node.
type Action string

// The actions.
const (
	// Create makes a node that is not there.
	Create Action = "create"
	// Apply changes what the fleet declares of a node.
	Apply Action = "apply"
	// Delete deletes a node that is one too many.
	Delete Action = "delete"
)

// Act is something to be done to one node.
type Act struct {
	Action Action
	Name   string
	// Want is what is declared of the node.
	Want *nodeConfig
	// Node is the node that is there.
	Node *v1alpha1.SeiNode
	// Updates: the node gets another template.
	Updates bool
	// Without is the same act without the template, where it is about a pause as well: that
	// has to reach a node also if the template cannot.
	Without *Act
}

// Decision is what to do next about the nodes of a fleet.
type Decision struct {
	// Acts are in the order in which they are to be done.
	Acts []Act
	// Waits says for each node that has to be updated and is not why, by ordinal.
	Waits map[int]string
	// After is when to decide again because of the time alone; 0: never.
	After time.Duration
}

// NeedsBudget tells whether anything might be updated, so that it has to be decided under
// the lock of the budget.
func (v *View) NeedsBudget() bool {
	return len(v.candidates()) > 0
}

// Decide decides what to do next.
func (v *View) Decide() Decision {
	d := Decision{Waits: map[int]string{}}
	updates := v.admitted(d.Waits)
	var paused, made, changed []Act
	for ordinal := range Replicas(v.Fleet) {
		m := v.at(ordinal)
		if m == nil {
			made = append(made, v.create(ordinal))
			continue
		}
		switch act := v.change(m, updates[ordinal]); {
		case act == nil:
		case pauses(act.Want) == pauses(m.owned):
			changed = append(changed, *act)
		default:
			if act.Updates {
				act.Without = v.change(m, false)
			}
			paused = append(paused, *act)
		}
	}
	// A pause and its end come first, always.
	d.Acts = slices.Concat(paused, v.superfluous(), made, changed)
	for _, m := range v.wanted() {
		if m.settles > 0 && (d.After == 0 || m.settles < d.After) {
			d.After = m.settles
		}
	}
	return d
}

func (v *View) at(ordinal int) *member {
	for i := range v.members {
		if v.members[i].ordinal == ordinal {
			return &v.members[i]
		}
	}
	return nil
}

func pauses(config *nodeConfig) bool {
	return config.Spec != nil && config.Spec.Paused != nil && *config.Spec.Paused
}

// change is what has to be declared anew of a node that is there; nil: nothing.
func (v *View) change(m *member, update bool) *Act {
	if m.foreign != "" || m.state == v1alpha1.FleetNodeTerminating {
		return nil
	}
	// Until its turn comes a node keeps what it was given: leaving it out would make
	// server-side apply remove it.
	want := templateIn(m.owned).node(v.Fleet, m.ordinal, m.owned.Labels[v1alpha1.LabelRevision])
	if update {
		want = v.template.node(v.Fleet, m.ordinal, v.Revision)
	}
	if equality.Semantic.DeepEqual(want, m.owned) {
		return nil
	}
	return &Act{Action: Apply, Name: m.node.Name, Want: want, Node: m.node, Updates: update}
}

// superfluous are the nodes that are too many, the highest first.
func (v *View) superfluous() []Act {
	var acts []Act
	for _, m := range slices.Backward(v.members) {
		if m.ordinal >= Replicas(v.Fleet) && m.foreign == "" && m.state != v1alpha1.FleetNodeTerminating {
			acts = append(acts, Act{Action: Delete, Name: m.node.Name, Node: m.node})
		}
	}
	return acts
}

// create makes a node that is not there. While the template that is wanted is held back
// from this ordinal, it is made from the one that the fleet had before, which a sibling
// still has: a node that comes back, or is added, must not be the one that tries a version
// which was stopped.
func (v *View) create(ordinal int) Act {
	template, revision := v.template, v.Revision
	if before := v.Fleet.Status.CurrentRevision; v.heldBack(ordinal) && before != v.Revision {
		if sibling := v.intact(before); sibling != nil {
			template, revision = templateIn(sibling.owned), before
		}
	}
	return Act{Action: Create, Name: render.FleetNodeName(v.Fleet, ordinal), Want: template.node(v.Fleet, ordinal, revision)}
}

// heldBack tells whether a new node of this ordinal does not get the template that is
// wanted. Where nodes take it when they are deleted and made again, this is that moment.
func (v *View) heldBack(ordinal int) bool {
	hold := v.hold()
	return hold.reason != "" && hold.reason != v1alpha1.ReasonWaitsForDeletion || ordinal < v.partition()
}

// intact is a node that has all of a template, as it was given.
func (v *View) intact(revision string) *member {
	for i := range v.members {
		m := &v.members[i]
		if m.owned == nil || m.revision != revision {
			continue
		}
		if is, err := templateIn(m.owned).revision(); err == nil && is == revision {
			return m
		}
	}
	return nil
}

// candidates are the nodes that have to be updated and may be, the budget aside. What is
// down comes first, then the highest ordinal.
func (v *View) candidates() []*member {
	if v.hold().reason != "" {
		return nil
	}
	var found []*member
	for _, m := range v.wanted() {
		if m.behind && m.foreign == "" && m.state != v1alpha1.FleetNodeTerminating && m.ordinal >= v.partition() {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b *member) int {
		return cmp.Or(cmp.Compare(turnOf(a), turnOf(b)), cmp.Compare(b.ordinal, a.ordinal))
	})
	return found
}

// turn is who comes first.
var turn = map[v1alpha1.FleetNodeState]int{
	v1alpha1.FleetNodeNotReady: 1, v1alpha1.FleetNodeSettling: 2, v1alpha1.FleetNodeAvailable: 3,
	v1alpha1.FleetNodeStopping: 4, v1alpha1.FleetNodeUnknown: 4,
}

func turnOf(m *member) int {
	if m.state == v1alpha1.FleetNodeUpdating && m.place().ready {
		return turn[v1alpha1.FleetNodeAvailable]
	}
	return turn[m.state]
}

// admitted are the nodes that are updated now. Each counts for those that come after it.
func (v *View) admitted(waits map[int]string) map[int]bool {
	updates, all := map[int]bool{}, v.places()
	for _, m := range v.candidates() {
		if why := admit(all[m.ordinal], without(all, m.ordinal), MaxUnavailable(v.Fleet)); why != "" {
			waits[m.ordinal] = why
			continue
		}
		updates[m.ordinal] = true
		if !standing[m.state] {
			all[m.ordinal] = place{state: v1alpha1.FleetNodeUpdating}
		}
	}
	return updates
}

// hold is why a rollout stands still, and what a person reads about it.
type hold struct {
	reason  v1alpha1.ConditionReason
	message string
}

// hold is what keeps the template from every node that does not have it; empty: nothing.
func (v *View) hold() hold {
	spec := &v.Fleet.Spec
	switch failed := v.failed(); {
	case spec.UpdateStrategy != nil && spec.UpdateStrategy.Type == v1alpha1.UpdateStrategyOnDelete:
		return hold{v1alpha1.ReasonWaitsForDeletion, "The update strategy is OnDelete: a node takes the template when its SeiNode is deleted and made again."}
	case spec.RolloutPaused:
		return hold{v1alpha1.ReasonRolloutPaused, "The spec says rolloutPaused: set it to false to go on."}
	case v.pausesOnFailure() && failed != nil && v.anyBehind():
		return hold{v1alpha1.ReasonRolloutStopped, fmt.Sprintf(
			"The update of node %s failed, and the rollout stops there because of pauseOnFailure. It goes on when that node is ready, or with another template. %s", failed.node.Name, failed.failed)}
	}
	return hold{}
}

func (v *View) pausesOnFailure() bool {
	strategy := v.Fleet.Spec.UpdateStrategy
	return strategy != nil && strategy.RollingUpdate != nil && strategy.RollingUpdate.PauseOnFailure
}

// failed is the first node whose update failed; nil: none did.
func (v *View) failed() *member {
	for _, m := range slices.Backward(v.wanted()) {
		if m.failed != "" {
			return m
		}
	}
	return nil
}

// anyBehind tells whether there is a node that should get the template and does not have it.
func (v *View) anyBehind() bool {
	return slices.ContainsFunc(v.wanted(), func(m *member) bool {
		return m.behind && m.foreign == "" && m.ordinal >= v.partition()
	})
}

// partition is the lowest ordinal that gets the template.
func (v *View) partition() int {
	strategy := v.Fleet.Spec.UpdateStrategy
	if strategy == nil || strategy.RollingUpdate == nil {
		return 0
	}
	return int(strategy.RollingUpdate.Partition)
}
