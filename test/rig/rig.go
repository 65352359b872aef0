// Package rig is what tests of the whole operator have in common: an operator that may
// be stopped and started again, the nodes and keys that it looks after, and what
// people wait for.
package rig

import (
	"context"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/operator"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// Image is one that the lab's pods start with.
const Image = "registry.example.com/seid:v1"

// Namespace is that of the operator.
const Namespace = "sei-system"

// Config is an operator for the cluster's tests, which looks after one namespace, or
// after all of them.
func Config(tb testing.TB, c *cluster.Cluster, namespace string) operator.Config {
	tb.Helper()
	return operator.Config{
		Kubernetes: c.OperatorConfig(tb), Platform: SmallNodes(), Log: logr.Discard(),
		MetricsAddress: "0", HealthAddress: "0", Namespace: Namespace, ServiceAccount: "sei-operator", WatchNamespace: namespace,
	}
}

// SmallNodes is a platform whose nodes are so small that many fit into the lab.
func SmallNodes() platform.Settings {
	settings := platform.Default()
	for mode, of := range settings.Modes {
		of.Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi"),
		}}
		settings.Modes[mode] = of
	}
	return settings
}

// Start starts an operator. What it returns ends it and waits until it is gone, which
// the end of the test does too.
func Start(tb testing.TB, config operator.Config) (registry *prometheus.Registry, stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	registry = prometheus.NewRegistry()
	config.Metrics = registry
	ended := make(chan error, 1)
	go func() { ended <- operator.Run(ctx, config) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("the operator ended with %v", err)
		}
	})
	tb.Cleanup(stop)
	return registry, stop
}

// Condition is a condition of a node, or one that is empty.
func Condition(node *v1alpha1.SeiNode, kind v1alpha1.ConditionType) metav1.Condition {
	if c := meta.FindStatusCondition(node.Status.Conditions, string(kind)); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// IsReady tells whether a node is Ready as of its current spec, and nothing is under
// way.
func IsReady(node *v1alpha1.SeiNode) bool {
	c := Condition(node, v1alpha1.ConditionReady)
	return c.Status == metav1.ConditionTrue && c.ObservedGeneration == node.Generation && node.Status.Plan == nil
}

// Has tells whether a node has a condition with this status and reason, as of its
// current spec.
func Has(kind v1alpha1.ConditionType, status metav1.ConditionStatus, reason v1alpha1.ConditionReason) func(*v1alpha1.SeiNode) bool {
	return func(node *v1alpha1.SeiNode) bool {
		c := Condition(node, kind)
		return c.Status == status && c.Reason == string(reason) && c.ObservedGeneration == node.Generation
	}
}
