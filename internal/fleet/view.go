// Package fleet decides about the nodes of a SeiNodeDeployment: which of them are made,
// changed and deleted, and when. Every function in it is pure. What it decides is carried
// out by the controller, and the budget is kept by the same function for the rollout of a
// template and for what the operator itself wants to roll.
package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	v1alpha1ac "github.com/sei-operator/sei-operator/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
)

// View is a fleet and its nodes at one moment.
type View struct {
	Fleet *v1alpha1.SeiNodeDeployment
	Now   time.Time
	// Revision identifies the template that is wanted.
	Revision string

	template Template
	// members are all SeiNodes of a name that the fleet gives, by ordinal.
	members []member
}

// member is a SeiNode of a name that the fleet gives.
type member struct {
	ordinal int
	node    *v1alpha1.SeiNode
	pod     *corev1.Pod
	// foreign says why it is not the fleet's; empty: it is.
	foreign string
	// owned is what the fleet has declared of it.
	owned *nodeConfig
	// revision identifies the template it was last given.
	revision string
	// behind: it does not have the template that is wanted, or somebody changed it.
	behind bool
	state  v1alpha1.FleetNodeState
	// settles is when it has been ready for long enough, if that is to come.
	settles time.Duration
	// done: it has the template that is wanted and is through with it.
	done bool
	// failed says why its update failed; empty: it did not.
	failed string
}

// Look looks at a fleet. Nodes are all SeiNodes of its namespace that have a name which
// the fleet gives, whoever made them; pods are theirs, by the name of the node. Nothing
// of them is changed.
func Look(fleet *v1alpha1.SeiNodeDeployment, nodes []v1alpha1.SeiNode, pods map[string]*corev1.Pod, now time.Time) (*View, error) {
	v := &View{Fleet: fleet, Now: now}
	var err error
	if v.template, err = templateOf(fleet); err != nil {
		return nil, err
	}
	if v.Revision, err = v.template.revision(); err != nil {
		return nil, err
	}
	for i := range nodes {
		node := &nodes[i]
		parent, ordinal, ok := render.FleetOf(node.Name)
		if !ok || parent != fleet.Name {
			continue
		}
		m, err := v.member(ordinal, node, pods[node.Name])
		if err != nil {
			return nil, err
		}
		v.members = append(v.members, m)
	}
	slices.SortFunc(v.members, func(a, b member) int { return cmp.Compare(a.ordinal, b.ordinal) })
	return v, nil
}

func (v *View) member(ordinal int, node *v1alpha1.SeiNode, pod *corev1.Pod) (member, error) {
	m := member{ordinal: ordinal, node: node, pod: pod, foreign: foreign(v.Fleet, node)}
	if m.foreign != "" {
		m.state = v1alpha1.FleetNodeForeign
		return m, nil
	}
	// The status is left out: it is most of a node, and nothing of it is declared.
	bare := &v1alpha1.SeiNode{TypeMeta: node.TypeMeta, ObjectMeta: node.ObjectMeta, Spec: node.Spec}
	var err error
	if m.owned, err = v1alpha1ac.ExtractSeiNode(bare, render.FleetManager); err != nil {
		return m, fmt.Errorf("finding out what is the fleet's of SeiNode %s/%s: %w", node.Namespace, node.Name, err)
	}
	m.revision = node.Labels[v1alpha1.LabelRevision]
	m.behind = m.revision != v.Revision || !same(v.template.node(v.Fleet, ordinal, v.Revision), m.owned)
	m.state, m.settles = v.stateOf(node, pod)
	m.done = !m.behind && through(m)
	if !m.behind {
		m.failed = failure(m)
	}
	return m, nil
}

// foreign says why a SeiNode of a name that the fleet gives is not the fleet's; empty: it
// is. One that nobody controls and that carries the name of the fleet was made by it, or by
// an earlier one of its name, or a person gives it to the fleet.
func foreign(fleet *v1alpha1.SeiNodeDeployment, node *v1alpha1.SeiNode) string {
	if metav1.IsControlledBy(node, fleet) {
		return ""
	}
	if owner := metav1.GetControllerOf(node); owner != nil {
		return fmt.Sprintf("it belongs to the %s %s", owner.Kind, owner.Name)
	}
	if node.Labels[v1alpha1.LabelDeployment] != fleet.Name {
		return fmt.Sprintf("it was made by someone else; to give it to the fleet, set its label %s to %s", v1alpha1.LabelDeployment, fleet.Name)
	}
	want := &fleet.Spec.Template.Spec
	if node.Spec.ChainID != want.ChainID || node.Spec.Mode() != want.Mode() {
		return fmt.Sprintf("it is a %s of the chain %s, and the template makes a %s of the chain %s", node.Spec.Mode(), node.Spec.ChainID, want.Mode(), want.ChainID)
	}
	return ""
}

// same compares two declarations, but for the pause: that has its own time.
func same(want, owned *nodeConfig) bool {
	return equality.Semantic.DeepEqual(withoutPause(want), withoutPause(owned))
}

func withoutPause(config *nodeConfig) *nodeConfig {
	if config.Spec == nil || config.Spec.Paused == nil {
		return config
	}
	copied, spec := *config, *config.Spec
	spec.Paused = nil
	copied.Spec = &spec
	return &copied
}

// Replicas is how many nodes are wanted.
func Replicas(fleet *v1alpha1.SeiNodeDeployment) int {
	if fleet.Spec.Replicas == nil {
		return 1
	}
	return int(*fleet.Spec.Replicas)
}

// wanted are the nodes that the spec asks for, as far as they are there, by ordinal.
func (v *View) wanted() []*member {
	var found []*member
	for i := range v.members {
		if m := &v.members[i]; m.ordinal < Replicas(v.Fleet) {
			found = append(found, m)
		}
	}
	return found
}

// Ours are the SeiNodes that belong to the fleet, whatever the spec asks for.
func (v *View) Ours() []*v1alpha1.SeiNode {
	var found []*v1alpha1.SeiNode
	for i := range v.members {
		if v.members[i].foreign == "" {
			found = append(found, v.members[i].node)
		}
	}
	return found
}

// Left tells whether there is nothing more to do before a fleet that is being deleted may
// go: its nodes are gone, or have no owner, as the policy says.
func (v *View) Left() bool {
	return !slices.ContainsFunc(v.Ours(), func(node *v1alpha1.SeiNode) bool {
		return !Retains(v.Fleet) || metav1.IsControlledBy(node, v.Fleet)
	})
}
