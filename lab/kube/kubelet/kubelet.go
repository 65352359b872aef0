// Package kubelet has the last word on deleted pods, which KWOK cannot be
// trusted with: it deletes by name alone, so that a second look at a pod that is
// already gone would kill the StatefulSet's next pod of the same name.
package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/sei-operator/sei-operator/lab/kube/loop"
)

// Stopped is the condition by which the stages tell that nothing of a pod runs any more.
const Stopped corev1.PodConditionType = "lab.sei.io/Stopped"

// Remover removes deleted pods that have stopped.
type Remover struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	queue  *loop.Queue
}

// NewRemover must be called before the factory is started.
func NewRemover(client kubernetes.Interface, factory informers.SharedInformerFactory) (*Remover, error) {
	pods := factory.Core().V1().Pods()
	r := &Remover{client: client, pods: pods.Lister(), queue: loop.NewQueue()}
	return r, r.queue.Watch(pods.Informer())
}

// Run works until the context is done.
func (r *Remover) Run(ctx context.Context, failed func(cache.ObjectName, error)) {
	r.queue.Run(ctx, 4, r.handle, failed)
}

func (r *Remover) handle(ctx context.Context, name cache.ObjectName) error {
	pod, err := r.pods.Pods(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !removable(pod) {
		return nil
	}
	options := *metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	err = r.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // Gone, or another pod by now.
	}
	return err
}

func removable(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	if grace := pod.DeletionGracePeriodSeconds; grace != nil && *grace == 0 {
		return false // Removed already, but for its finalizers.
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == Stopped {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
