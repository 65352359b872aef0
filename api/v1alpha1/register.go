package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package. The
// generated apply configurations refer to it by its other name.
var (
	GroupVersion       = schema.GroupVersion{Group: "sei.io", Version: "v1alpha1"}
	SchemeGroupVersion = GroupVersion
)

var schemeBuilder = runtime.NewSchemeBuilder(func(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&SeiNode{}, &SeiNodeList{},
		&SeiNodeDeployment{}, &SeiNodeDeploymentList{},
		&SeiNodeTask{}, &SeiNodeTaskList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
})

// AddToScheme makes a scheme know the kinds of this package.
var AddToScheme = schemeBuilder.AddToScheme
