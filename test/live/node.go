package live

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Wait waits for a node to be as wanted.
func (c *Chain) Wait(ctx context.Context, name, what string, ok func(*v1alpha1.SeiNode) bool) (*v1alpha1.SeiNode, error) {
	return Until(ctx, c.Cluster, c.Key(name), what, ok)
}

// Ready waits until a node is Ready as of its current spec and nothing is under way.
func (c *Chain) Ready(ctx context.Context, name string) (*v1alpha1.SeiNode, error) {
	return c.Wait(ctx, name, "a node that is ready", IsReady)
}

// IsReady tells whether a node is Ready as of its current spec, and at rest.
func IsReady(node *v1alpha1.SeiNode) bool {
	ready := Condition(node, v1alpha1.ConditionReady)
	return ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == node.Generation && node.Status.Plan == nil
}

// Condition is a condition of a node, or one that is empty.
func Condition(node *v1alpha1.SeiNode, kind v1alpha1.ConditionType) metav1.Condition {
	if found := meta.FindStatusCondition(node.Status.Conditions, string(kind)); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// Pod is the pod of a node.
func (c *Chain) Pod(ctx context.Context, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, c.Client.Get(ctx, c.Key(name+"-0"), pod)
}

// NewPod waits for a pod of a node that is another one and ready.
func (c *Chain) NewPod(ctx context.Context, name string, old *corev1.Pod) (*corev1.Pod, error) {
	return Until(ctx, c.Cluster, c.Key(name+"-0"), "another pod that is ready", func(pod *corev1.Pod) bool {
		return pod.UID != old.UID && PodReady(pod)
	})
}

// PodGone tells whether a node has no pod.
func (c *Chain) PodGone(ctx context.Context, name string) error {
	pod, err := c.Pod(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	default:
		return fmt.Errorf("%s has a pod: %s", name, pod.Status.Phase)
	}
}

// PodReady tells whether Kubernetes calls a pod ready.
func PodReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Task creates a task of a node and waits until it ended. One that failed is no error
// here.
func (c *Chain) Task(ctx context.Context, node string, spec v1alpha1.SeiNodeTaskSpec) (*v1alpha1.SeiNodeTask, error) {
	spec.Target.NodeRef.Name = node
	task := &v1alpha1.SeiNodeTask{ObjectMeta: metav1.ObjectMeta{Namespace: c.ID, GenerateName: node + "-"}, Spec: spec}
	if err := c.Client.Create(ctx, task); err != nil {
		return nil, err
	}
	return Until(ctx, c.Cluster, c.Key(task.Name), "the end of the task", func(task *v1alpha1.SeiNodeTask) bool {
		return task.Status.Finished()
	})
}

// RestartSeid restarts seid in its container.
func (c *Chain) RestartSeid(ctx context.Context, node string) (*v1alpha1.SeiNodeTask, error) {
	task, err := c.Task(ctx, node, v1alpha1.SeiNodeTaskSpec{Kind: v1alpha1.TaskKindRestartSeid, RestartSeid: &v1alpha1.RestartSeidPayload{}})
	if err == nil && task.Status.Phase != v1alpha1.TaskPhaseComplete {
		err = fmt.Errorf("the restart of %s failed: %s", node, task.Status.Message)
	}
	return task, err
}

// Pause sets spec.paused and waits until the pod is gone.
func (c *Chain) Pause(ctx context.Context, name string) error {
	if err := c.Edit(ctx, name, func(node *v1alpha1.SeiNode) { node.Spec.Paused = true }); err != nil {
		return err
	}
	_, err := c.Wait(ctx, name, "a node that is paused", func(node *v1alpha1.SeiNode) bool {
		paused := Condition(node, v1alpha1.ConditionPaused)
		return paused.Status == metav1.ConditionTrue && paused.ObservedGeneration == node.Generation
	})
	return err
}

// Unpause ends the pause and waits until the node is ready.
func (c *Chain) Unpause(ctx context.Context, name string) (*v1alpha1.SeiNode, error) {
	if err := c.Edit(ctx, name, func(node *v1alpha1.SeiNode) { node.Spec.Paused = false }); err != nil {
		return nil, err
	}
	return c.Ready(ctx, name)
}
