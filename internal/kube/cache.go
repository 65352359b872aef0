package kube

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
)

// indexClaim finds pods by the claims that they mount.
const indexClaim = "claim"

// These find SeiNodes by their chain, by the Secrets that they name, and by the Leases
// in their status.
const (
	indexChain       = "chain"
	indexSecret      = "secret"
	indexReservation = "reservation"
)

// indexHolder finds Leases by the uid of their holder.
const indexHolder = "holder"

// indexTarget finds SeiNodeTasks by the node that they are for, and indexSelecting those
// that are about other nodes too. One that ended, and of which nothing is left to do,
// is in neither.
const (
	indexTarget    = "target"
	indexSelecting = "selecting"
)

// indexFleet finds SeiNodes by the fleet that their name says they belong to.
const indexFleet = "fleet"

// NewScheme knows every kind that the operator deals with.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
}

// CacheOptions say what is kept in memory. Objects that we apply keep their managed
// fields, from which is read what we own; of everything else only what is used is
// kept, because there may be thousands. Namespace is the operator's own.
func CacheOptions(resync *time.Duration, namespace string) (cache.Options, error) {
	hasNode, err := labels.NewRequirement(v1alpha1.LabelNode, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, err
	}
	isReservation, err := labels.NewRequirement(v1alpha1.LabelReservation, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, err
	}
	ours := labels.NewSelector().Add(*hasNode)
	reservations := labels.NewSelector().Add(*isReservation)
	return cache.Options{
		SyncPeriod: resync,
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.SeiNode{}:     {Transform: keepFleetFields},
			&v1alpha1.SeiNodeTask{}: {Transform: cache.TransformStripManagedFields()},
			// A StatefulSet of a node's name that somebody else made has no label of ours
			// and must be seen all the same.
			&appsv1.StatefulSet{}: {Transform: keepOnlyNodes},
			// Services of nodes and of fleets have no label in common, and one that is in the
			// way of a name must be seen as well.
			&corev1.Service{}:               {Transform: keepOnlyOurs},
			&policyv1.PodDisruptionBudget{}: {Transform: keepOnlyOurs},
			&corev1.ConfigMap{}:             {Label: ours},
			&corev1.PersistentVolumeClaim{}: {
				Transform: cache.TransformStripManagedFields(),
			},
			&corev1.Pod{}:              {Transform: slimPod},
			&corev1.PersistentVolume{}: {Transform: slimVolume},
			// Only their metadata is ever watched, and of that only who they are.
			&corev1.Secret{}: {Transform: slimMetadata},
			&coordinationv1.Lease{}: {
				Namespaces: map[string]cache.Config{namespace: {LabelSelector: reservations}},
				Transform:  cache.TransformStripManagedFields(),
			},
		},
	}, nil
}

// AlsoSecretsOf has the metadata of Secrets watched in these namespaces, where all else
// is watched in one: the certificate authority is in the operator's own.
func AlsoSecretsOf(options cache.Options, namespaces ...string) {
	for object, of := range options.ByObject {
		if _, ok := object.(*corev1.Secret); !ok {
			continue
		}
		of.Namespaces = map[string]cache.Config{}
		for _, namespace := range namespaces {
			of.Namespaces[namespace] = cache.Config{}
		}
		options.ByObject[object] = of
	}
}

// ClientCacheOptions make reads of the cache wait until it holds what this client
// wrote before. Without it every second reconcile would act on the past: it is what
// keeps a fresh StatefulSet from being taken for an impostor.
func ClientCacheOptions() *client.CacheOptions {
	return &client.CacheOptions{
		EnableReadYourWritesConsistency: new(true),
		// Their data must be in no cache.
		DisableFor: []client.Object{&corev1.Secret{}},
	}
}

// AddIndexes prepares a cache for what is found by something else than its name.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	ofNodes := func(index string, values func(*v1alpha1.SeiNode) []string) error {
		return indexer.IndexField(ctx, &v1alpha1.SeiNode{}, index, func(object client.Object) []string {
			node, ok := object.(*v1alpha1.SeiNode)
			if !ok {
				return nil
			}
			return values(node)
		})
	}
	return errors.Join(
		indexer.IndexField(ctx, &corev1.Pod{}, indexClaim, func(object client.Object) []string { return ClaimsOf(object) }),
		indexer.IndexField(ctx, &coordinationv1.Lease{}, indexHolder, func(object client.Object) []string {
			lease, ok := object.(*coordinationv1.Lease)
			if !ok || lease.Spec.HolderIdentity == nil {
				return nil
			}
			return []string{*lease.Spec.HolderIdentity}
		}),
		ofNodes(indexClaim, func(node *v1alpha1.SeiNode) []string { return []string{render.ClaimName(node)} }),
		ofNodes(indexChain, func(node *v1alpha1.SeiNode) []string { return []string{node.Spec.ChainID} }),
		ofNodes(indexSecret, render.SecretNames),
		ofNodes(indexReservation, func(node *v1alpha1.SeiNode) []string {
			var names []string
			for _, reservation := range node.Status.Reservations {
				names = append(names, reservation.Name)
			}
			return names
		}),
		indexer.IndexField(ctx, &v1alpha1.SeiNodeTask{}, indexTarget, func(object client.Object) []string {
			task, ok := object.(*v1alpha1.SeiNodeTask)
			if !ok || task.Status.Finished() && task.Spec.TTLSecondsAfterFinished == nil && len(task.Finalizers) == 0 {
				return nil
			}
			return []string{task.Spec.Target.NodeRef.Name}
		}),
		indexer.IndexField(ctx, &v1alpha1.SeiNodeTask{}, indexSelecting, func(object client.Object) []string {
			task, ok := object.(*v1alpha1.SeiNodeTask)
			if !ok || task.Status.Finished() || task.Spec.AwaitNodesAtHeight == nil || len(task.Spec.AwaitNodesAtHeight.Selector) == 0 {
				return nil
			}
			return []string{indexSelecting}
		}),
		ofNodes(indexFleet, func(node *v1alpha1.SeiNode) []string {
			if fleet, _, ok := render.FleetOf(node.Name); ok {
				return []string{fleet}
			}
			return nil
		}),
	)
}

// ClaimsOf are the names of the claims that a pod mounts, that of the claim of a
// volume, or that of a claim itself.
func ClaimsOf(object Object) []string {
	switch object := object.(type) {
	case *corev1.PersistentVolumeClaim:
		return []string{object.Name}
	case *corev1.PersistentVolume:
		if object.Spec.ClaimRef != nil {
			return []string{object.Spec.ClaimRef.Name}
		}
	case *corev1.Pod:
		var names []string
		for i := range object.Spec.Volumes {
			if source := object.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
				names = append(names, source.ClaimName)
			}
		}
		return names
	}
	return nil
}
