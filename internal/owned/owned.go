// Package owned finds out what is ours of a live object: what our field manager
// applied, and nobody changed since.
//
// Finding out is by far the dearest part of looking at a node. So it is done when it
// is first asked for, once for each look, and what was found is remembered for as long
// as the object stays as it is. It is pure all the same: a memory changes how long an
// answer takes, never the answer.
package owned

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/sei-operator/sei-operator/internal/render"
)

// Memory remembers answers, a few small ones for each node. What was taken out of an
// object is not kept: it would need as much memory as the object. It may be empty, and
// is safe for concurrent use by looks at different nodes.
type Memory struct {
	mu      sync.Mutex
	answers map[types.NamespacedName]map[string]answer
}

// digest identifies an object, or what is wanted of it.
type digest [sha256.Size]byte

// answer is what was found out about one version of one object.
type answer struct {
	object, want digest
	yes          bool
}

// Look is one look at the objects of a node. A nil one remembers nothing.
type Look struct {
	answers map[string]answer
	// extracted is what was taken out of objects during this look.
	extracted map[digest]any
}

// Look begins a look at a node. Only one may be under way for each.
func (m *Memory) Look(node types.NamespacedName) *Look {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answers == nil {
		m.answers = map[types.NamespacedName]map[string]answer{}
	}
	if m.answers[node] == nil {
		m.answers[node] = map[string]answer{}
	}
	return &Look{answers: m.answers[node], extracted: map[digest]any{}}
}

// Forget is for a node that is gone.
func (m *Memory) Forget(node types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.answers, node)
}

// Of is what is ours of one object.
type Of[T any] struct {
	look    *Look
	kind    string
	object  metav1.Object
	extract func() (*T, error)
}

// StatefulSet is what is ours of a StatefulSet.
func (l *Look) StatefulSet(found *appsv1.StatefulSet) Of[appsv1ac.StatefulSetApplyConfiguration] {
	return Of[appsv1ac.StatefulSetApplyConfiguration]{l, "StatefulSet", found, func() (*appsv1ac.StatefulSetApplyConfiguration, error) {
		return appsv1ac.ExtractStatefulSet(found, render.FieldManager)
	}}
}

// Service is what is ours of a Service.
func (l *Look) Service(found *corev1.Service) Of[corev1ac.ServiceApplyConfiguration] {
	return Of[corev1ac.ServiceApplyConfiguration]{l, "Service", found, func() (*corev1ac.ServiceApplyConfiguration, error) {
		return corev1ac.ExtractService(found, render.FieldManager)
	}}
}

// ConfigMap is what is ours of a ConfigMap.
func (l *Look) ConfigMap(found *corev1.ConfigMap) Of[corev1ac.ConfigMapApplyConfiguration] {
	return Of[corev1ac.ConfigMapApplyConfiguration]{l, "ConfigMap", found, func() (*corev1ac.ConfigMapApplyConfiguration, error) {
		return corev1ac.ExtractConfigMap(found, render.FieldManager)
	}}
}

// Equals tells whether what is ours of an object is what is wanted of it.
func (o Of[T]) Equals(want *T) (bool, error) {
	return o.Is("as wanted", want, func(owned *T) bool { return equality.Semantic.DeepEqual(want, owned) })
}

// Is answers a question about what is ours of an object. The answer must follow from
// that and from want alone.
func (o Of[T]) Is(question string, want any, ask func(*T) bool) (bool, error) {
	if o.look == nil {
		owned, err := o.All()
		return err == nil && ask(owned), err
	}
	text, err := json.Marshal(want)
	if err != nil {
		return false, fmt.Errorf("telling one %s from another: %w", o.kind, err)
	}
	now := answer{object: version(o.object), want: sha256.Sum256(text)}
	about := o.kind + " " + o.object.GetName() + " " + question
	if known := o.look.answers[about]; known.object == now.object && known.want == now.want {
		return known.yes, nil
	}
	owned, err := o.All()
	if err != nil {
		return false, err
	}
	now.yes = ask(owned)
	o.look.answers[about] = now
	return now.yes, nil
}

// All is all that is ours of an object. It is not to be changed.
func (o Of[T]) All() (*T, error) {
	var key digest
	if o.look != nil {
		key = version(o.object)
		if known, ok := o.look.extracted[key].(*T); ok {
			return known, nil
		}
	}
	owned, err := o.extract()
	if err != nil {
		return nil, fmt.Errorf("finding out what is ours of %s %s: %w", o.kind, o.object.GetName(), err)
	}
	if o.look != nil {
		o.look.extracted[key] = owned
	}
	return owned, nil
}

// version identifies what can be ours of an object. The resource version would do, but
// a StatefulSet gets another one whenever its pod changes. Its generation covers its
// spec; what is left is its metadata.
func version(object metav1.Object) digest {
	if object.GetGeneration() == 0 {
		return sha256.Sum256([]byte(string(object.GetUID()) + " " + object.GetResourceVersion()))
	}
	hash := sha256.New()
	// Nothing in these types can fail, and keys of maps are sorted.
	text, _ := json.Marshal([]any{
		object.GetUID(), object.GetGeneration(), object.GetLabels(), object.GetAnnotations(), object.GetOwnerReferences(), object.GetFinalizers(),
	})
	hash.Write(text)
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == render.FieldManager && entry.FieldsV1 != nil {
			hash.Write([]byte(entry.Operation + " " + metav1.ManagedFieldsOperationType(entry.Subresource)))
			hash.Write(entry.FieldsV1.GetRawBytes())
		}
	}
	return digest(hash.Sum(nil))
}
