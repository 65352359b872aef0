package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Remove deletes nodes with their volumes.
func (c *Chain) Remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := c.Edit(ctx, name, func(node *v1alpha1.SeiNode) { node.Spec.DataVolume.DeletionPolicy = v1alpha1.DeletionPolicyDelete }); err != nil {
			return err
		}
		node := &v1alpha1.SeiNode{}
		if err := c.Client.Get(ctx, c.Key(name), node); err != nil {
			return err
		}
		if err := errors.Join(c.Client.Delete(ctx, node), c.Gone(ctx, node)); err != nil {
			return err
		}
	}
	return nil
}

// Again deletes a node and makes it anew, on the volume that it left.
func (c *Chain) Again(ctx context.Context, name string) error {
	node := &v1alpha1.SeiNode{}
	if err := c.Client.Get(ctx, c.Key(name), node); err != nil {
		return err
	}
	again := &v1alpha1.SeiNode{ObjectMeta: metav1.ObjectMeta{Namespace: node.Namespace, Name: name, Labels: node.Labels}, Spec: *node.Spec.DeepCopy()}
	if err := c.Client.Delete(ctx, node); err != nil {
		return err
	}
	if err := c.Gone(ctx, node); err != nil {
		return err
	}
	return c.Client.Create(ctx, again)
}

// Orphan deletes the StatefulSet of a node as "kubectl delete --cascade=orphan" does. The
// pod stays, and the StatefulSet that is returned takes it over.
func (c *Chain) Orphan(ctx context.Context, name string) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	if err := c.Client.Get(ctx, c.Key(name), set); err != nil {
		return nil, err
	}
	if err := c.Client.Delete(ctx, set, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		return nil, err
	}
	return Until(ctx, c.Cluster, c.Key(name), "another StatefulSet that has the pod", func(now *appsv1.StatefulSet) bool {
		return now.UID != set.UID && now.Status.ReadyReplicas == 1
	})
}

// Twin copies a validator, and its keys into other Secrets, and returns when the copy is
// refused. The function that it returns removes all of it.
func (c *Chain) Twin(ctx context.Context, i int) (twin *v1alpha1.SeiNode, remove func(context.Context) error, err error) {
	twin = c.Validator(i)
	twin.Name = "twin"
	made := []client.Object{twin}
	for kind, source := range map[string]*v1alpha1.KeySource{"signing-key": twin.Spec.Validator.SigningKey, "node-key": twin.Spec.Validator.NodeKey} {
		secret := &corev1.Secret{}
		if err := c.Client.Get(ctx, c.Key(source.Secret.SecretName), secret); err != nil {
			return nil, nil, err
		}
		copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.ID, Name: "copy-" + kind}, Data: secret.Data}
		if err := c.Client.Create(ctx, copied); err != nil {
			return nil, nil, err
		}
		made, source.Secret.SecretName = append(made, copied), copied.Name
	}
	if err := c.Client.Create(ctx, twin); err != nil {
		return nil, nil, err
	}
	_, err = c.Wait(ctx, twin.Name, "a key that is in use", func(node *v1alpha1.SeiNode) bool {
		return Condition(node, v1alpha1.ConditionSigningKeyReady).Reason == string(v1alpha1.ReasonKeyInUse)
	})
	return twin, func(ctx context.Context) error {
		for _, object := range made {
			if err := errors.Join(c.Client.Delete(ctx, object), c.Gone(ctx, object)); err != nil {
				return err
			}
		}
		return nil
	}, err
}

// Deaf asks for a restart of a seid that ignores SIGTERM: its process is stopped meanwhile.
// Nobody kills it, and no second one is started. The sidecar would wait for as long as a seid
// may take to close its stores; a minute is enough here.
func (c *Chain) Deaf(ctx context.Context, name string) (task *v1alpha1.SeiNodeTask, err error) {
	pod, err := c.Pod(ctx, name)
	if err != nil {
		return nil, err
	}
	before, err := Processes(pod, "seid")
	if err != nil {
		return nil, err
	}
	if err := c.Signal(pod, "seid", syscall.SIGSTOP); err != nil {
		return nil, err
	}
	// Whatever comes of this, nothing stays behind that nobody can end.
	defer func() { err = errors.Join(err, c.Signal(pod, "seid", syscall.SIGCONT)) }()
	task, err = c.Task(ctx, name, v1alpha1.SeiNodeTaskSpec{
		Kind: v1alpha1.TaskKindRestartSeid, RestartSeid: &v1alpha1.RestartSeidPayload{}, TimeoutSeconds: new(int32(60)),
	})
	if err != nil {
		return nil, err
	}
	now, err := Processes(pod, "seid")
	if err == nil && !slices.Equal(now, before) {
		err = fmt.Errorf("seid of %s was process %v and is %v", name, before, now)
	}
	return task, err
}

