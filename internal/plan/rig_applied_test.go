package plan

import (
	"encoding/json"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/client-go/applyconfigurations"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/seid"
)

// Live objects carry the managed fields that the code of the API server writes, since
// decisions depend on what in them is ours.

var converter = sync.OnceValue(func() managedfields.TypeConverter {
	scheme := runtime.NewScheme()
	must(corev1.AddToScheme(scheme))
	must(appsv1.AddToScheme(scheme))
	return applyconfigurations.NewTypeConverter(scheme)
})

// newSet is the StatefulSet that the operator applied for the spec as it is now.
func newSet(in *Input) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{}
	if in.Want.StatefulSet != nil {
		text, err := json.Marshal(in.Want.StatefulSet)
		must(err)
		set = appliedSet(string(text)).DeepCopy()
	}
	set.OwnerReferences = ownedMeta(in.Node, "").OwnerReferences
	set.Name, set.Namespace, set.UID = in.Node.Name, in.Node.Namespace, setUID
	set.Spec.Replicas = new(int32(1))
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelNode: in.Node.Name}}
	return set
}

var appliedSets sync.Map

// appliedSet is a StatefulSet as it is after it was applied. Each is made once.
func appliedSet(text string) *appsv1.StatefulSet {
	if made, ok := appliedSets.Load(text); ok {
		return made.(*appsv1.StatefulSet)
	}
	object := &unstructured.Unstructured{}
	must(object.UnmarshalJSON([]byte(text)))
	fields := managedfieldstest.NewTestFieldManager(converter(), appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
	must(fields.Apply(object, render.FieldManager, false))
	set := &appsv1.StatefulSet{}
	must(runtime.DefaultUnstructuredConverter.FromUnstructured(fields.Live().(*unstructured.Unstructured).Object, set))
	for i := range set.ManagedFields {
		set.ManagedFields[i].Time = nil // it is that of the test's machine
	}
	made, _ := appliedSets.LoadOrStore(text, set)
	return made.(*appsv1.StatefulSet)
}

// document is the configuration that the spec wants, with a serial and peers.
func document(in *Input, serial int64, peers ...string) seid.Intent {
	content := in.Want.Intent
	content.Serial, content.Peers = serial, peers
	return content
}

// hasDocument puts the ConfigMap there as the operator applied it.
func hasDocument(serial int64, peers ...string) edit {
	return func(in *Input) { applied(document(in, serial, peers...))(in) }
}

func applied(content seid.Intent) edit {
	return func(in *Input) {
		in.Seen.NodeConfig = configMap(in.Node, content)
		in.Seen.NodeConfig.ManagedFields = histories().applied
	}
}

// tampered is the same after somebody else wrote this content over it.
func tampered(content seid.Intent) edit {
	return func(in *Input) {
		in.Seen.NodeConfig = configMap(in.Node, content)
		in.Seen.NodeConfig.ManagedFields = histories().edited
	}
}

func noDocument(in *Input) { in.Seen.NodeConfig = nil }

func configMap(node *v1alpha1.SeiNode, content seid.Intent) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: ownedMeta(node, render.NodeConfigName(node)), Data: render.NodeConfig(node, content, "").Data}
}

// histories are the managed fields of a ConfigMap that we applied, before and after
// somebody else edited it, as the code of the API server writes them.
var histories = sync.OnceValue(func() (h struct{ applied, edited []metav1.ManagedFieldsEntry }) {
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	fields := managedfieldstest.NewTestFieldManager(converter(), kind)
	write := func(text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{Kind: kind.Kind, APIVersion: kind.GroupVersion().String()},
			Data:     map[string]string{"config.json": text},
		}
	}
	must(fields.Apply(write("ours"), render.FieldManager, false))
	h.applied = fields.ManagedFields()
	must(fields.Update(write("theirs"), "kubectl-edit"))
	h.edited = fields.ManagedFields()
	return h
})

func must(err error) {
	if err != nil {
		panic(err)
	}
}
