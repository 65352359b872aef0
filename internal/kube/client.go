// Package kube is how the controllers reach the API server, and the only way: a
// lint rule keeps every other package of theirs from a client of its own.
//
// It offers the few acts that the operator is made of and no others. Each act that
// changes something goes through one function, so that a test can enumerate all of
// them and end the operator before and after each.
package kube

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
)

// Object is any object of the API server.
type Object = client.Object

// Write is an act that changes something in the API server.
type Write struct {
	Verb        string // apply, create, delete or patch
	Kind        string
	Subresource string
	Key         types.NamespacedName
}

func (w Write) String() string {
	kind := w.Kind
	if w.Subresource != "" {
		kind += "/" + w.Subresource
	}
	return fmt.Sprintf("%s %s %s", w.Verb, kind, w.Key)
}

// Around is called around every act that changes something. It calls do, or does
// not, and what it returns is what the caller gets.
type Around func(ctx context.Context, write Write, do func(context.Context) error) error

// Options are what a client is made of.
type Options struct {
	// Cached answers reads, and gives back what was written through it before.
	Cached client.Client
	// Metadata answers reads of the metadata of Secrets, whose data is in no cache.
	Metadata client.Reader
	// Live asks the API server.
	Live client.Reader
	// Namespace is the operator's own, where the reservations are.
	Namespace string
	// Around may be nil.
	Around Around
}

// Client reaches the API server.
type Client struct {
	cached    client.Client
	metadata  client.Reader
	live      client.Reader
	namespace string
	around    Around
}

// New makes a client.
func New(o Options) *Client {
	if o.Around == nil {
		o.Around = func(ctx context.Context, _ Write, do func(context.Context) error) error { return do(ctx) }
	}
	return &Client{cached: o.Cached, metadata: o.Metadata, live: o.Live, namespace: o.Namespace, around: o.Around}
}

// Get reads an object from the cache.
func (c *Client) Get(ctx context.Context, key types.NamespacedName, object Object) error {
	return c.cached.Get(ctx, key, object)
}

// GetLive asks the API server. It is for Secrets, whose data no cache shall hold,
// and for the one look before something is destroyed.
func (c *Client) GetLive(ctx context.Context, key types.NamespacedName, object Object) error {
	return c.live.Get(ctx, key, object)
}

// SeiNodes are those in a namespace that have all of these labels.
func (c *Client) SeiNodes(ctx context.Context, namespace string, labels map[string]string) ([]v1alpha1.SeiNode, error) {
	var list v1alpha1.SeiNodeList
	err := c.cached.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels(labels))
	return list.Items, err
}

// PodsWithClaim are the pods that mount a claim, whoever made them. They are those of
// the cache, and not to be changed.
func (c *Client) PodsWithClaim(ctx context.Context, claim types.NamespacedName) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := c.cached.List(ctx, &list, client.InNamespace(claim.Namespace), client.MatchingFields{indexClaim: claim.Name}, client.UnsafeDisableDeepCopy)
	return list.Items, err
}

// NodesWithClaim are the names of the SeiNodes whose data is on a claim.
func (c *Client) NodesWithClaim(ctx context.Context, claim types.NamespacedName) ([]string, error) {
	var list v1alpha1.SeiNodeList
	err := c.cached.List(ctx, &list, client.InNamespace(claim.Namespace), client.MatchingFields{indexClaim: claim.Name}, client.UnsafeDisableDeepCopy)
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names, err
}

// Chain are the SeiNodes of a chain.
func (c *Client) Chain(ctx context.Context, chainID string) ([]v1alpha1.SeiNode, error) {
	var list v1alpha1.SeiNodeList
	err := c.cached.List(ctx, &list, client.MatchingFields{indexChain: chainID})
	return list.Items, err
}

// Fleet are the SeiNodes of a name that a fleet gives, whoever made them. They are shared
// with the cache and must not be changed.
func (c *Client) Fleet(ctx context.Context, fleet types.NamespacedName) ([]v1alpha1.SeiNode, error) {
	var list v1alpha1.SeiNodeList
	err := c.cached.List(ctx, &list, client.InNamespace(fleet.Namespace), client.MatchingFields{indexFleet: fleet.Name}, client.UnsafeDisableDeepCopy)
	return list.Items, err
}

// Applicable is an object as the operator wants it.
type Applicable interface {
	runtime.ApplyConfiguration
	GetKind() *string
	GetName() *string
	GetNamespace() *string
}

// Apply makes an object what the operator wants it to be, in the fields that are
// set and no others, and returns it as it then is. A resourceVersion or uid in it
// is a precondition.
func Apply[T any, P interface {
	*T
	Applicable
}](ctx context.Context, c *Client, want P,
) (P, error) {
	return ApplyAs(ctx, c, render.FieldManager, want)
}

// ApplyAs is Apply in the name of another field manager.
func ApplyAs[T any, P interface {
	*T
	Applicable
}](ctx context.Context, c *Client, manager string, want P,
) (P, error) {
	// The answer of the API server is read into what is sent, so a copy is sent.
	content, err := json.Marshal(want)
	if err != nil {
		return nil, fmt.Errorf("preparing %s %s: %w", *want.GetKind(), *want.GetName(), err)
	}
	applied := P(new(T))
	if err := json.Unmarshal(content, applied); err != nil {
		return nil, fmt.Errorf("preparing %s %s: %w", *want.GetKind(), *want.GetName(), err)
	}
	write := Write{Verb: "apply", Kind: *want.GetKind(), Key: types.NamespacedName{Namespace: *want.GetNamespace(), Name: *want.GetName()}}
	err = c.around(ctx, write, func(ctx context.Context) error {
		return c.cached.Apply(ctx, applied, append(consistency(*want.GetKind()), client.FieldOwner(manager), client.ForceOwnership)...)
	})
	return applied, err
}

