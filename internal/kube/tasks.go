package kube

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
)

// selectTarget is the field of a SeiNodeTask by which the API server selects.
const selectTarget = "spec.target.nodeRef.name"

// Tasks are the SeiNodeTasks for a node of which something is left to do, oldest
// first.
func (c *Client) Tasks(ctx context.Context, node types.NamespacedName) ([]v1alpha1.SeiNodeTask, error) {
	var list v1alpha1.SeiNodeTaskList
	err := c.cached.List(ctx, &list, client.InNamespace(node.Namespace), client.MatchingFields{indexTarget: node.Name})
	return oldestFirst(list.Items), err
}

// TasksLive are all SeiNodeTasks for a node, asked of the API server: the one look
// before the node's pod is stopped.
func (c *Client) TasksLive(ctx context.Context, node types.NamespacedName) ([]v1alpha1.SeiNodeTask, error) {
	var list v1alpha1.SeiNodeTaskList
	err := c.live.List(ctx, &list, client.InNamespace(node.Namespace), client.MatchingFields{selectTarget: node.Name})
	return oldestFirst(list.Items), err
}

// FleetTasks are the SeiNodeTasks of a namespace that have not ended and are about
// more nodes than the one they name.
func (c *Client) FleetTasks(ctx context.Context, namespace string) ([]v1alpha1.SeiNodeTask, error) {
	var list v1alpha1.SeiNodeTaskList
	err := c.cached.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{indexSelecting: indexSelecting})
	return list.Items, err
}

// oldestFirst sorts; of those that were made in the same second the name decides, so
// that everybody has the same order.
func oldestFirst(tasks []v1alpha1.SeiNodeTask) []v1alpha1.SeiNodeTask {
	slices.SortFunc(tasks, func(a, b v1alpha1.SeiNodeTask) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return tasks
}

// PatchTaskStatus writes the status of a SeiNodeTask, unless somebody wrote it since
// it was read.
func (c *Client) PatchTaskStatus(ctx context.Context, before, after *v1alpha1.SeiNodeTask) error {
	return c.around(ctx, writeOf("patch", "SeiNodeTask", "status", after), func(ctx context.Context) error {
		return c.cached.Status().Patch(ctx, after, sinceRead(before), client.FieldOwner(render.FieldManager))
	})
}

// PatchImage gives a node another image, unless somebody wrote the node since it was
// read. A node of the same name that took its place was written since.
func (c *Client) PatchImage(ctx context.Context, node *v1alpha1.SeiNode, image string) error {
	after := node.DeepCopy()
	after.Spec.Image = image
	return c.around(ctx, writeOf("patch", "SeiNode", "", after), func(ctx context.Context) error {
		return c.cached.Patch(ctx, after, sinceRead(node), client.FieldOwner(render.FieldManager))
	})
}
