package seinodedeployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientgoac "k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/api/v1alpha1/applyconfiguration"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/render"
)

// memory is an API server in memory, with as much of one as the controller uses:
// server-side apply by the code of the real one, generations, uids, preconditions,
// optimistic locks and finalizers. Whoever reads gets what is there at that moment.
type memory struct {
	client.Client // whatever is not written below is not used

	scheme   *runtime.Scheme
	managers map[schema.GroupVersionKind]*managedfields.FieldManager
	objects  map[string]client.Object
	version  int
	// wrote is called after each write, with the object before and after; either may be nil.
	wrote func(manager string, before, after client.Object)
}

func newMemory() (*memory, error) {
	scheme, err := kube.NewScheme()
	if err != nil {
		return nil, err
	}
	m := &memory{
		scheme: scheme, managers: map[schema.GroupVersionKind]*managedfields.FieldManager{}, objects: map[string]client.Object{}, version: 100,
		wrote: func(string, client.Object, client.Object) {},
	}
	core := clientgoac.NewTypeConverter(scheme)
	for kind, converter := range map[schema.GroupVersionKind]managedfields.TypeConverter{
		v1alpha1.GroupVersion.WithKind("SeiNode"):                   applyconfiguration.NewTypeConverter(scheme),
		corev1.SchemeGroupVersion.WithKind("Service"):               core,
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"): core,
	} {
		m.managers[kind], err = managedfields.NewDefaultFieldManager(converter, scheme, scheme, scheme, kind, kind.GroupVersion(), "", nil)
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *memory) kindOf(object runtime.Object) schema.GroupVersionKind {
	kinds, _, err := m.scheme.ObjectKinds(object)
	if err != nil {
		panic(err)
	}
	return kinds[0]
}

func keyOf(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

func (m *memory) find(object client.Object) client.Object {
	return m.objects[keyOf(m.kindOf(object).Kind, object.GetNamespace(), object.GetName())]
}

func notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{}, name)
}

func conflict(name, why string) error {
	return apierrors.NewConflict(schema.GroupResource{}, name, errors.New(why))
}

// put stores an object, as somebody's write.
func (m *memory) put(manager string, before, after client.Object) {
	m.version++
	after.SetResourceVersion(strconv.Itoa(m.version))
	if before == nil {
		after.SetUID(types.UID(fmt.Sprintf("uid-%d", m.version)))
		after.SetGeneration(1)
		after.SetCreationTimestamp(metav1.Unix(int64(m.version), 0))
	} else if !equality.Semantic.DeepEqual(specOf(before), specOf(after)) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	key := keyOf(m.kindOf(after).Kind, after.GetNamespace(), after.GetName())
	m.objects[key] = after
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 {
		delete(m.objects, key)
		m.wrote(manager, before, nil)
		return
	}
	m.wrote(manager, before, after)
}

func specOf(object client.Object) any {
	switch object := object.(type) {
	case *v1alpha1.SeiNode:
		return object.Spec
	case *v1alpha1.SeiNodeDeployment:
		return object.Spec
	}
	return nil
}

// change is a write of a person or of another controller.
func (m *memory) change(manager string, object client.Object, change func(client.Object)) {
	before := m.find(object)
	if before == nil {
		return
	}
	after := before.DeepCopyObject().(client.Object)
	change(after)
	// Who owns a status is of no interest here.
	onlyStatus := equality.Semantic.DeepEqual(before.GetLabels(), after.GetLabels()) && equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences()) &&
		equality.Semantic.DeepEqual(specOf(before), specOf(after))
	if fm := m.managers[m.kindOf(after)]; fm != nil && !onlyStatus {
		after = fm.UpdateNoErrors(before, after, manager).(client.Object)
	}
	m.put(manager, before, after)
}

func (m *memory) create(manager string, object client.Object) {
	if fm := m.managers[m.kindOf(object)]; fm != nil {
		empty, err := m.scheme.New(m.kindOf(object))
		if err != nil {
			panic(err)
		}
		object = fm.UpdateNoErrors(empty, object, manager).(client.Object)
	}
	m.put(manager, nil, object)
}

func (m *memory) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	found := m.objects[keyOf(m.kindOf(object).Kind, key.Namespace, key.Name)]
	if found == nil {
		return notFound(key.Name)
	}
	return copyInto(found, object)
}

func copyInto(from, to client.Object) error {
	switch to := to.(type) {
	case *v1alpha1.SeiNode:
		from.(*v1alpha1.SeiNode).DeepCopyInto(to)
	case *v1alpha1.SeiNodeDeployment:
		from.(*v1alpha1.SeiNodeDeployment).DeepCopyInto(to)
	case *corev1.Pod:
		from.(*corev1.Pod).DeepCopyInto(to)
	case *corev1.Service:
		from.(*corev1.Service).DeepCopyInto(to)
	case *policyv1.PodDisruptionBudget:
		from.(*policyv1.PodDisruptionBudget).DeepCopyInto(to)
	default:
		return fmt.Errorf("nobody reads %T", to)
	}
	return nil
}

