package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	v1alpha1ac "github.com/sei-operator/sei-operator/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
)

// nodeConfig is a SeiNode as a fleet wants it.
type nodeConfig = v1alpha1ac.SeiNodeApplyConfiguration

// Template is what nodes are made from, in the form in which it is applied. All of it
// comes from one conversion, so no field can be forgotten.
type Template struct {
	Labels      map[string]string                         `json:"labels,omitempty"`
	Annotations map[string]string                         `json:"annotations,omitempty"`
	Spec        *v1alpha1ac.SeiNodeSpecApplyConfiguration `json:"spec,omitempty"`
}

// templateOf is the template that a fleet wants.
func templateOf(fleet *v1alpha1.SeiNodeDeployment) (Template, error) {
	from := fleet.Spec.Template
	text, err := json.Marshal(from.Spec)
	if err != nil {
		return Template{}, fmt.Errorf("reading the template of %s/%s: %w", fleet.Namespace, fleet.Name, err)
	}
	t := Template{Spec: &v1alpha1ac.SeiNodeSpecApplyConfiguration{}}
	if err := json.Unmarshal(text, t.Spec); err != nil {
		return Template{}, fmt.Errorf("reading the template of %s/%s: %w", fleet.Namespace, fleet.Name, err)
	}
	t.Spec.Paused = nil // it is no part of a template
	if from.Metadata != nil {
		t.Annotations = maps.Clone(from.Metadata.Annotations)
		t.Labels = make(map[string]string, len(from.Metadata.Labels))
		for key, value := range from.Metadata.Labels {
			t.Labels[key] = string(value)
		}
	}
	return t, nil
}

// templateIn is the template that a node was last given, as far as nobody took a part of
// it over since. Keys of ours are no part of a template.
func templateIn(owned *nodeConfig) Template {
	var t Template
	if meta := owned.ObjectMetaApplyConfiguration; meta != nil {
		t.Annotations = maps.Clone(meta.Annotations)
		t.Labels = maps.Clone(meta.Labels)
		maps.DeleteFunc(t.Labels, func(key, _ string) bool { return strings.HasPrefix(key, "sei.io/") })
	}
	if owned.Spec != nil {
		spec := *owned.Spec
		spec.Paused = nil
		t.Spec = &spec
	}
	return t
}

// revision identifies a template.
func (t Template) revision() (string, error) { return render.Hash(t) }

// node is a node of a fleet with this template.
func (t Template) node(fleet *v1alpha1.SeiNodeDeployment, ordinal int, revision string) *nodeConfig {
	all := maps.Clone(t.Labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, render.FleetLabels(fleet))
	all[v1alpha1.LabelOrdinal] = strconv.Itoa(ordinal)
	// By these nodes find each other.
	all[v1alpha1.LabelChain] = fleet.Spec.Template.Spec.ChainID
	all[v1alpha1.LabelMode] = string(fleet.Spec.Template.Spec.Mode())
	if revision != "" {
		all[v1alpha1.LabelRevision] = revision
	}
	want := v1alpha1ac.SeiNode(render.FleetNodeName(fleet, ordinal), fleet.Namespace).
		WithLabels(all).
		WithAnnotations(t.Annotations).
		WithOwnerReferences(render.FleetOwners(fleet)...)
	if t.Spec != nil {
		spec := *t.Spec
		want.WithSpec(&spec)
	}
	if fleet.Spec.Paused {
		// Only while the fleet is paused is the field ours: a node that somebody else
		// paused stays so when we let it go.
		if want.Spec == nil {
			want.WithSpec(v1alpha1ac.SeiNodeSpec())
		}
		want.Spec.WithPaused(true)
	}
	return want
}
