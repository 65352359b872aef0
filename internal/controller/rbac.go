// Package controller holds the controllers of the operator and, in this file,
// everything they may do in a cluster: one list, rendered into
// config/rbac/role.yaml. The tests run with exactly this role, so a verb that is
// missing here fails a test instead of an installation.
package controller

// +kubebuilder:rbac:groups=sei.io,resources=seinodes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=sei.io,resources=seinodedeployments,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=sei.io,resources=seinodetasks,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=sei.io,resources=seinodes/status;seinodedeployments/status;seinodetasks/status,verbs=patch
// +kubebuilder:rbac:groups=sei.io,resources=seinodes/finalizers,verbs=update

// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;configmaps,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch

// Secrets are watched by their metadata, and read by name. No cache holds their data.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
