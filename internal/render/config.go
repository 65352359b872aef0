package render

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/seid"
)

// documentKey is the entry of the ConfigMap that holds the document.
const documentKey = "config.json"

// NodeConfig renders the ConfigMap with the document that says which configuration
// the node shall have.
func NodeConfig(node *v1alpha1.SeiNode, document seid.Intent) *corev1ac.ConfigMapApplyConfiguration {
	// Keys of maps are sorted, and nothing in the type can fail.
	text, _ := json.MarshalIndent(document, "", "  ")
	return corev1ac.ConfigMap(NodeConfigName(node), node.Namespace).
		WithLabels(labels(node)).
		WithOwnerReferences(owner(node)).
		WithData(map[string]string{documentKey: string(text) + "\n"})
}

// Document reads the document back from a live ConfigMap.
func Document(configMap *corev1.ConfigMap) (seid.Intent, error) {
	text, ok := configMap.Data[documentKey]
	if !ok {
		return seid.Intent{}, fmt.Errorf("the ConfigMap %s/%s has no entry %s: somebody removed it, and the operator writes it again", configMap.Namespace, configMap.Name, documentKey)
	}
	document, err := seid.ParseIntent([]byte(text))
	if err != nil {
		return seid.Intent{}, fmt.Errorf("the ConfigMap %s/%s: %w", configMap.Namespace, configMap.Name, err)
	}
	return document, nil
}