// Syncing creates a node that begins with a snapshot, and returns when its seid runs.
// It looks for snapshots for a quarter of a minute, so what is done to it next is done in
// the middle of its state sync.
func (c *Chain) Syncing(ctx context.Context, w *Watcher, name string) (*corev1.Pod, error) {
	if err := w.Snapshot(ctx); err != nil {
		return nil, err
	}
	node := c.Node(name, c.StateSync)
	node.Spec.Overrides[discoveryTime] = "15s"
	if err := c.Client.Create(ctx, node); err != nil {
		return nil, err
	}
	pod, err := Until(ctx, c.Cluster, c.Key(name+"-0"), "the container of seid", func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == "seid" && c.State.Running != nil })
	})
	if err != nil {
		return nil, err
	}
	// The process comes later, when the node is approved, and no pod tells of it.
	return pod, Poll(ctx, "a seid that syncs", func() (bool, error) {
		_, err := Processes(pod, "seid")
		return err == nil, err
	})
}

// holdFile makes a node of devchain execute no block while it exists.
const holdFile = SeidHome + "/hold-blocks"

// HoldBlocks has a node execute no block until it is let go.
func (c *Chain) HoldBlocks(pod *corev1.Pod) error {
	file, err := c.File(pod, "seid", holdFile)
	if err != nil {
		return err
	}
	return os.WriteFile(file, nil, 0o644)
}

// LetGo ends that. The sidecar has the same volume, and lives also when seid does not.
func (c *Chain) LetGo(pod *corev1.Pod) error {
	file, err := c.File(pod, "sei-sidecar", holdFile)
	if err != nil {
		return err
	}
	return os.Remove(file)
}

// Ruin makes a node whose volume is ruined: its seid is killed between the end of its state
// sync and the next block. It returns when the node says so.
func (c *Chain) Ruin(ctx context.Context, w *Watcher, name string) error {
	pod, err := c.Syncing(ctx, w, name)
	if err != nil {
		return err
	}
	if err := c.HoldBlocks(pod); err != nil {
		return err
	}
	// RPC opens when the sync is over.
	if err := Poll(ctx, "the end of the state sync", func() (bool, error) {
		_, err := c.RPC(ctx, name, "status")
		return err == nil, err
	}); err != nil {
		return err
	}
	if err := c.Kill(pod, "seid"); err != nil {
		return err
	}
	if _, err := c.Wait(ctx, name, "a volume that is ruined", func(node *v1alpha1.SeiNode) bool {
		return Condition(node, v1alpha1.ConditionReady).Reason == string(v1alpha1.ReasonVolumeRuined)
	}); err != nil {
		return err
	}
	if pod, err = c.Pod(ctx, name); err != nil {
		return err
	}
	return c.LetGo(pod)
}

// Resync has a node begin anew, on the volume that it has.
func (c *Chain) Resync(ctx context.Context, name string) error {
	task, err := c.Task(ctx, name, v1alpha1.SeiNodeTaskSpec{Kind: v1alpha1.TaskKindResyncNode, ResyncNode: &v1alpha1.ResyncNodePayload{}})
	if err == nil && task.Status.Phase != v1alpha1.TaskPhaseComplete {
		err = fmt.Errorf("the resync of %s failed: %s", name, task.Status.Message)
	}
	return err
}

// NodeID is who a node is for its peers, by the key that its seid has on the volume.
func (c *Chain) NodeID(ctx context.Context, name string) (string, error) {
	pod, err := c.Pod(ctx, name)
	if err != nil {
		return "", err
	}
	file, err := c.File(pod, "sei-sidecar", SeidHome+"/config/node_key.json")
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var key struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(content, &key); err != nil {
		return "", fmt.Errorf("the node key of %s: %w", name, err)
	}
	return key.ID, nil
}

// closeFile says how long a seid of devchain takes to close its state, writing all the time.
const closeFile = SeidHome + "/slow-close"

// CloseSlowly has the seid of a pod take so long to close. Whoever kills it meanwhile, also with
// a second signal, tears its state, and it does not start again.
func (c *Chain) CloseSlowly(pod *corev1.Pod, span time.Duration) error {
	file, err := c.File(pod, "sei-sidecar", closeFile)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(span.String()), 0o644)
}

// CloseSoon ends that.
func (c *Chain) CloseSoon(pod *corev1.Pod) error {
	file, err := c.File(pod, "sei-sidecar", closeFile)
	if err != nil {
		return err
	}
	return os.Remove(file)
}
