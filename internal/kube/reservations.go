package kube

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
)

// Namespace is the operator's own.
func (c *Client) Namespace() string { return c.namespace }

// Reservation is the Lease of this name.
func (c *Client) Reservation(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, c.cached.Get(ctx, types.NamespacedName{Namespace: c.namespace, Name: name}, lease)
}

// ReservationLive asks the API server for it.
func (c *Client) ReservationLive(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, c.live.Get(ctx, types.NamespacedName{Namespace: c.namespace, Name: name}, lease)
}

// ReservationsOf are the Leases that a node holds.
func (c *Client) ReservationsOf(ctx context.Context, holder types.UID) ([]coordinationv1.Lease, error) {
	var list coordinationv1.LeaseList
	err := c.cached.List(ctx, &list, client.InNamespace(c.namespace), client.MatchingFields{indexHolder: string(holder)})
	return list.Items, err
}

// NodesWithReservation are the SeiNodes that have a Lease in their status.
func (c *Client) NodesWithReservation(ctx context.Context, name string) ([]v1alpha1.SeiNode, error) {
	return c.nodesBy(ctx, indexReservation, name)
}

// NodesWithSecret are the SeiNodes that name a Secret.
func (c *Client) NodesWithSecret(ctx context.Context, secret types.NamespacedName) ([]v1alpha1.SeiNode, error) {
	return c.nodesBy(ctx, indexSecret, secret.Name, client.InNamespace(secret.Namespace))
}

// AllSeiNodes are all that are looked after. They are shared with the cache and must not
// be changed.
func (c *Client) AllSeiNodes(ctx context.Context) ([]v1alpha1.SeiNode, error) {
	var list v1alpha1.SeiNodeList
	err := c.cached.List(ctx, &list, client.UnsafeDisableDeepCopy)
	return list.Items, err
}

func (c *Client) nodesBy(ctx context.Context, index, value string, options ...client.ListOption) ([]v1alpha1.SeiNode, error) {
	var list v1alpha1.SeiNodeList
	err := c.cached.List(ctx, &list, append(options, client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy)...)
	return list.Items, err
}

// SecretMetadata is what a cache may hold of a Secret.
func (c *Client) SecretMetadata(ctx context.Context, key types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret, c.metadata.Get(ctx, key, secret)
}

// SecretMetadataLive asks the API server for it.
func (c *Client) SecretMetadataLive(ctx context.Context, key types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret, c.live.Get(ctx, key, secret)
}

// Reserve makes a Lease. That it does not exist yet is what decides between two who
// want it.
func (c *Client) Reserve(ctx context.Context, lease *coordinationv1.Lease) error {
	lease.Namespace = c.namespace
	return c.around(ctx, writeOf("create", "Lease", "", lease), func(ctx context.Context) error {
		return c.cached.Create(ctx, lease, client.FieldOwner(render.FieldManager))
	})
}

// ChangeReservation writes a Lease, unless somebody wrote it since it was read.
func (c *Client) ChangeReservation(ctx context.Context, before, after *coordinationv1.Lease) error {
	return c.around(ctx, writeOf("patch", "Lease", "", after), func(ctx context.Context) error {
		return c.cached.Patch(ctx, after, sinceRead(before), client.FieldOwner(render.FieldManager))
	})
}

// LetGo deletes a Lease and removes its finalizer. A Lease that records what a key signed
// stays without a holder, unless that is to be forgotten: the next node with the key
// needs that record. A Lease that was deleted while its node ran keeps its finalizer, or
// the record would be lost.
func (c *Client) LetGo(ctx context.Context, lease *coordinationv1.Lease, forget bool) error {
	if lease.Annotations[v1alpha1.AnnotationSigned] != "" && !forget {
		after := lease.DeepCopy()
		after.Spec.HolderIdentity = nil
		delete(after.Annotations, v1alpha1.AnnotationHolder)
		if lease.DeletionTimestamp == nil {
			controllerutil.RemoveFinalizer(after, v1alpha1.FinalizerReservation)
		}
		return ignoreNotFound(c.ChangeReservation(ctx, lease, after))
	}
	if lease.DeletionTimestamp == nil {
		if err := c.Delete(ctx, "Lease", lease); err != nil {
			return ignoreNotFound(err)
		}
		var err error
		if lease, err = c.Reservation(ctx, lease.Name); err != nil {
			return ignoreNotFound(err)
		}
	}
	after := lease.DeepCopy()
	if !controllerutil.RemoveFinalizer(after, v1alpha1.FinalizerReservation) {
		return nil
	}
	return ignoreNotFound(c.ChangeReservation(ctx, lease, after))
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
