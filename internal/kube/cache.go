package kube

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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

// indexChain finds SeiNodes by their chain.
const indexChain = "chain"

// indexFleet finds SeiNodes by the fleet that their name says they belong to.
const indexFleet = "fleet"

// NewScheme knows every kind that the operator deals with.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
}

// CacheOptions say what is kept in memory. Objects that we apply keep their managed
// fields, from which is read what we own; of everything else only what is used is
// kept, because there may be thousands.
func CacheOptions(resync *time.Duration) (cache.Options, error) {
	hasNode, err := labels.NewRequirement(v1alpha1.LabelNode, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, err
	}
	ours := labels.NewSelector().Add(*hasNode)
	return cache.Options{
		SyncPeriod: resync,
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.SeiNode{}: {Transform: keepFleetFields},
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
			&corev1.Pod{}: {Transform: slimPod},
		},
	}, nil
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

// AddIndexes prepares a cache for PodsWithClaim, NodesWithClaim, Chain and Fleet.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &corev1.Pod{}, indexClaim, func(object client.Object) []string { return ClaimsOf(object) }),
		indexer.IndexField(ctx, &v1alpha1.SeiNode{}, indexClaim, func(object client.Object) []string {
			node, ok := object.(*v1alpha1.SeiNode)
			if !ok {
				return nil
			}
			return []string{render.ClaimName(node)}
		}),
		indexer.IndexField(ctx, &v1alpha1.SeiNode{}, indexChain, func(object client.Object) []string {
			node, ok := object.(*v1alpha1.SeiNode)
			if !ok {
				return nil
			}
			return []string{node.Spec.ChainID}
		}),
		indexer.IndexField(ctx, &v1alpha1.SeiNode{}, indexFleet, func(object client.Object) []string {
			fleet, _, ok := render.FleetOf(object.GetName())
			if !ok {
				return nil
			}
			return []string{fleet}
		}),
	)
}

// ClaimsOf are the names of the claims that a pod mounts, or that of a claim itself.
func ClaimsOf(object Object) []string {
	switch object := object.(type) {
	case *corev1.PersistentVolumeClaim:
		return []string{object.Name}
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
