package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OperatorNamespace is where the operator is, OperatorName what it is called there.
const (
	OperatorNamespace = "sei-system"
	OperatorName      = "sei-operator"
)

// The images of this tree, as the lab's node has them. The first two can upgrade one
// another, the third is nowhere.
const (
	ImageV1      = "sei-operator.lab/seid:v1"
	ImageV2      = "sei-operator.lab/seid:v2"
	ImageMissing = "sei-operator.lab/seid:nowhere"

	// ImageNextSidecar is the sidecar that another operator would bring.
	ImageNextSidecar = "sei-operator.lab/sei-sidecar:next"

	imageStateSize = "sei-operator.lab/state-size:1"
)

// manifests are the parts of config/ in the order in which the README installs them. The
// policies come before the operator: nothing that it makes is ever without them.
func manifests(policies bool) []string {
	parts := []string{"crd/*", "rbac/*", "access/people"}
	if policies {
		parts = append(parts, "access/policy")
	}
	return append(parts, "access/proxy", "operator/*")
}

// InstallOperator installs what config/ ships, with the images of this tree, and waits
// until the operator is at work. The policies keep people from deleting a validator by
// accident; tests that delete validators by the dozen do without.
func (c *Cluster) InstallOperator(ctx context.Context, policies bool) error {
	// One that is there already may be of the tree as it was: the name of its image is the
	// same, so nothing else would replace it.
	if err := client.IgnoreNotFound(c.StopOperator(ctx)); err != nil {
		return err
	}
	for _, part := range manifests(policies) {
		if err := c.install(ctx, part, "registry.example.com/sei/", "sei-operator.lab/"); err != nil {
			return err
		}
	}
	return c.OperatorAtWork(ctx)
}

// install applies manifests of config/, with something else in the place of what they say.
func (c *Cluster) install(ctx context.Context, part, old, now string) error {
	files, err := filepath.Glob(filepath.Join(c.programs.root, "config", part+".yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		manifest, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if old != "" {
			manifest = bytes.ReplaceAll(manifest, []byte(old), []byte(now))
		}
		if err := c.Apply(ctx, manifest); err != nil {
			return fmt.Errorf("installing %s: %w", file, err)
		}
	}
	return nil
}

// OperatorAtWork waits until the operator's Deployment is as wanted, and a pod of it that is
// ready has the Lease. The Deployment alone may speak of a pod that was killed just now.
func (c *Cluster) OperatorAtWork(ctx context.Context) error {
	key := types.NamespacedName{Namespace: OperatorNamespace, Name: OperatorName}
	if _, err := Until(ctx, c, key, "the operator at work", func(d *appsv1.Deployment) bool {
		return d.Status.ObservedGeneration == d.Generation && d.Status.ReadyReplicas == *d.Spec.Replicas && d.Status.UnavailableReplicas == 0
	}); err != nil {
		return err
	}
	return Poll(ctx, "an operator that leads", func() (leads bool, err error) {
		lease := &coordinationv1.Lease{}
		if err := c.Client.Get(ctx, key, lease); err != nil {
			return false, err
		}
		err = c.operatorPods(ctx, func(pod *corev1.Pod) error {
			leads = leads || PodReady(pod) && pod.DeletionTimestamp == nil && strings.HasPrefix(holder(lease), pod.Name+"_")
			return nil
		})
		return leads, err
	})
}

// holder is who has a Lease: the name of a pod, and of a process in it.
func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// StopOperator ends the operator and waits until it is gone. StartOperator starts it.
func (c *Cluster) StopOperator(ctx context.Context) error {
	if err := c.scaleOperator(ctx, 0); err != nil {
		return err
	}
	return c.operatorPods(ctx, func(pod *corev1.Pod) error {
		return c.Gone(ctx, pod)
	})
}

