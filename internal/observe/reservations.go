package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
)

// Leases looks at the reservations that a node holds or wishes to hold. What it
// wishes follows from its keys, so these are looked at before.
func Leases(ctx context.Context, k *kube.Client, in plan.Input) (map[string]plan.Lease, error) {
	held, err := k.ReservationsOf(ctx, in.Node.UID)
	if err != nil {
		return nil, fmt.Errorf("finding the reservations of node %s/%s: %w", in.Node.Namespace, in.Node.Name, err)
	}
	found := map[string]plan.Lease{}
	for i := range held {
		if found[held[i].Name], err = leaseOf(ctx, k, in.Node, &held[i]); err != nil {
			return nil, err
		}
	}
	for _, name := range plan.Looked(in) {
		if _, known := found[name]; known {
			continue
		}
		lease, err := k.Reservation(ctx, name)
		switch {
		case apierrors.IsNotFound(err):
			// Somebody may have deleted it while a node runs by it.
			if others, err := recordedBy(ctx, k, in.Node, name); err != nil {
				return nil, err
			} else if len(others) > 0 {
				found[name] = plan.Lease{Recorded: others}
			}
		case err != nil:
			return nil, fmt.Errorf("reading the Lease %s: %w", name, err)
		default:
			if found[name], err = leaseOf(ctx, k, in.Node, lease); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

func leaseOf(ctx context.Context, k *kube.Client, node *v1alpha1.SeiNode, lease *coordinationv1.Lease) (plan.Lease, error) {
	found := plan.Lease{
		Kind:            v1alpha1.ReservationKind(lease.Labels[v1alpha1.LabelReservation]),
		HolderName:      lease.Annotations[v1alpha1.AnnotationHolder],
		ResourceVersion: lease.ResourceVersion,
		Bootstrapped:    types.UID(lease.Annotations[v1alpha1.AnnotationBootstrapped]),
	}
	if text := lease.Annotations[v1alpha1.AnnotationSigned]; text != "" && json.Unmarshal([]byte(text), &found.Signed) != nil {
		found.Signed, found.Unreadable = plan.SignRecord{}, true
	}
	if lease.Spec.RenewTime != nil {
		found.Renewed = lease.Spec.RenewTime.Time
	}
	if lease.Spec.HolderIdentity != nil {
		found.Holder = types.UID(*lease.Spec.HolderIdentity)
	}
	var err error
	if found.Recorded, err = recordedBy(ctx, k, node, lease.Name); err != nil || found.Holder == node.UID {
		return found, err
	}
	if found.Holder == "" && found.HolderName == "" {
		found.Abandoned = true // it was let go of
		return found, nil
	}
	found.Abandoned, err = abandoned(ctx, k, found)
	return found, err
}

// recordedBy are the other SeiNodes that have a Lease in their status.
func recordedBy(ctx context.Context, k *kube.Client, node *v1alpha1.SeiNode, name string) ([]string, error) {
	nodes, err := k.NodesWithReservation(ctx, name)
	var others []string
	for i := range nodes {
		if nodes[i].UID != node.UID {
			others = append(others, nodes[i].Namespace+"/"+nodes[i].Name)
		}
	}
	return others, err
}

// abandoned tells whether the holder of a Lease does not exist any more, and neither
// does its pod. The API server is asked: what is taken from somebody who lives is
// signed with twice.
func abandoned(ctx context.Context, k *kube.Client, lease plan.Lease) (bool, error) {
	namespace, name, named := strings.Cut(lease.HolderName, "/")
	if !named {
		return false, nil // nobody can tell whose it is
	}
	holder := &v1alpha1.SeiNode{}
	holder.Namespace, holder.Name = namespace, name
	switch err := k.GetLive(ctx, types.NamespacedName{Namespace: namespace, Name: name}, holder); {
	case err != nil && !apierrors.IsNotFound(err):
		return false, fmt.Errorf("looking for the SeiNode %s, which holds a reservation: %w", lease.HolderName, err)
	case err == nil && holder.UID == lease.Holder:
		return false, nil
	}
	err := k.GetLive(ctx, types.NamespacedName{Namespace: namespace, Name: render.PodName(holder)}, &corev1.Pod{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("looking for the pod of the SeiNode %s, which holds a reservation: %w", lease.HolderName, err)
	}
	return apierrors.IsNotFound(err), nil
}
