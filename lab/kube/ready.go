package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func (c *Cluster) apiServerAnswers(ctx context.Context) error {
	_, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	return err
}

func (c *Cluster) apiServerReady(ctx context.Context) error {
	return apiServerReady(ctx, c.client)
}

func apiServerReady(ctx context.Context, client kubernetes.Interface) error {
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// defaultServiceAccountExists means that the controllers work: without this
// account no pod can be created in the default namespace.
func (c *Cluster) defaultServiceAccountExists(ctx context.Context) error {
	_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

func (c *Cluster) schedulerReady(ctx context.Context) error {
	return Healthy(ctx, "https://"+c.network.Address(portScheduler)+"/readyz")
}

// NodesReady fails unless pods can be scheduled to all of these nodes.
func (c *Cluster) NodesReady(ctx context.Context, names ...string) error {
	for _, name := range names {
		node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := nodeReady(node); err != nil {
			return err
		}
	}
	return nil
}

// nodeReady also wants the taint of a new node to be gone, since until then
// nothing is scheduled to it.
func nodeReady(node *corev1.Node) error {
	for _, taint := range node.Spec.Taints {
		switch taint.Key {
		case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable:
			return fmt.Errorf("%s has the taint %s", node.Name, taint.Key)
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("%s is not ready", node.Name)
}

// Healthy fails unless a daemon says that it is healthy.
func Healthy(ctx context.Context, url string) error {
	return healthyWith(ctx, newProber(), url)
}

func healthyWith(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
