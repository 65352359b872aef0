package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
)

// thing is an object, whatever its uid.
type thing struct{ kind, name string }

// version is one state of an object.
type version struct {
	uid             types.UID
	resourceVersion string
}

// history is what was seen in the namespace of a run.
type history struct {
	// there is what is there, as far as the operator was told.
	there map[thing]version
	// uids are all that there ever were, in the order in which they came.
	uids map[thing][]types.UID
	// users are the living pods of each claim.
	users map[string]map[types.UID]string
	// deleting are the nodes that are on their way out, or gone.
	deleting map[string]bool
	// updated are the nodes that take a place in the update budget.
	updated map[string]v1alpha1.UpdateSlot
}

func newHistory() history {
	return history{
		there: map[thing]version{}, uids: map[thing][]types.UID{}, users: map[string]map[types.UID]string{},
		deleting: map[string]bool{}, updated: map[string]v1alpha1.UpdateSlot{},
	}
}

func thingOf(object client.Object) thing {
	kind := fmt.Sprintf("%T", object)
	return thing{kind: kind[strings.LastIndex(kind, ".")+1:], name: object.GetName()}
}

func versionOf(object client.Object) version {
	return version{uid: object.GetUID(), resourceVersion: object.GetResourceVersion()}
}

// saw is told by the cache of every new state of every object.
func (r *run) saw(before, after client.Object) {
	key := thingOf(after)
	r.mu.Lock()
	r.history.there[key] = versionOf(after)
	if !slices.Contains(r.history.uids[key], after.GetUID()) {
		r.history.uids[key] = append(r.history.uids[key], after.GetUID())
	}
	r.mu.Unlock()
	switch object := after.(type) {
	case *corev1.Pod:
		r.sawPod(object, plan.PodAlive(object))
	case *corev1.PersistentVolumeClaim:
		if object.DeletionTimestamp != nil {
			r.lostClaim(object)
		}
	case *coordinationv1.Lease:
		r.sawLease(before, object)
	case *v1alpha1.SeiNode:
		r.sawSeiNode(before, object)
		return
	case *v1alpha1.SeiNodeDeployment:
		if before == nil || before.GetGeneration() != object.Generation || object.DeletionTimestamp != nil {
			r.enqueue(job{ofFleets, keyOf(object)})
		}
		r.happened()
		return
	case *v1alpha1.SeiNodeTask:
		r.enqueue(job{ofTasks, targetOf(object)})
		if old, ok := before.(*v1alpha1.SeiNodeTask); ok && works(old) && !works(object) {
			r.enqueue(job{ofNodes, targetOf(object)})
		}
		return
	}
	r.wakeAll()
}

func (r *run) sawSeiNode(before client.Object, node *v1alpha1.SeiNode) {
	// The controllers of tasks and of fleets are woken by whatever happens to a node.
	r.enqueue(job{ofTasks, keyOf(node)})
	r.wakeFleets()
	r.sawNode(node)
	r.sawPlace(node)
	if before == nil || worthALook(before, node) {
		r.enqueue(job{ofNodes, keyOf(node)})
	}
	r.happened()
}

// lost is told of every object that is gone.
func (r *run) lost(object client.Object) {
	r.mu.Lock()
	delete(r.history.there, thingOf(object))
	r.mu.Unlock()
	switch object := object.(type) {
	case *corev1.Pod:
		r.sawPod(object, false)
	case *corev1.PersistentVolumeClaim:
		r.lostClaim(object)
	case *coordinationv1.Lease:
		r.lostLease(object)
	case *v1alpha1.SeiNode:
		r.wake(keyOf(object))
	case *v1alpha1.SeiNodeTask:
		r.wake(targetOf(object))
	}
	r.wakeAll()
}

func works(task *v1alpha1.SeiNodeTask) bool { return task.Status.Phase == v1alpha1.TaskPhaseRunning }

// targetOf is the node that a task is for.
func targetOf(task *v1alpha1.SeiNodeTask) types.NamespacedName {
	return types.NamespacedName{Namespace: task.Namespace, Name: task.Spec.Target.NodeRef.Name}
}

// worthALook leaves out the operator's own writes of the status, as the controller
// does: whoever relies on being woken by them waits for ever.
func worthALook(before client.Object, after *v1alpha1.SeiNode) bool {
	update := event.UpdateEvent{ObjectOld: before, ObjectNew: after}
	old, ok := before.(*v1alpha1.SeiNode)
	emptied := ok && old.Status.Phase != "" && after.Status.Phase == ""
	return emptied || after.DeletionTimestamp != nil ||
		predicate.GenerationChangedPredicate{}.Update(update) || predicate.AnnotationChangedPredicate{}.Update(update)
}

// wakeAll has all nodes and fleets looked at: there is one in most runs, and the others
// are used to it.
func (r *run) wakeAll() {
	for _, node := range r.known("SeiNode") {
		r.enqueue(job{ofNodes, node})
	}
	r.wakeFleets()
	r.happened()
}

func (r *run) wakeFleets() {
	for _, fleet := range r.known("SeiNodeDeployment") {
		r.enqueue(job{ofFleets, fleet})
	}
}

// known are the objects of a kind that the operator was told of.
func (r *run) known(kind string) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []types.NamespacedName
	for key := range r.history.there {
		if key.kind == kind {
			found = append(found, types.NamespacedName{Namespace: r.namespace, Name: key.name})
		}
	}
	slices.SortFunc(found, func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// sawPod sees to it that no claim ever has two living pods.
func (r *run) sawPod(pod *corev1.Pod, alive bool) {
	for _, claim := range kube.ClaimsOf(pod) {
		r.mu.Lock()
		users := r.history.users[claim]
		if users == nil {
			users = map[types.UID]string{}
			r.history.users[claim] = users
		}
		if alive {
			users[pod.UID] = pod.Name
		} else {
			delete(users, pod.UID)
		}
		all := slices.Sorted(maps.Values(users))
		r.mu.Unlock()
		if len(all) > 1 {
			r.violated("there are %d living pods on the claim %s: %s", len(all), claim, strings.Join(all, ", "))
		}
	}
}

func (r *run) lostClaim(claim *corev1.PersistentVolumeClaim) {
	if !r.workload.DeletesVolume {
		r.violated("the claim %s was deleted", claim.Name)
	}
}

func keyOf(object client.Object) types.NamespacedName { return client.ObjectKeyFromObject(object) }
