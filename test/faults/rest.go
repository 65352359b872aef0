package faults

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	sidecarclient "github.com/sei-operator/sei-operator/internal/sidecar/client"
	"github.com/sei-operator/sei-operator/test/nodes"
)

// patience is how long a run waits for Kubernetes or a sidecar to do what they are
// about to do. Only a run that would wait for ever meets it.
const patience = 60 * time.Second

// rest lets everybody work until nothing moves: neither the operator, nor Kubernetes,
// nor a sidecar. The clock stands still meanwhile.
func (r *run) rest() {
	r.rests++
	// Everything that matters comes with an event, but for the ends of what a sidecar
	// does when nobody is connected to it.
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(patience); ; {
		if r.life != nil {
			if work, ok := r.next(); ok {
				r.reconcile(work)
				end = time.Now().Add(patience)
				continue
			}
		}
		moves := r.moves()
		if moves == "" {
			return
		}
		if time.Now().After(end) {
			r.fails("it does not come to rest: %s", moves)
		}
		select {
		case <-r.something:
		case <-look.C:
		case <-r.t.Context().Done():
			r.fails("the test ended")
		}
	}
}

// objects are those in the namespace of a run.
type objects struct {
	fleets   v1alpha1.SeiNodeDeploymentList
	nodes    v1alpha1.SeiNodeList
	tasks    v1alpha1.SeiNodeTaskList
	sets     appsv1.StatefulSetList
	services corev1.ServiceList
	configs  corev1.ConfigMapList
	pods     corev1.PodList
	claims   corev1.PersistentVolumeClaimList
	leases   coordinationv1.LeaseList
	budgets  policyv1.PodDisruptionBudgetList
	secrets  metav1.PartialObjectMetadataList
}

func (o *objects) lists() []client.ObjectList {
	return []client.ObjectList{
		&o.fleets, &o.nodes, &o.tasks, &o.sets, &o.services, &o.configs, &o.pods, &o.claims, &o.leases, &o.budgets, &o.secrets,
	}
}

func (r *run) read(reader client.Reader) *objects {
	found := &objects{}
	found.secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	for _, list := range found.lists() {
		options := []client.ListOption{client.InNamespace(r.namespace)}
		switch list.(type) {
		case *corev1.ConfigMapList:
			options = append(options, client.HasLabels{v1alpha1.LabelNode})
		case *coordinationv1.LeaseList:
			options = []client.ListOption{client.InNamespace(operatorNamespace), client.HasLabels{v1alpha1.LabelReservation}}
		}
		if err := reader.List(r.t.Context(), list, options...); err != nil {
			r.fails("reading %T: %v", list, err)
		}
	}
	found.leases.Items = slices.DeleteFunc(found.leases.Items, func(l coordinationv1.Lease) bool { return namespaceOf(&l) != r.namespace })
	return found
}

// moves says what is under way; empty: nothing. The order matters. What a sidecar
// says comes first and the queue last, so that whoever was about to wake the operator
// has done so by then.
func (r *run) moves() string {
	cached := r.read(r.world.cached)
	for _, look := range []func(*objects) string{kubernetesMoves, r.sidecarMoves} {
		if what := look(cached); what != "" {
			return what
		}
	}
	if what := r.behind(r.read(r.world.live)); what != "" {
		return what
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life != nil && len(r.queue) > 0 {
		return "the operator was woken"
	}
	return ""
}

// behind says what the operator was not told of yet.
func (r *run) behind(live *objects) string {
	there := map[thing]version{}
	for _, list := range live.lists() {
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			if object, ok := item.(client.Object); ok {
				there[thingOf(object)] = versionOf(object)
			}
			return nil
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(there, r.history.there, cmp.AllowUnexported(thing{}, version{})); diff != "" {
		return "the cache is behind (-live +cache):\n" + diff
	}
	return ""
}

// kubernetesMoves says what Kubernetes is about to do.
func kubernetesMoves(o *objects) string {
	owners := map[types.UID]bool{}
	for i := range o.fleets.Items {
		owners[o.fleets.Items[i].UID] = true
	}
	for i := range o.nodes.Items {
		owners[o.nodes.Items[i].UID] = true
	}
	for i := range o.sets.Items {
		owners[o.sets.Items[i].UID] = true
	}
	for _, list := range o.lists() {
		found := ""
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			object, ok := item.(client.Object)
			if owner := metav1.GetControllerOf(object); ok && owner != nil && !owners[owner.UID] {
				found = fmt.Sprintf("%s %s is about to be collected as garbage", thingOf(object).kind, object.GetName())
			}
			return nil
		})
		if found != "" {
			return found
		}
	}
	for i := range o.sets.Items {
		if what := setMoves(&o.sets.Items[i], o.pods.Items); what != "" {
			return what
		}
	}
	for i := range o.pods.Items {
		if what := podMoves(&o.pods.Items[i]); what != "" {
			return what
		}
	}
	return claimsMove(o.claims.Items)
}

func claimsMove(claims []corev1.PersistentVolumeClaim) string {
	for i := range claims {
		if claim := &claims[i]; claim.DeletionTimestamp != nil || claim.Status.Phase != corev1.ClaimBound {
			return fmt.Sprintf("the claim %s is %s", claim.Name, claim.Status.Phase)
		} else if has := claim.Status.Capacity.Storage(); has.Cmp(*claim.Spec.Resources.Requests.Storage()) < 0 {
			return fmt.Sprintf("the claim %s has %s and grows", claim.Name, has)
		}
	}
	return ""
}