// StartOperator starts the operator and waits until it is at work.
func (c *Cluster) StartOperator(ctx context.Context) error {
	if err := c.scaleOperator(ctx, 1); err != nil {
		return err
	}
	return c.OperatorAtWork(ctx)
}

// KillOperator ends the operator in the middle of whatever it does: the process is
// killed, and its Deployment starts another at once. That one would wait for the Lease
// of the dead one to run out, which is 15 s of nothing; it is taken away. It tells whether
// there was one to kill.
func (c *Cluster) KillOperator(ctx context.Context) (killed bool, err error) {
	if killed, err = c.killOperator(ctx); err != nil {
		return killed, err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: OperatorName}}
	return killed, client.IgnoreNotFound(c.Client.Delete(ctx, lease))
}

// KillLeader ends the operator likewise, but leaves its Lease, and waits until the next one
// has taken that over. It returns the Lease as it was and as it is.
func (c *Cluster) KillLeader(ctx context.Context) (before, after *coordinationv1.Lease, err error) {
	key := types.NamespacedName{Namespace: OperatorNamespace, Name: OperatorName}
	before, err = Until(ctx, c, key, "a leader", func(lease *coordinationv1.Lease) bool { return holder(lease) != "" })
	if err != nil {
		return nil, nil, err
	}
	if _, err := c.killOperator(ctx); err != nil {
		return nil, nil, err
	}
	after, err = Until(ctx, c, key, "another leader", func(lease *coordinationv1.Lease) bool {
		return holder(lease) != "" && holder(lease) != holder(before)
	})
	return before, after, err
}

func (c *Cluster) killOperator(ctx context.Context) (killed bool, err error) {
	err = c.operatorPods(ctx, func(pod *corev1.Pod) error {
		switch err := c.Kill(pod, OperatorName); {
		case errors.Is(err, errNoProcess):
			return nil
		case err != nil:
			return err
		}
		killed = true
		// Kubernetes would make it wait longer each time.
		return client.IgnoreNotFound(c.Client.Delete(ctx, pod, client.GracePeriodSeconds(1)))
	})
	return killed, err
}

func (c *Cluster) operatorPods(ctx context.Context, do func(*corev1.Pod) error) error {
	pods := &corev1.PodList{}
	if err := c.Client.List(ctx, pods, client.InNamespace(OperatorNamespace), client.MatchingLabels{"app.kubernetes.io/name": OperatorName}); err != nil {
		return err
	}
	for i := range pods.Items {
		if err := do(&pods.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) scaleOperator(ctx context.Context, replicas int32) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: OperatorName}}
	return c.Client.Patch(ctx, deployment, client.RawPatch(types.MergePatchType, patch))
}

// BringSidecar has the operator bring another sidecar to its nodes, as a later one would.
func (c *Cluster) BringSidecar(ctx context.Context, image string) error {
	const patch = `{"spec":{"template":{"spec":{"containers":[{"name":%q,"env":[{"name":"SEI_SIDECAR_IMAGE","value":%q}]}]}}}}`
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: OperatorName}}
	return c.Client.Patch(ctx, deployment, client.RawPatch(types.StrategicMergePatchType, fmt.Appendf(nil, patch, OperatorName, image)))
}

// Apply applies manifests, as "kubectl apply --server-side" does. A kind that was
// defined a moment ago may take a moment to be known.
func (c *Cluster) Apply(ctx context.Context, manifests []byte) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(object); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(object.Object) == 0:
			continue
		}
		if err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("stories"), client.ForceOwnership); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// Gone waits until an object is no longer there, also if another of its name is.
func (c *Cluster) Gone(ctx context.Context, object client.Object) error {
	uid, key := object.GetUID(), client.ObjectKeyFromObject(object)
	return Poll(ctx, fmt.Sprintf("the end of %T %s", object, key), func() (bool, error) {
		err := c.Client.Get(ctx, key, object)
		return apierrors.IsNotFound(err) || err == nil && object.GetUID() != uid, client.IgnoreNotFound(err)
	})
}
