package admission

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// networkPolicy is one that is shipped, about who connects to pods and nothing else.
func networkPolicy(t *testing.T, name string) networkingv1.NetworkPolicy {
	t.Helper()
	for _, object := range shipped(t, "access") {
		if object.GetKind() != "NetworkPolicy" || object.GetName() != name {
			continue
		}
		policy := convert[networkingv1.NetworkPolicy](t, object)
		if !slices.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
			t.Errorf("%s is about %v", name, policy.Spec.PolicyTypes)
		}
		for _, rule := range policy.Spec.Ingress {
			if len(rule.Ports) == 0 {
				t.Errorf("a rule of %s opens every port", name)
			}
			for _, from := range rule.From {
				if from.NamespaceSelector != nil && len(from.NamespaceSelector.MatchLabels) == 0 {
					t.Errorf("a rule of %s lets in every namespace", name)
				}
			}
		}
		return policy
	}
	t.Fatalf("no NetworkPolicy %s is shipped", name)
	return networkingv1.NetworkPolicy{}
}

func selects(t *testing.T, selector *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s.Matches(labels.Set(of))
}

// ports are those on which the containers of pods can be reached, sorted.
func ports(pods ...corev1.PodTemplateSpec) []int32 {
	all := map[int32]bool{}
	for _, pod := range pods {
		for _, container := range append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...) {
			for _, port := range container.Ports {
				all[port.ContainerPort] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// openTo says how many kinds of callers each port is open to; 0: to everybody.
func openTo(policy networkingv1.NetworkPolicy) map[int32]int {
	open := map[int32]int{}
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			open[port.Port.IntVal] = len(rule.From)
		}
	}
	return open
}

// operatorPod is the operator as it is shipped, and its Deployment.
func operatorPod(t *testing.T) (*unstructured.Unstructured, corev1.PodTemplateSpec) {
	t.Helper()
	for object, template := range shippedPods(t) {
		if object.GetName() == "sei-operator" {
			return object, template
		}
	}
	t.Fatal("no operator is shipped")
	return nil, corev1.PodTemplateSpec{}
}

// TestNetworkPolicyOfNodes compares it with the pods that are rendered and the operator
// that is shipped: the lab's network enforces none.
func TestNetworkPolicyOfNodes(t *testing.T) {
	policy, nodes := networkPolicy(t, "sei-nodes"), nodePods(t, true)
	deployment, operator := operatorPod(t)
	for what, pod := range nodes {
		if !selects(t, &policy.Spec.PodSelector, pod.Labels) {
			t.Errorf("%s is not protected: it has the labels %v", what, pod.Labels)
		}
	}
	if selects(t, &policy.Spec.PodSelector, operator.Labels) {
		t.Error("it is about the operator too")
	}
	open := openTo(policy)
	if diff := cmp.Diff(map[int32]int{26656: 0, 8443: 2, 26657: 2, 1317: 2, 9090: 2, 8545: 2, 8546: 2, 26660: 1}, open); diff != "" {
		t.Errorf("ports, and to how many kinds of callers they are open (-want +is):\n%s", diff)
	}
	if diff := cmp.Diff(ports(slices.Collect(maps.Values(nodes))...), slices.Sorted(maps.Keys(open))); diff != "" {
		t.Errorf("ports (-rendered +open):\n%s", diff)
	}
	home := map[string]string{corev1.LabelMetadataName: deployment.GetNamespace()}
	for _, rule := range policy.Spec.Ingress {
		letsIn := slices.ContainsFunc(rule.From, func(from networkingv1.NetworkPolicyPeer) bool {
			return from.PodSelector != nil && from.NamespaceSelector != nil && selects(t, from.PodSelector, operator.Labels) && selects(t, from.NamespaceSelector, home)
		})
		if isWayIn := rule.Ports[0].Port.IntVal == 8443; letsIn != isWayIn {
			t.Errorf("the operator is let in to %v: %v", rule.Ports[0].Port, letsIn)
		}
	}
}

// TestNetworkPolicyOfTheOperator: it serves metrics, and nobody is let in to anything else.
func TestNetworkPolicyOfTheOperator(t *testing.T) {
	policy := networkPolicy(t, "sei-operator")
	deployment, operator := operatorPod(t)
	if policy.Namespace != deployment.GetNamespace() || !selects(t, &policy.Spec.PodSelector, operator.Labels) {
		t.Errorf("the operator is not protected: it has the labels %v", operator.Labels)
	}
	for what, pod := range nodePods(t, true) {
		if selects(t, &policy.Spec.PodSelector, pod.Labels) {
			t.Errorf("it is about %s, too", what)
		}
	}
	metrics := map[int32]int{}
	for _, port := range operator.Spec.Containers[0].Ports {
		if port.Name == "metrics" {
			metrics[port.ContainerPort] = 1
		}
	}
	if diff := cmp.Diff(metrics, openTo(policy)); diff != "" || len(metrics) == 0 {
		t.Errorf("ports, and to how many kinds of callers they are open (-want +is):\n%s", diff)
	}
}
