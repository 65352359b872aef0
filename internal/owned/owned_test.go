package owned

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"github.com/sei-operator/sei-operator/internal/render"
)

type config = appsv1ac.StatefulSetApplyConfiguration

var node = types.NamespacedName{Namespace: "sei", Name: "node"}

// set is a StatefulSet of which we own the replicas.
func set(changes ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "node", Namespace: "sei", UID: "uid", Generation: 1, ResourceVersion: "1", Labels: map[string]string{"a": "b"},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: render.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1", FieldsType: "FieldsV1",
				FieldsV1: fields(`{"f:spec":{"f:replicas":{}}}`),
			}},
		},
		Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1))},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func fields(text string) *metav1.FieldsV1 {
	f := &metav1.FieldsV1{}
	f.SetRawBytes([]byte(text))
	return f
}

// counted counts how often it is found out what is ours.
func counted[T any](of Of[T], count *int) Of[T] {
	extract := of.extract
	of.extract = func() (*T, error) { *count++; return extract() }
	return of
}

func TestAnUnchangedObjectIsLookedAtOnce(t *testing.T) {
	t.Parallel()
	var memory Memory
	count := 0
	want, err := (*Look)(nil).StatefulSet(set()).All()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(s *appsv1.StatefulSet) bool {
		t.Helper()
		look := memory.Look(node)
		for range 2 { // also within one look
			if _, err := counted(look.StatefulSet(s), &count).Is("another question", 1, func(o *config) bool { return o.Spec != nil }); err != nil {
				t.Fatal(err)
			}
		}
		same, err := counted(look.StatefulSet(s), &count).Equals(want)
		if err != nil {
			t.Fatal(err)
		}
		return same
	}
	steps := []struct {
		name  string
		set   *appsv1.StatefulSet
		dear  bool
		equal bool
	}{
		{"the first look", set(), true, true},
		{"the same", set(), false, true},
		{"another status", set(func(s *appsv1.StatefulSet) { s.ResourceVersion, s.Status.ReadyReplicas = "2", 1 }), false, true},
		{"a write of its status by another", set(func(s *appsv1.StatefulSet) {
			s.ManagedFields = append(s.ManagedFields, metav1.ManagedFieldsEntry{Manager: "x", Subresource: "status", FieldsV1: fields(`{"f:status":{}}`)})
		}), false, true},
		{"another spec", set(func(s *appsv1.StatefulSet) { s.Generation, s.Spec.Replicas = 2, new(int32(2)) }), true, false},
		{"as before", set(), true, true},
		{"another label", set(func(s *appsv1.StatefulSet) { s.Labels = nil }), true, true},
		{"not ours any more", set(func(s *appsv1.StatefulSet) { s.ManagedFields[0].FieldsV1 = fields(`{"f:spec":{}}`) }), true, false},
		{"nothing is ours", set(func(s *appsv1.StatefulSet) { s.ManagedFields[0].Manager = "kubectl" }), true, false},
		{"no fields", set(func(s *appsv1.StatefulSet) { s.ManagedFields[0].Manager, s.ManagedFields[0].FieldsV1 = "y", nil }), false, false},
		{"another object of its name", set(func(s *appsv1.StatefulSet) { s.UID = "other" }), true, true},
	}
	for _, step := range steps {
		before := count
		if got := ask(step.set); got != step.equal {
			t.Errorf("%s: equal is %t", step.name, got)
		}
		wanted := 0
		if step.dear {
			wanted = 1
		}
		if looked := count - before; looked != wanted {
			t.Errorf("%s: it was found out %d times, want %d", step.name, looked, wanted)
		}
	}
	memory.Forget(node)
	before := count
	ask(set())
	if ask(set()); count != before+1 {
		t.Errorf("after it was forgotten it was found out %d times", count-before)
	}
}

// What is wanted may change while the object does not.
func TestWhatIsWantedIsPartOfTheQuestion(t *testing.T) {
	t.Parallel()
	var memory Memory
	for _, replicas := range []int32{1, 2, 1} {
		for range 2 {
			want, err := memory.Look(node).StatefulSet(set()).All()
			if err != nil {
				t.Fatal(err)
			}
			want.Spec.Replicas = &replicas
			if same, err := memory.Look(node).StatefulSet(set()).Equals(want); err != nil || same != (replicas == 1) {
				t.Errorf("with %d replicas: %t, %v", replicas, same, err)
			}
		}
	}
}

// Services and ConfigMaps have no generation: every version is another.
func TestEveryVersionOfAnObjectWithoutGenerationIsLookedAt(t *testing.T) {
	t.Parallel()
	var memory Memory
	count := 0
	for i, version := range []string{"1", "1", "2", "2"} {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "uid", ResourceVersion: version}}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "uid", ResourceVersion: version}}
		look := memory.Look(node)
		if _, err := counted(look.ConfigMap(config), &count).Equals(nil); err != nil {
			t.Fatal(err)
		}
		if _, err := counted(look.Service(service), &count).Equals(nil); err != nil {
			t.Fatal(err)
		}
		if want := 2 * (i/2 + 1); count != want {
			t.Errorf("after %d looks it was found out %d times, want %d", i+1, count, want)
		}
	}
}

func TestAnErrorIsNotRemembered(t *testing.T) {
	t.Parallel()
	var memory Memory
	for _, look := range []*Look{nil, memory.Look(node)} {
		of := look.StatefulSet(set())
		extract := of.extract
		of.extract = func() (*config, error) { return nil, errors.New("broken") }
		yes := func(*config) bool { return true }
		if is, err := of.Is("it", 1, yes); is || err == nil {
			t.Errorf("it is %t, %v", is, err)
		}
		of.extract = extract
		if is, err := of.Is("it", 1, yes); !is || err != nil {
			t.Errorf("it is %t, %v", is, err)
		}
	}
	if is, err := memory.Look(node).StatefulSet(set()).Is("it", func() {}, nil); is || err == nil {
		t.Errorf("what cannot be told apart is %t, %v", is, err)
	}
}
