package plan

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/client-go/applyconfigurations"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/seid"
)

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
	return &corev1.ConfigMap{ObjectMeta: ownedMeta(node, render.NodeConfigName(node)), Data: render.NodeConfig(node, content).Data}
}

// histories are the managed fields of a ConfigMap that we applied, before and after
// somebody else edited it, as the code of the API server writes them.
var histories = sync.OnceValue(func() (h struct{ applied, edited []metav1.ManagedFieldsEntry }) {
	scheme := runtime.NewScheme()
	must(corev1.AddToScheme(scheme))
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	fields := managedfieldstest.NewTestFieldManager(applyconfigurations.NewTypeConverter(scheme), kind)
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
