package render

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/signing"
)

// DocumentEntry is the entry of the ConfigMap that holds the document.
const DocumentEntry = "config.json"

// NodeConfig renders the ConfigMap with the document that says which configuration
// the node shall have, and beside it what is known of its signing key, where there is one.
func NodeConfig(node *v1alpha1.SeiNode, document seid.Intent, known string) *corev1ac.ConfigMapApplyConfiguration {
	// Keys of maps are sorted, and nothing in the type can fail.
	text, _ := json.MarshalIndent(document, "", "  ")
	data := map[string]string{DocumentEntry: string(text) + "\n"}
	if known != "" {
		data[signing.File] = known
	}
	return corev1ac.ConfigMap(NodeConfigName(node), node.Namespace).
		WithLabels(labels(node)).
		WithOwnerReferences(owner(node)).
		WithData(data)
}

// Document reads the document back from a live ConfigMap.
func Document(configMap *corev1.ConfigMap) (seid.Intent, error) {
	text, ok := configMap.Data[DocumentEntry]
	if !ok {
		return seid.Intent{}, fmt.Errorf("the ConfigMap %s/%s has no entry %s: somebody removed it, and the operator writes it again", configMap.Namespace, configMap.Name, DocumentEntry)
	}
	document, err := seid.ParseIntent([]byte(text))
	if err != nil {
		return seid.Intent{}, fmt.Errorf("the ConfigMap %s/%s: %w", configMap.Namespace, configMap.Name, err)
	}
	return document, nil
}
