package fleet

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

func TestMaxUnavailable(t *testing.T) {
	for _, c := range []struct {
		value    string
		replicas int32
		want     int
	}{
		{"1", 10, 1}, {"3", 10, 3}, {"3", 1, 3}, {"50%", 10, 5}, {"50%", 3, 1}, {"50%", 1, 1}, {"1%", 100, 1}, {"100%", 7, 7}, {"10%", 0, 1},
	} {
		fleet := &v1alpha1.SeiNodeDeployment{}
		fleet.Spec.Replicas = &c.replicas
		fleet.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailable: new(intstr.Parse(c.value))}}
		if got := MaxUnavailable(fleet); got != c.want {
			t.Errorf("%s of %d is %d and should be %d", c.value, c.replicas, got, c.want)
		}
	}
	if got := MaxUnavailable(&v1alpha1.SeiNodeDeployment{}); got != 1 {
		t.Errorf("without a strategy it is %d", got)
	}
}

var states = []v1alpha1.FleetNodeState{
	"", v1alpha1.FleetNodeAvailable, v1alpha1.FleetNodeSettling, v1alpha1.FleetNodeUpdating, v1alpha1.FleetNodeNotReady, v1alpha1.FleetNodeBroken,
	v1alpha1.FleetNodeStopping, v1alpha1.FleetNodePaused, v1alpha1.FleetNodeHeld, v1alpha1.FleetNodeUnknown, v1alpha1.FleetNodeTerminating, v1alpha1.FleetNodeForeign,
}

func drawPlace(t *rapid.T) place {
	return place{
		state: rapid.SampledFrom(states).Draw(t, "state"), behind: rapid.Bool().Draw(t, "behind"),
		ready: rapid.Bool().Draw(t, "ready"), unseen: rapid.Bool().Draw(t, "unseen"),
	}
}

