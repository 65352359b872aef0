package plan

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
)

// ForeignFields is what somebody else put into the template beside ours. It takes
// nothing from us, so it is no drift; but the next pod would start with it.
type ForeignFields struct {
	// Fields can be removed; nil: nobody knows who put it there, and whoever does so
	// without a name, as admission does, does so with every write.
	Fields *fieldpath.Set
	// Note identifies who put what there.
	Note string
	// Again: the same was removed before.
	Again   bool
	Message string
}

// Stays tells whether it is there to stay, and worth telling; what is removed at once
// is told of when that is done.
func (f *ForeignFields) Stays() bool { return f.Fields == nil || f.Again }

// InTemplate is what somebody else put into the template that is wanted; nil: nothing.
func InTemplate(in Input) *ForeignFields {
	set := in.Seen.StatefulSet
	if set == nil || in.RenderProblem != "" || StatefulSet(in).Action != Assert ||
		set.Spec.Template.Annotations[v1alpha1.AnnotationTemplateHash] != in.Want.TemplateHash {
		return nil
	}
	if fields, by := foreignFields(set); fields != nil {
		return named(set, fields, by)
	}
	return unnamed(in, set)
}

// named is about fields whose writer the API server remembers.
func named(set *appsv1.StatefulSet, fields *fieldpath.Set, by []string) *ForeignFields {
	note := Bounded(strings.Join(by, ", ")+": "+strings.Join(few(topmost(fields)), ", "), maxPlanMessage)
	found := &ForeignFields{Fields: fields, Note: note, Again: set.Annotations[v1alpha1.AnnotationRemovedFromTemplate] == note}
	found.Message = fmt.Sprintf("Somebody else changed the template of the StatefulSet %s, and the next pod would start with it. %s.", set.Name, note)
	if found.Again {
		found.Message += fmt.Sprintf(" It was removed before and came back, so it is left: find out who adds it, then take the annotation %s off the StatefulSet.", v1alpha1.AnnotationRemovedFromTemplate)
	}
	return found
}

// foreignFields are the fields of the pod in a template that others own and we do not,
// and who owns them. Labels and annotations of others do no harm.
func foreignFields(set *appsv1.StatefulSet) (*fieldpath.Set, []string) {
	ours, theirs := fieldpath.NewSet(), fieldpath.NewSet()
	sets := map[string]*fieldpath.Set{}
	for _, entry := range set.ManagedFields {
		// What we patched, where apply was not enough, is not applied, but ours.
		if entry.Subresource != "" || entry.FieldsV1 == nil || entry.Manager == render.FieldManager {
			continue
		}
		if raw := entry.FieldsV1.GetRawBytes(); bytes.Contains(raw, []byte(`"f:template"`)) {
			sets[entry.Manager] = ofPod(raw).Union(orEmpty(sets[entry.Manager]))
		}
	}
	if len(sets) == 0 {
		return nil, nil
	}
	for _, entry := range set.ManagedFields {
		if entry.Manager == render.FieldManager && entry.FieldsV1 != nil {
			ours = ours.Union(ofPod(entry.FieldsV1.GetRawBytes()))
		}
	}
	var by []string
	for manager, fields := range sets {
		if added := fields.Difference(ours); !added.Empty() {
			by, theirs = append(by, manager), theirs.Union(added)
		}
	}
	if len(by) == 0 {
		return nil, nil
	}
	slices.Sort(by)
	return theirs, by
}

func orEmpty(set *fieldpath.Set) *fieldpath.Set {
	if set == nil {
		return fieldpath.NewSet()
	}
	return set
}

// pathToPod is where the pod is in a StatefulSet.
var pathToPod = fieldpath.MakePathOrDie("spec", "template", "spec")

// ofPod are the fields of the pod among managed fields. What cannot be read names none.
func ofPod(raw []byte) *fieldpath.Set {
	all, pod := fieldpath.NewSet(), fieldpath.NewSet()
	if all.FromJSON(bytes.NewReader(raw)) != nil {
		return pod
	}
	all.Iterate(func(path fieldpath.Path) {
		if len(path) > len(pathToPod) && path[:len(pathToPod)].Equals(pathToPod) {
			pod.Insert(path.Copy())
		}
	})
	return pod
}

// topmost are the names of fields that are not part of another one that is named.
func topmost(fields *fieldpath.Set) []string {
	var names []string
	var last fieldpath.Path
	paths := []fieldpath.Path{}
	fields.Iterate(func(path fieldpath.Path) { paths = append(paths, path.Copy()) })
	slices.SortFunc(paths, func(a, b fieldpath.Path) int { return a.Compare(b) })
	for _, path := range paths {
		if last == nil || len(path) < len(last) || !path[:len(last)].Equals(last) {
			last = path
			names = append(names, strings.TrimPrefix(path.String(), "."))
		}
	}
	return names
}

// unnamed is about what nobody owns. Most of that are defaults of the API server; so
// only what they never are is told: what could hurt the node, and whole containers and
// volumes.
func unnamed(in Input, set *appsv1.StatefulSet) *ForeignFields {
	template := set.Spec.Template
	var found []string
	if err := render.CheckLive(in.Node, template); err != nil {
		found = strings.Split(err.Error(), "\n")
	}
	ours := in.Want.StatefulSet.Spec.Template.Spec
	found = append(found, extra("container", slices.Concat(template.Spec.InitContainers, template.Spec.Containers), func(c corev1.Container) string { return c.Name },
		slices.Concat(ours.InitContainers, ours.Containers), func(c corev1ac.ContainerApplyConfiguration) string { return *c.Name })...)
	found = append(found, extra("volume", template.Spec.Volumes, func(v corev1.Volume) string { return v.Name },
		ours.Volumes, func(v corev1ac.VolumeApplyConfiguration) string { return *v.Name })...)
	if len(found) == 0 {
		return nil
	}
	note := strings.Join(few(found), ", ")
	return &ForeignFields{Note: note, Message: fmt.Sprintf(
		"The template of the StatefulSet %s holds what the operator did not put there, and the next pod would start with it: %s. A policy may add it to everything: except the StatefulSets of nodes from it.", set.Name, note)}
}

// extra names what is there and not wanted.
func extra[H, W any](kind string, has []H, nameOf func(H) string, wants []W, wanted func(W) string) []string {
	var names []string
	for _, item := range has {
		if name := nameOf(item); !slices.ContainsFunc(wants, func(w W) bool { return wanted(w) == name }) {
			names = append(names, fmt.Sprintf("the %s %s is not of the operator", kind, name))
		}
	}
	return names
}
