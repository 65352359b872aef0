package kube

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func waitNode(t *testing.T, name, what string, good func(*corev1.Node) bool) {
	t.Helper()
	eventually(t, name+" "+what, func(ctx context.Context) (*corev1.Node, error) {
		return client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	}, good)
}

func labelNode(t *testing.T, name, value string) {
	t.Helper()
	_, err := client.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+KubeletLabel+`":`+value+`}}}`), metav1.PatchOptions{})
	must(t, err)
}

func TestSilentNode(t *testing.T) {
	// A node of its own: any node with the label has a stand-in kubelet.
	node := newNode(0, cluster.network, cluster.Info.Version)
	node.Name = "quiet"
	node.Labels[corev1.LabelHostname] = node.Name
	_, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = client.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), node.Name, metav1.DeleteOptions{})
	})
	waitNode(t, node.Name, "ready", func(n *corev1.Node) bool { return nodeReady(n) == nil })

	ns := namespace(t)
	spec := podSpec("seid:v1")
	spec.NodeSelector = map[string]string{corev1.LabelHostname: node.Name}
	createPod(t, ns, "stays", spec, nil)
	createPod(t, ns, "deleted", spec, nil)
	evicted := spec
	soon := int64(0)
	evicted.Tolerations = []corev1.Toleration{{
		Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &soon,
	}}
	createPod(t, ns, "evicted", evicted, nil)
	for _, name := range []string{"stays", "deleted", "evicted"} {
		waitPod(t, ns, name, "ready", ready)
	}

	labelNode(t, node.Name, "null")
	waitNode(t, node.Name, "unknown and tainted", func(n *corev1.Node) bool {
		unknown, tainted := false, false
		for _, c := range n.Status.Conditions {
			unknown = unknown || c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
		}
		for _, taint := range n.Spec.Taints {
			tainted = tainted || taint.Key == corev1.TaintNodeUnreachable && taint.Effect == corev1.TaintEffectNoExecute
		}
		return unknown && tainted
	})
	waitPod(t, ns, "stays", "not ready", func(p *corev1.Pod) bool { return !ready(p) })
	must(t, client.CoreV1().Pods(ns).Delete(t.Context(), "deleted", metav1.DeleteOptions{}))
	terminating := func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }
	waitPod(t, ns, "evicted", "terminating", terminating)
	fence(t, ns)
	for _, name := range []string{"deleted", "evicted"} {
		pod := waitPod(t, ns, name, "terminating", terminating)
		if status(pod, "seid").State.Running == nil {
			t.Errorf("%s was stopped: %+v", name, pod.Status)
		}
	}

	labelNode(t, node.Name, `"`+KubeletAnswering+`"`)
	waitNode(t, node.Name, "ready again", func(n *corev1.Node) bool { return nodeReady(n) == nil })
	waitPod(t, ns, "stays", "ready again", ready)
	waitGonePod(t, ns, "deleted")
	waitGonePod(t, ns, "evicted")
}