// consistency keeps a write of a Secret from being waited for in the cache: for that
// the cache would have to hold Secrets with their data, and would begin to.
func consistency(kind string) []client.ApplyOption {
	if kind == "Secret" {
		return []client.ApplyOption{client.DisableReadYourWritesConsistency}
	}
	return nil
}

// OnDelete makes a StatefulSet leave its pods alone. Server-side apply cannot do so
// for one that rolled its pods before: it cannot remove what it does not own.
func (c *Client) OnDelete(ctx context.Context, set *appsv1.StatefulSet) error {
	after := set.DeepCopy()
	after.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	return c.around(ctx, writeOf("patch", "StatefulSet", "", after), func(ctx context.Context) error {
		if err := c.cached.Patch(ctx, after, sinceRead(set), client.FieldOwner(render.FieldManager)); err != nil {
			return err
		}
		after.DeepCopyInto(set)
		return nil
	})
}

// RemoveFields takes fields out of a StatefulSet that somebody else put there, and
// writes down on it which. Server-side apply cannot: it removes only what it owns.
func (c *Client) RemoveFields(ctx context.Context, set *appsv1.StatefulSet, fields *fieldpath.Set, note string) error {
	after, err := without(set, fields)
	if err != nil {
		return fmt.Errorf("taking out of StatefulSet %s what somebody else put there: %w", set.Name, err)
	}
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, v1alpha1.AnnotationRemovedFromTemplate, note)
	return c.around(ctx, writeOf("patch", "StatefulSet", "", after), func(ctx context.Context) error {
		return c.cached.Patch(ctx, after, sinceRead(set), client.FieldOwner(render.FieldManager))
	})
}

// without is a StatefulSet without some fields.
func without(set *appsv1.StatefulSet, fields *fieldpath.Set) (*appsv1.StatefulSet, error) {
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	converter := applyconfigurations.NewTypeConverter(scheme)
	whole := set.DeepCopy()
	whole.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
	typed, err := converter.ObjectToTyped(whole)
	if err != nil {
		return nil, err
	}
	rest, err := converter.TypedToObject(typed.RemoveItems(fields))
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(rest)
	if err != nil {
		return nil, err
	}
	after := &appsv1.StatefulSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, after); err != nil {
		return nil, err
	}
	after.TypeMeta = set.TypeMeta
	return after, nil
}

// MustNotExist is the resourceVersion that makes Apply fail with a conflict when
// there is an object of that name already. No object ever has it.
const MustNotExist = "1"

// CreateClaim makes the claim of a data volume.
func (c *Client) CreateClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	return c.around(ctx, writeOf("create", "PersistentVolumeClaim", "", claim), func(ctx context.Context) error {
		return c.cached.Create(ctx, claim, client.FieldOwner(render.FieldManager))
	})
}

// ExpandClaim asks for a larger volume.
func (c *Client) ExpandClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, size resource.Quantity) error {
	after := claim.DeepCopy()
	after.Spec.Resources.Requests[corev1.ResourceStorage] = size
	return c.around(ctx, writeOf("patch", "PersistentVolumeClaim", "", after), func(ctx context.Context) error {
		if err := c.cached.Patch(ctx, after, sinceRead(claim), client.FieldOwner(render.FieldManager)); err != nil {
			return err
		}
		after.DeepCopyInto(claim)
		return nil
	})
}

// Delete deletes exactly the object that was seen, never another of its name that
// took its place since.
func (c *Client) Delete(ctx context.Context, kind string, object Object) error {
	return c.around(ctx, writeOf("delete", kind, "", object), func(ctx context.Context) error {
		uid := object.GetUID()
		return c.cached.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	})
}

// PatchStatus writes the status of a node, unless somebody wrote the node since it
// was read.
func (c *Client) PatchStatus(ctx context.Context, before, after *v1alpha1.SeiNode) error {
	return c.patchStatus(ctx, "SeiNode", before, after)
}

// PatchFleetStatus writes the status of a fleet, unless somebody wrote the fleet since it
// was read.
func (c *Client) PatchFleetStatus(ctx context.Context, before, after *v1alpha1.SeiNodeDeployment) error {
	return c.patchStatus(ctx, "SeiNodeDeployment", before, after)
}

func (c *Client) patchStatus(ctx context.Context, kind string, before, after Object) error {
	return c.around(ctx, writeOf("patch", kind, "status", after), func(ctx context.Context) error {
		return c.cached.Status().Patch(ctx, after, sinceRead(before), client.FieldOwner(render.FieldManager))
	})
}

// PatchMetadata writes labels, annotations and finalizers, unless somebody wrote
// the object since it was read. The rest is not sent, so that no rule about it can
// be in the way.
func (c *Client) PatchMetadata(ctx context.Context, kind string, before, after Object) error {
	return c.around(ctx, writeOf("patch", kind, "", after), func(ctx context.Context) error {
		return c.cached.Patch(ctx, after, sinceRead(before), client.FieldOwner(render.FieldManager))
	})
}

func sinceRead(before Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

func writeOf(verb, kind, subresource string, object Object) Write {
	return Write{Verb: verb, Kind: kind, Subresource: subresource, Key: client.ObjectKeyFromObject(object)}
}
