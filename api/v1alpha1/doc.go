// Package v1alpha1 is the API of the operator: SeiNode (one node),
// SeiNodeDeployment (a fleet of like nodes) and SeiNodeTask (one operation on
// one node), group sei.io.
//
// Everything that can be judged from the object alone is refused at admission
// by CEL rules, so that no webhook is needed to install; each message says what
// to write instead. Conditions and their reasons stand beside the kind that
// carries them and are part of the API: people wait and alert on them.
//
// The package imports nothing else of this module.
//
// +kubebuilder:object:generate=true
// +groupName=sei.io
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package="applyconfiguration"
package v1alpha1
