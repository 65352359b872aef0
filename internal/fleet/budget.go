package fleet

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
)

// MaxUnavailable is how many nodes of a fleet may be updating or not ready at a time.
func MaxUnavailable(fleet *v1alpha1.SeiNodeDeployment) int {
	strategy := fleet.Spec.UpdateStrategy
	if strategy == nil || strategy.RollingUpdate == nil || strategy.RollingUpdate.MaxUnavailable == nil {
		return 1
	}
	// What cannot be read admission does not let through; it would count as 0 here.
	count, _ := intstr.GetScaledValueFromIntOrPercent(strategy.RollingUpdate.MaxUnavailable, Replicas(fleet), false)
	return max(1, count)
}

// place is what the budget has to know of a node.
type place struct {
	// state is empty for a node that is not there.
	state  v1alpha1.FleetNodeState
	behind bool
	// ready: it serves, although it is being updated: the pod was not replaced yet, or the
	// update is about to count as done.
	ready bool
	// unseen: its status is not about what it was given last.
	unseen bool
	// never: it has not served yet, so nobody can miss it.
	never bool
}

func (m member) place() place {
	ready := meta.FindStatusCondition(m.node.Status.Conditions, string(v1alpha1.ConditionReady))
	return place{
		state: m.state, behind: m.behind, unseen: !observed(m.node, ready),
		ready: plan.PodReady(m.pod) && ready != nil && ready.Status == metav1.ConditionTrue,
		never: m.node.Status.Phase != v1alpha1.PhaseRunning && !plan.PodReady(m.pod),
	}
}

// serves tells whether a node takes nothing of the budget: it is available, or it stands
// still by the decision of somebody else.
func (p place) serves() bool {
	return p.state == v1alpha1.FleetNodeAvailable || standing[p.state]
}

// standing are the states of nodes that stand still because somebody wants it.
var standing = map[v1alpha1.FleetNodeState]bool{
	v1alpha1.FleetNodeStopping: true, v1alpha1.FleetNodePaused: true, v1alpha1.FleetNodeHeld: true,
}

// inFlight tells whether a node is on its way to a template, which may be the last but one
// by now.
func (p place) inFlight() bool {
	return p.state == v1alpha1.FleetNodeUpdating || p.onItsWay()
}

// onItsWay tells whether a node is on its way to the template that is wanted. One that was
// given a template a moment ago may be; one that cannot be reached, or is broken, may stay
// so for ever, and must not keep a fix from others that are down.
func (p place) onItsWay() bool {
	switch p.state {
	case v1alpha1.FleetNodeUnknown:
		return p.unseen
	case "", v1alpha1.FleetNodeForeign, v1alpha1.FleetNodeTerminating, v1alpha1.FleetNodeBroken:
		return false
	default:
		return !p.behind && !p.serves()
	}
}

// admit decides whether a node may be updated now, given all others of its fleet; empty:
// it may, otherwise it says what it waits for. It is the one place where that is decided,
// for templates and for what the operator rolls by itself.
//
// A node that is down already is put right first and costs nothing, and so does one that
// stands still or that never served. A node that is not ready, which may pass by itself, must not be one of many
// that are restarted at the same time; nor must one that is being updated to a template
// which is no longer wanted: when a pause ends all nodes of a fleet may be, and about to be
// ready. It does not wait for others like it, because they may never get there. One that
// serves while it is being updated is taken as any other that serves. A node of which
// nothing is known is neither counted on nor touched. And one that is still stopping serves
// until it is stopped, and goes on if the pause ends before that, so it has to wait.
func admit(one place, others []place, limit int) string {
	switch one.state {
	case v1alpha1.FleetNodeBroken, v1alpha1.FleetNodePaused, v1alpha1.FleetNodeHeld:
		return ""
	case v1alpha1.FleetNodeUpdating, v1alpha1.FleetNodeNotReady, v1alpha1.FleetNodeAvailable, v1alpha1.FleetNodeSettling:
		switch {
		case one.never:
			return ""
		case one.state == v1alpha1.FleetNodeNotReady:
			return within(limit, count(others, place.inFlight), "being updated")
		case one.state == v1alpha1.FleetNodeUpdating && !one.ready:
			return within(limit, count(others, place.onItsWay), "being updated")
		}
		return within(limit, count(others, func(p place) bool { return !p.serves() }), "updating or not ready")
	case v1alpha1.FleetNodeStopping:
		return "it is still stopping"
	default:
		return "nothing current is known of it"
	}
}

func within(limit, others int, what string) string {
	if others < limit {
		return ""
	}
	return fmt.Sprintf("%d are %s and maxUnavailable allows %d", others, what, limit)
}

func count(places []place, counts func(place) bool) (n int) {
	for _, p := range places {
		if counts(p) {
			n++
		}
	}
	return n
}

// places are what the budget has to know of all nodes that the spec asks for, by ordinal.
func (v *View) places() []place {
	all := make([]place, Replicas(v.Fleet))
	for _, m := range v.wanted() {
		all[m.ordinal] = m.place()
	}
	return all
}

func without(all []place, ordinal int) []place {
	others := make([]place, 0, len(all))
	for i, p := range all {
		if i != ordinal {
			others = append(others, p)
		}
	}
	return others
}

// AdmitRoll decides whether a node of the fleet may be rolled now by the operator itself;
// empty: it may, otherwise it says what it waits for. Who asks knows the node's state best:
// it has just looked at its pod.
func (v *View) AdmitRoll(node string, pod *corev1.Pod) string {
	i := slices.IndexFunc(v.members, func(m member) bool { return m.node.Name == node })
	if i < 0 || v.members[i].foreign != "" {
		return "" // the budget is not about it
	}
	all, ordinal := v.places(), v.members[i].ordinal
	if ordinal >= len(all) {
		return "it is about to be deleted"
	}
	one := all[ordinal]
	switch {
	case one.state != v1alpha1.FleetNodeUnknown:
	case plan.PodReady(pod):
		one.state = v1alpha1.FleetNodeAvailable
	default:
		one.state = v1alpha1.FleetNodeNotReady
	}
	return admit(one, without(all, ordinal), MaxUnavailable(v.Fleet))
}

// MinAvailable is how many pods have to stay when machines are drained.
func (v *View) MinAvailable() int {
	stand := count(v.places(), func(p place) bool { return standing[p.state] })
	return max(0, Replicas(v.Fleet)-stand-MaxUnavailable(v.Fleet))
}
