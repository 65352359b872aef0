package operator_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// deployment is a SeiNodeDeployment of full nodes.
func (r *rig) deployment(name string, replicas int32, change ...func(*v1alpha1.SeiNodeDeployment)) *v1alpha1.SeiNodeDeployment {
	fleet := &v1alpha1.SeiNodeDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec: v1alpha1.SeiNodeDeploymentSpec{
			Replicas: &replicas,
			Template: v1alpha1.SeiNodeTemplate{Spec: v1alpha1.SeiNodeSpec{ChainID: "testnet-1", Image: image, FullNode: &v1alpha1.FullNodeSpec{}}},
		},
	}
	for _, f := range change {
		f(fleet)
	}
	return fleet
}

func maxUnavailable(value string) func(*v1alpha1.SeiNodeDeployment) {
	return func(f *v1alpha1.SeiNodeDeployment) {
		f.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailable: new(intstr.Parse(value))}}
	}
}

// editFleet changes a fleet the way a person with an editor does.
func (r *rig) editFleet(name string, change func(*v1alpha1.SeiNodeDeployment)) *v1alpha1.SeiNodeDeployment {
	r.t.Helper()
	fleet := &v1alpha1.SeiNodeDeployment{}
	r.get(name, fleet)
	before := fleet.DeepCopy()
	change(fleet)
	if err := r.person.Patch(r.t.Context(), fleet, client.MergeFrom(before)); err != nil {
		r.t.Fatalf("editing the fleet %s: %v", name, err)
	}
	return fleet
}

func (r *rig) fleetUntil(name, what string, ok func(*v1alpha1.SeiNodeDeployment) bool) *v1alpha1.SeiNodeDeployment {
	r.t.Helper()
	return cluster.Eventually(r.t, r.person, r.key(name), what, ok)
}

// fleetReady waits for a fleet to be ready as of its current spec.
func (r *rig) fleetReady(name string) *v1alpha1.SeiNodeDeployment {
	r.t.Helper()
	return r.fleetUntil(name, "the fleet to be ready", fleetIsReady)
}

func fleetIsReady(f *v1alpha1.SeiNodeDeployment) bool {
	return fleetHas(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAllNodesReady)(f)
}

// fleetHas tells whether a fleet has a condition with this status and reason, as of its
// current spec.
func fleetHas(kind v1alpha1.ConditionType, status metav1.ConditionStatus, reason v1alpha1.ConditionReason) func(*v1alpha1.SeiNodeDeployment) bool {
	return func(f *v1alpha1.SeiNodeDeployment) bool {
		c := meta.FindStatusCondition(f.Status.Conditions, string(kind))
		return c != nil && c.Status == status && c.Reason == string(reason) && c.ObservedGeneration == f.Generation
	}
}

// nodeNames are the names of the nodes of a fleet.
func nodeNames(fleet string, replicas int) []string {
	var names []string
	for i := range replicas {
		names = append(names, fmt.Sprintf("%s-%d", fleet, i))
	}
	return names
}

// availability is what a watch of all pods of a fleet has seen.
type availability struct {
	mu sync.Mutex
	// down are the pods that are not there or not ready.
	down map[string]bool
	// taken are the pods that the operator deleted, with the uid they had, until there is
	// another one that is ready.
	taken map[string]types.UID
	// MostTaken is how many of those there were at once.
	MostTaken int
	// Most is how many were down at once, and Seen how often that was looked at.
	Most, Seen int
	// History tells when the most was reached.
	History []string
	end     func()
}

// watchAvailability follows the pods of a fleet from now on. All of them have to be ready.
func (r *rig) watchAvailability(fleet string, replicas int) *availability {
	r.t.Helper()
	a := &availability{down: map[string]bool{}, taken: map[string]types.UID{}}
	for _, node := range nodeNames(fleet, replicas) {
		a.down[node+"-0"] = true
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	done, complete := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		whole := false
		for ctx.Err() == nil {
			// A watch begins with what is there.
			events, err := r.person.Watch(ctx, &corev1.PodList{}, client.InNamespace(r.namespace), client.MatchingLabels{v1alpha1.LabelDeployment: fleet})
			if err != nil {
				if ctx.Err() == nil && !apierrors.IsTimeout(err) {
					r.t.Errorf("watching the pods of %s: %v", fleet, err)
				}
				return
			}
			for event := range events.ResultChan() {
				pod, ok := event.Object.(*corev1.Pod)
				if !ok {
					continue
				}
				a.see(pod, event.Type != watch.Deleted && plan.PodReady(pod), whole)
				if !whole && a.count() == 0 {
					whole = true
					close(complete)
				}
			}
		}
	}()
	a.end = sync.OnceFunc(func() { cancel(); <-done })
	r.t.Cleanup(a.end)
	comes(r.t, "all pods of "+fleet+" to be ready", complete)
	return a
}

func (a *availability) see(pod *corev1.Pod, ready, counts bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if delete(a.down, pod.Name); !ready {
		a.down[pod.Name] = true
	}
	if ready && a.taken[pod.Name] != pod.UID {
		delete(a.taken, pod.Name)
	}
	if !counts {
		return
	}
	a.Seen++
	if len(a.down) > a.Most {
		a.Most = len(a.down)
		a.History = append(a.History, strings.Join(slices.Sorted(maps.Keys(a.down)), " "))
	}
}

// Takes says that the operator is about to delete a pod.
func (a *availability) Takes(pod *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken[pod.Name] = pod.UID
	if len(a.taken) > a.MostTaken {
		a.MostTaken = len(a.taken)
		a.History = append(a.History, "the operator took "+strings.Join(slices.Sorted(maps.Keys(a.taken)), " "))
	}
}

// Back says which pods there are at this moment: the watch may be behind.
func (a *availability) Back(pods []corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range pods {
		if plan.PodReady(&pods[i]) && a.taken[pods[i].Name] != pods[i].UID {
			delete(a.taken, pods[i].Name)
		}
	}
}

// Keep forgets the pods that nobody wants to run at this moment.
func (a *availability) Keep(wanted map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.taken, func(pod string, _ types.UID) bool { return !wanted[pod] })
}

// Forgive says that somebody else wants these nodes to stand still.
func (a *availability) Forgive(nodes ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, node := range nodes {
		delete(a.taken, node+"-0")
	}
}

func (a *availability) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.down)
}

// Looks is how often it was looked at.
func (a *availability) Looks() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Seen
}

// End ends the watch and returns how many pods were down at once at most, and how often it
// was looked at.
func (a *availability) End() (most, seen int) {
	a.end()
	return a.Most, a.Seen
}