func setMoves(set *appsv1.StatefulSet, pods []corev1.Pod) string {
	made := int32(0)
	for i := range pods {
		if metav1.IsControlledBy(&pods[i], set) {
			made++
		}
	}
	switch {
	case set.DeletionTimestamp != nil:
		return fmt.Sprintf("StatefulSet %s is being deleted", set.Name)
	case set.Status.ObservedGeneration < set.Generation, set.Status.UpdateRevision == "":
		return fmt.Sprintf("Kubernetes has not looked at StatefulSet %s", set.Name)
	case set.Spec.Replicas != nil && (*set.Spec.Replicas != made || *set.Spec.Replicas != set.Status.Replicas || *set.Spec.Replicas != set.Status.ReadyReplicas):
		return fmt.Sprintf("StatefulSet %s wants %d pods, and there are %d, %d of which it knows, %d of these ready",
			set.Name, *set.Spec.Replicas, made, set.Status.Replicas, set.Status.ReadyReplicas)
	}
	return ""
}

func podMoves(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return fmt.Sprintf("pod %s is being deleted", pod.Name)
	case plan.PodAlive(pod) && !plan.PodReady(pod):
		return fmt.Sprintf("pod %s is not up", pod.Name)
	}
	return ""
}

// sidecarMoves says what a sidecar is at, or has to tell the operator.
func (r *run) sidecarMoves(o *objects) string {
	for i := range o.nodes.Items {
		node := &o.nodes.Items[i]
		for _, entry := range r.sidecars.Node(r.namespace, node.Name).Ledger() {
			if entry.Outcome == nodes.Running {
				return fmt.Sprintf("the sidecar of %s is at a %s", node.Name, entry.Type)
			}
		}
		for j := range o.pods.Items {
			pod := &o.pods.Items[j]
			if r.life == nil || r.deaf[node.Name] > 0 || pod.Labels[v1alpha1.LabelNode] != node.Name || !plan.PodAlive(pod) {
				continue
			}
			if what := r.untold(node, pod); what != "" {
				return what
			}
			if what := r.untoldTask(node, o.tasks.Items); what != "" {
				return what
			}
		}
	}
	return ""
}

// untold says what the operator does not know of a sidecar yet.
func (r *run) untold(node *v1alpha1.SeiNode, pod *corev1.Pod) string {
	view := r.life.agents.View(keyOf(node))
	if !view.Connected || view.PodUID != pod.UID {
		return fmt.Sprintf("the operator is not connected to the sidecar of %s: %s", node.Name, view.Problem)
	}
	status, err := statusOf(r.t.Context(), node, pod)
	if err != nil {
		return fmt.Sprintf("the sidecar of %s does not answer: %v", node.Name, err)
	}
	if diff := cmp.Diff(essence(status), essence(view.Status)); diff != "" {
		return fmt.Sprintf("the operator does not know how it stands with the sidecar of %s (-sidecar +operator):\n%s", node.Name, diff)
	}
	if current := node.Status.Plan; current != nil && !node.Spec.Paused {
		for i := range current.Tasks {
			if task := &current.Tasks[i]; task.Status == v1alpha1.PlanTaskRunning && r.ended(node, plan.TaskID(current, i).String(), int(task.Retries)) {
				return fmt.Sprintf("the operator does not know that the sidecar of %s has ended its %s", node.Name, task.Type)
			}
		}
	}
	return ""
}

// untoldTask says which SeiNodeTask the operator has to be told of that its sidecar has
// ended.
func (r *run) untoldTask(node *v1alpha1.SeiNode, tasks []v1alpha1.SeiNodeTask) string {
	for i := range tasks {
		task := &tasks[i]
		if task.Status.Phase == v1alpha1.TaskPhaseRunning && task.Spec.Target.NodeRef.Name == node.Name && r.ended(node, task.Status.TaskID, 0) {
			return fmt.Sprintf("the operator does not know that the sidecar of %s has ended the task %s", node.Name, task.Name)
		}
	}
	return ""
}

// ended tells whether a sidecar has ended a task in a way that the operator has not
// counted yet.
func (r *run) ended(node *v1alpha1.SeiNode, id string, counted int) bool {
	for _, entry := range r.sidecars.Node(r.namespace, node.Name).Ledger() {
		if entry.ID.String() == id && entry.Outcome != nodes.Running && (entry.Outcome == nodes.Done || entry.Run > counted) {
			return true
		}
	}
	return false
}

// essence is what of a status wakes the operator when it changes.
func essence(status api.Status) api.Status {
	return api.Status{
		Approved: status.Approved, Approval: status.Approval, Held: status.Held, Config: status.Config, NodeID: status.NodeID,
		Seid: api.Seid{State: status.Seid.State, Instance: status.Seid.Instance, SafeToStop: status.Seid.SafeToStop},
	}
}

const sidecarPort = 7777

// statusOf asks a sidecar itself.
func statusOf(ctx context.Context, node *v1alpha1.SeiNode, pod *corev1.Pod) (api.Status, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	c, err := sidecarclient.New(sidecarclient.Options{
		BaseURL:    "http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(sidecarPort)),
		HTTPClient: &http.Client{Transport: transport}, NodeUID: string(node.UID),
	})
	if err != nil {
		return api.Status{}, err
	}
	return c.Status(ctx)
}