func TestAdmission(t *testing.T) {
	at := func(state v1alpha1.FleetNodeState) place { return place{state: state, behind: true} }
	updated := func(state v1alpha1.FleetNodeState) place { return place{state: state} }
	for _, c := range []struct {
		name   string
		one    place
		others []place
		limit  int
		may    bool
	}{
		{"a healthy node, all others serve", at(v1alpha1.FleetNodeAvailable), []place{at(v1alpha1.FleetNodeAvailable)}, 1, true},
		{"a healthy node, one is being updated", at(v1alpha1.FleetNodeAvailable), []place{updated(v1alpha1.FleetNodeUpdating)}, 1, false},
		{"a healthy node, one is missing", at(v1alpha1.FleetNodeAvailable), []place{{}}, 1, false},
		{"a healthy node, of one nothing is known", at(v1alpha1.FleetNodeAvailable), []place{at(v1alpha1.FleetNodeUnknown)}, 1, false},
		{"a healthy node, one is broken", at(v1alpha1.FleetNodeAvailable), []place{at(v1alpha1.FleetNodeBroken)}, 1, false},
		{"a healthy node, one is ready but not for long", at(v1alpha1.FleetNodeAvailable), []place{updated(v1alpha1.FleetNodeSettling)}, 1, false},
		{"a healthy node, others stand still", at(v1alpha1.FleetNodeAvailable), []place{at(v1alpha1.FleetNodePaused), at(v1alpha1.FleetNodeHeld)}, 1, true},
		{"a healthy node, one of two places is free", at(v1alpha1.FleetNodeAvailable), []place{updated(v1alpha1.FleetNodeUpdating)}, 2, true},
		{"a broken node, all are broken", at(v1alpha1.FleetNodeBroken), []place{updated(v1alpha1.FleetNodeBroken), at(v1alpha1.FleetNodeBroken)}, 1, true},
		{"a node that lags, all lag", at(v1alpha1.FleetNodeNotReady), []place{at(v1alpha1.FleetNodeNotReady), at(v1alpha1.FleetNodeNotReady)}, 1, true},
		{"a node that lags, one that lags is being updated", at(v1alpha1.FleetNodeNotReady), []place{updated(v1alpha1.FleetNodeNotReady)}, 1, false},
		{"a node that lags, one was given the last but one template a moment ago", at(v1alpha1.FleetNodeNotReady), []place{{state: v1alpha1.FleetNodeUnknown, behind: true, unseen: true}}, 1, false},
		{"a node that lags, one cannot be reached", at(v1alpha1.FleetNodeNotReady), []place{at(v1alpha1.FleetNodeUnknown)}, 1, true},
		{"a node that is being updated, one cannot be reached", at(v1alpha1.FleetNodeUpdating), []place{at(v1alpha1.FleetNodeUnknown)}, 1, true},
		{"a node that is being updated, one with the template is broken", at(v1alpha1.FleetNodeUpdating), []place{updated(v1alpha1.FleetNodeBroken)}, 1, true},
		{"a node that serves while it is updated, one lags", place{state: v1alpha1.FleetNodeUpdating, behind: true, ready: true}, []place{at(v1alpha1.FleetNodeNotReady)}, 1, false},
		{"a node that serves while it is updated, all others serve", place{state: v1alpha1.FleetNodeUpdating, behind: true, ready: true}, []place{at(v1alpha1.FleetNodeAvailable)}, 1, true},
		{"a node that never served, nor did others", place{state: v1alpha1.FleetNodeNotReady, behind: true, never: true}, []place{{state: v1alpha1.FleetNodeUpdating, never: true}, {state: v1alpha1.FleetNodeNotReady, never: true}}, 1, true},
		{"a node of which nothing is known, all others serve", at(v1alpha1.FleetNodeUnknown), nil, 5, false},
		{"a node that is being updated gets the next template", at(v1alpha1.FleetNodeUpdating), []place{at(v1alpha1.FleetNodeUpdating)}, 1, true},
		{"a node that is being updated, another has the next template already", at(v1alpha1.FleetNodeUpdating), []place{updated(v1alpha1.FleetNodeUpdating)}, 1, false},
		{"a node that lags, one is being updated to the last but one template", at(v1alpha1.FleetNodeNotReady), []place{at(v1alpha1.FleetNodeUpdating)}, 1, false},
		{"a paused node", at(v1alpha1.FleetNodePaused), []place{updated(v1alpha1.FleetNodeUpdating)}, 1, true},
		{"a node that is paused and still stopping", at(v1alpha1.FleetNodeStopping), nil, 5, false},
		{"a healthy node, one is stopping", at(v1alpha1.FleetNodeAvailable), []place{at(v1alpha1.FleetNodeStopping)}, 1, true},
		{"a held node", at(v1alpha1.FleetNodeHeld), []place{updated(v1alpha1.FleetNodeUpdating)}, 1, true},
	} {
		if why := admit(c.one, c.others, c.limit); (why == "") != c.may {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

// A node that serves is never taken when with it more than the limit would not serve, one
// more that does not serve never opens the way, and unknown nodes are never touched.
func TestAdmissionNeverTakesMoreThanTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, others := drawPlace(t), rapid.SliceOfN(rapid.Custom(drawPlace), 0, 12).Draw(t, "others")
		limit := rapid.IntRange(1, 6).Draw(t, "limit")
		may := admit(one, others, limit) == ""
		down := count(others, func(p place) bool { return !p.serves() })
		serves := one.state == v1alpha1.FleetNodeAvailable || one.state == v1alpha1.FleetNodeUpdating && one.ready
		if may && serves && down+1 > limit {
			t.Fatalf("a node that serves is taken while %d of %d do not", down, limit)
		}
		if may && (one.state == v1alpha1.FleetNodeUnknown || one.state == "") {
			t.Fatal("a node of which nothing is known is taken")
		}
		worse := append(others, place{state: v1alpha1.FleetNodeUnknown, unseen: true})
		if !may && admit(one, worse, limit) == "" {
			t.Fatal("one more that does not serve opened the way")
		}
	})
}
