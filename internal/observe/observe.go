// Package observe reads the world of one node, once per reconcile, into one value.
// It reads from caches and from memory. The API server is asked for a Secret with a
// key once whenever it changed, and for the holder of a reservation that this node
// would like to have.
package observe

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/agents"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/nodetask"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
)

// Node reads the world of a node, and follows the sidecar of its pod.
func Node(ctx context.Context, k *kube.Client, fleet *agents.Fleet, node *v1alpha1.SeiNode, now time.Time) (plan.Observation, error) {
	r := reader{ctx: ctx, kube: k, namespace: node.Namespace}
	seen := plan.Observation{Now: now}
	seen.StatefulSet = get(&r, render.StatefulSetName(node), &appsv1.StatefulSet{})
	seen.Service = get(&r, render.ServiceName(node), &corev1.Service{})
	seen.NodeConfig = get(&r, render.NodeConfigName(node), &corev1.ConfigMap{})
	seen.ProxyConfig = get(&r, render.ProxyConfigName(node), &corev1.ConfigMap{})
	seen.Claim = get(&r, render.ClaimName(node), &corev1.PersistentVolumeClaim{})
	seen.Pod = get(&r, render.PodName(node), &corev1.Pod{})
	if r.err != nil {
		return seen, r.err
	}
	if owner := claimOwner(node, seen.Claim); owner != "" && get(&r, owner, &v1alpha1.SeiNode{}) != nil {
		seen.ClaimOwner = owner
	}
	if claim := seen.Claim; claim != nil && claim.DeletionTimestamp != nil && claim.Spec.VolumeName != "" {
		r.namespace = ""
		if volume := get(&r, claim.Spec.VolumeName, &corev1.PersistentVolume{}); volume != nil {
			seen.ReclaimPolicy = volume.Spec.PersistentVolumeReclaimPolicy
		}
	}
	others, err := otherPods(ctx, k, node)
	if err != nil {
		return seen, err
	}
	seen.OtherPods = others
	tasks, err := k.Tasks(ctx, types.NamespacedName{Namespace: node.Namespace, Name: node.Name})
	if err != nil {
		return seen, fmt.Errorf("finding the tasks of node %s/%s: %w", node.Namespace, node.Name, err)
	}
	seen.Task = nodetask.Working(tasks, now)
	seen.Sidecar = sidecar(fleet, node, seen.Pod)
	return seen, r.err
}

// reader reads objects until the first error.
type reader struct {
	ctx       context.Context //nolint:containedctx // it lives as long as one call of Node
	kube      *kube.Client
	namespace string
	err       error
}

// get reads an object; nil when there is none.
func get[T any, P interface {
	*T
	kube.Object
}](r *reader, name string, into P,
) P {
	if r.err != nil {
		return nil
	}
	err := r.kube.Get(r.ctx, types.NamespacedName{Namespace: r.namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		r.err = fmt.Errorf("reading %T %s/%s: %w", into, r.namespace, name, err)
		return nil
	}
	return into
}

// otherPods are the names of living pods that mount the claim and are not the
// node's own.
func otherPods(ctx context.Context, k *kube.Client, node *v1alpha1.SeiNode) ([]string, error) {
	pods, err := k.PodsWithClaim(ctx, types.NamespacedName{Namespace: node.Namespace, Name: render.ClaimName(node)})
	if err != nil {
		return nil, fmt.Errorf("finding the pods that use the volume of node %s/%s: %w", node.Namespace, node.Name, err)
	}
	var names []string
	for i := range pods {
		if pods[i].Name != render.PodName(node) && plan.PodAlive(&pods[i]) {
			names = append(names, pods[i].Name)
		}
	}
	return names, nil
}

// claimOwner is the other SeiNode that the labels of a claim name.
func claimOwner(node *v1alpha1.SeiNode, claim *corev1.PersistentVolumeClaim) string {
	if claim == nil || claim.Labels[v1alpha1.LabelNode] == node.Name {
		return ""
	}
	return claim.Labels[v1alpha1.LabelNode]
}

// sidecar is what is known of the sidecar in the pod, which is followed from now on.
func sidecar(fleet *agents.Fleet, node *v1alpha1.SeiNode, pod *corev1.Pod) plan.Sidecar {
	key := types.NamespacedName{Namespace: node.Namespace, Name: node.Name}
	if pod == nil || pod.Status.PodIP == "" || !plan.PodAlive(pod) {
		fleet.Forget(key)
		return plan.Sidecar{}
	}
	target := agents.Target{Node: key, NodeUID: node.UID, PodUID: pod.UID}
	// The pod says how it is reached: the settings may have changed since it was made.
	scheme, port := "http", portOf(pod, render.ContainerSidecar, render.DefaultSidecarPort)
	if hasContainer(pod, render.ContainerProxy) {
		scheme, port = "https", portOf(pod, render.ContainerProxy, render.ProxyPort)
		target.ServerName = render.ServerName(node.Namespace, node.Name)
	}
	target.Address = scheme + "://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port)))
	fleet.Follow(target)
	view := fleet.View(key)
	if view.PodUID != pod.UID {
		return plan.Sidecar{}
	}
	return plan.Sidecar{New: view.New, Lost: view.Lost, Connected: view.Connected, Problem: view.Problem, Status: view.Status}
}

// portOf is where a container of this pod listens. The spec may want another port by
// now.
func portOf(pod *corev1.Pod, name string, otherwise int32) int32 {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name && len(c.Ports) > 0 {
			return c.Ports[0].ContainerPort
		}
	}
	return otherwise
}

func hasContainer(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name })
}
