package render

import (
	"maps"

	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// StatefulSetName is the name of the node's StatefulSet.
func StatefulSetName(node *v1alpha1.SeiNode) string { return node.Name }

// ServiceName is the name of the node's headless Service.
func ServiceName(node *v1alpha1.SeiNode) string { return node.Name }

// PodName is the name of the node's only pod.
func PodName(node *v1alpha1.SeiNode) string { return StatefulSetName(node) + "-0" }

// ClaimName is the name of the claim of the node's data volume: the imported one,
// or the node's own.
func ClaimName(node *v1alpha1.SeiNode) string {
	if imports(node) {
		return node.Spec.DataVolume.Import.PVCName
	}
	return "data-" + node.Name
}

// NodeConfigName is the name of the ConfigMap with the node's configuration.
func NodeConfigName(node *v1alpha1.SeiNode) string { return node.Name + "-config" }

// ProxyConfigName is the name of the ConfigMap with the access proxy's configuration.
func ProxyConfigName(node *v1alpha1.SeiNode) string { return node.Name + "-rbac-proxy" }

// AccessSecretName is the name of the Secret with the certificate and the key of the
// access proxy.
func AccessSecretName(node *v1alpha1.SeiNode) string { return node.Name + "-access" }

// ServerName is the name in that certificate. Sidecars are called by the address of
// their pod, and this name says which node is meant.
func ServerName(namespace, name string) string { return name + "." + namespace }

func imports(node *v1alpha1.SeiNode) bool {
	return node.Spec.DataVolume != nil && node.Spec.DataVolume.Import != nil
}

// labels are on everything that a node is made of.
func labels(node *v1alpha1.SeiNode) map[string]string {
	return map[string]string{
		v1alpha1.LabelNode:  node.Name,
		v1alpha1.LabelChain: node.Spec.ChainID,
		v1alpha1.LabelMode:  string(node.Spec.Mode()),
	}
}

// podLabels are on the pod alone, besides labels: by the name of the fleet its Service
// finds the pods of its nodes. It is taken from the label of the SeiNode and not from its
// owner, because a node that its fleet lets go keeps the one and loses the other, and
// letting it go must not replace its pod.
func podLabels(node *v1alpha1.SeiNode) map[string]string {
	all := labels(node)
	if fleet := node.Labels[v1alpha1.LabelDeployment]; fleet != "" {
		all[v1alpha1.LabelDeployment] = fleet
	}
	return all
}

// selector has nothing in it that may ever change: a selector cannot.
func selector(node *v1alpha1.SeiNode) map[string]string {
	return map[string]string{v1alpha1.LabelNode: node.Name}
}

// owner makes Kubernetes delete an object after its SeiNode. A claim never has one.
func owner(node *v1alpha1.SeiNode) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).
		WithKind("SeiNode").
		WithName(node.Name).
		WithUID(node.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
}

// under adds what a person wants to what is ours, and ours wins.
func under[V ~string](ours map[string]string, theirs map[string]V) map[string]string {
	all := make(map[string]string, len(ours)+len(theirs))
	for key, value := range theirs {
		all[key] = string(value)
	}
	maps.Copy(all, ours)
	return all
}