// List lists SeiNodes by the fleet or the chain that is asked for.
func (m *memory) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	nodes, ok := list.(*v1alpha1.SeiNodeList)
	if !ok {
		return fmt.Errorf("nobody lists %T", list)
	}
	var o client.ListOptions
	o.ApplyOptions(options)
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		node, ok := m.objects[key].(*v1alpha1.SeiNode)
		if !ok || o.Namespace != "" && node.Namespace != o.Namespace {
			continue
		}
		fleet, _, _ := render.FleetOf(node.Name)
		if asked := o.FieldSelector.String(); asked == "fleet="+fleet || asked == "chain="+node.Spec.ChainID {
			nodes.Items = append(nodes.Items, *node.DeepCopy())
		}
	}
	return nil
}

// preconditions are what an apply may ask of the object that is there, which may be nil.
func preconditions(before client.Object, declared *unstructured.Unstructured) error {
	version, uid := declared.GetResourceVersion(), declared.GetUID()
	switch {
	case before == nil && uid != "", before != nil && uid != "" && uid != before.GetUID():
		return conflict(declared.GetName(), "it is another one")
	case before != nil && version == kube.MustNotExist:
		return conflict(declared.GetName(), "it exists")
	case before != nil && version != "" && version != before.GetResourceVersion():
		return conflict(declared.GetName(), "it was changed")
	}
	return nil
}

func (m *memory) Apply(_ context.Context, want runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	var o client.ApplyOptions
	o.ApplyOptions(options)
	text, err := json.Marshal(want)
	if err != nil {
		return err
	}
	declared := &unstructured.Unstructured{}
	if err := declared.UnmarshalJSON(text); err != nil {
		return err
	}
	kind := declared.GroupVersionKind()
	empty, err := m.scheme.New(kind)
	if err != nil {
		return err
	}
	live := empty.(client.Object)
	before := m.objects[keyOf(kind.Kind, declared.GetNamespace(), declared.GetName())]
	if err := preconditions(before, declared); err != nil {
		return err
	}
	if before != nil {
		live = before.DeepCopyObject().(client.Object)
	} else {
		live.SetName(declared.GetName())
		live.SetNamespace(declared.GetNamespace())
	}
	declared.SetResourceVersion("")
	declared.SetUID("")
	live.GetObjectKind().SetGroupVersionKind(kind)
	applied, err := m.managers[kind].Apply(live, declared, o.FieldManager, o.Force != nil && *o.Force)
	if err != nil {
		return err
	}
	after := applied.(client.Object)
	if before != nil && equality.Semantic.DeepEqual(withoutFields(before), withoutFields(after)) {
		return nil // nothing changed
	}
	m.put(o.FieldManager, before, after)
	return nil
}

// withoutFields is an object without the kind that some carry and the times of its managed
// fields.
func withoutFields(object client.Object) client.Object {
	object = object.DeepCopyObject().(client.Object)
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	entries := object.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	return object
}

// Patch writes metadata, unless somebody wrote since the object was read.
func (m *memory) Patch(_ context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return m.patch(object, patch, options, func(live client.Object) {
		live.SetFinalizers(object.GetFinalizers())
		live.SetOwnerReferences(object.GetOwnerReferences())
		live.SetLabels(object.GetLabels())
		live.SetAnnotations(object.GetAnnotations())
	})
}

func (m *memory) patch(object client.Object, patch client.Patch, options []client.PatchOption, change func(client.Object)) error {
	var o client.PatchOptions
	o.ApplyOptions(options)
	if data, err := patch.Data(object); err != nil || !strings.Contains(string(data), "resourceVersion") {
		return fmt.Errorf("a write without a lock: %s, %w", data, err)
	}
	live := m.find(object)
	if live == nil {
		return notFound(object.GetName())
	}
	if live.GetResourceVersion() != object.GetResourceVersion() {
		return conflict(object.GetName(), "somebody was faster")
	}
	m.change(o.FieldManager, object, change)
	if now := m.find(object); now != nil {
		return copyInto(now, object)
	}
	return nil
}

func (m *memory) Status() client.SubResourceWriter { return statusWriter{memory: m} }

type statusWriter struct {
	client.SubResourceWriter
	memory *memory
}

func (w statusWriter) Patch(_ context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	_ = options
	return w.memory.patch(object, patch, nil, func(live client.Object) {
		live.(*v1alpha1.SeiNodeDeployment).Status = *object.(*v1alpha1.SeiNodeDeployment).Status.DeepCopy()
	})
}

func (m *memory) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(options)
	live := m.find(object)
	switch {
	case live == nil:
		return notFound(object.GetName())
	case o.Preconditions == nil || o.Preconditions.UID == nil:
		return errors.New("a deletion without a precondition")
	case *o.Preconditions.UID != live.GetUID():
		return conflict(object.GetName(), "it is another one")
	}
	m.remove("operator", live)
	return nil
}

// remove deletes an object, or begins to.
func (m *memory) remove(manager string, object client.Object) {
	live := m.find(object)
	if live == nil || live.GetDeletionTimestamp() != nil {
		return
	}
	after := live.DeepCopyObject().(client.Object)
	after.SetDeletionTimestamp(new(metav1.Unix(int64(m.version), 0)))
	m.put(manager, live, after)
}
