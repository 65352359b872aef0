// Package controller holds the controllers of the operator and, in this file,
// everything they may do in a cluster: one list, rendered into
// config/rbac/role.yaml. The tests run with exactly this role, so a verb that is
// missing here fails a test instead of an installation.
package controller

// +kubebuilder:rbac:groups=sei.io,resources=seinodes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=sei.io,resources=seinodedeployments,verbs=list;watch;patch
// +kubebuilder:rbac:groups=sei.io,resources=seinodetasks,verbs=list;watch;patch;delete
// +kubebuilder:rbac:groups=sei.io,resources=seinodes/status;seinodedeployments/status;seinodetasks/status,verbs=patch
// +kubebuilder:rbac:groups=sei.io,resources=seinodes/finalizers,verbs=update

// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;configmaps,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=list;watch

// Secrets are watched by their metadata, and read by name. No cache holds their data.
// The operator writes those with the certificates of nodes, and the one with the
// authority that issues them.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch

// Whether the access proxy of a node will be able to ask who its callers are.
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// What the access proxies of nodes are asked about the operator: it may read what a
// sidecar knows, begin those tasks that its plans and SeiNodeTasks are made of, and
// cancel those of SeiNodeTasks. A sidecar from before knows the dry run of config-apply as
// config-validate, and its peers as discover-peers.
// +kubebuilder:rbac:groups=sei.io,resources=seinodes/sidecar,verbs=get
// +kubebuilder:rbac:groups=sei.io,resources=seinodes/config-validate;seinodes/configure-genesis,verbs=create
// +kubebuilder:rbac:groups=sei.io,resources=seinodes/await-condition;seinodes/config-apply;seinodes/configure-state-sync;seinodes/discover-peers;seinodes/mark-not-ready;seinodes/mark-ready;seinodes/release-hold;seinodes/reset-data;seinodes/restart-seid;seinodes/stop-seid,verbs=create;delete

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
