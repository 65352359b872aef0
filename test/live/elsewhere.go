package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
)

// nonRoot is who runs in the pods of nodes.
const nonRoot = int64(65532)

// Volume is where the data of a claim is on this machine: the lab's volumes are
// directories of its node.
func (c *Chain) Volume(ctx context.Context, claim string) (string, error) {
	bound, err := Until(ctx, c.Cluster, c.Key(claim), "a claim that is bound", func(claim *corev1.PersistentVolumeClaim) bool {
		return claim.Status.Phase == corev1.ClaimBound
	})
	if err != nil {
		return "", err
	}
	volume := &corev1.PersistentVolume{}
	if err := c.Client.Get(ctx, types.NamespacedName{Name: bound.Spec.VolumeName}, volume); err != nil {
		return "", err
	}
	if volume.Spec.Local == nil {
		return "", fmt.Errorf("the volume %s is no directory of the node", volume.Name)
	}
	return filepath.Join("/proc", strconv.Itoa(c.Info.Components["lab"]), "root", volume.Spec.Local.Path), nil
}

// ClaimOf is the claim of a node of the chain.
func (c *Chain) ClaimOf(ctx context.Context, name string) (string, error) {
	node := &v1alpha1.SeiNode{}
	if err := c.Client.Get(ctx, c.Key(name), node); err != nil {
		return "", err
	}
	return render.ClaimName(node), nil
}

// SignState is the height that the sign state on a volume knows of.
func (c *Chain) SignState(ctx context.Context, claim string) (int64, error) {
	dir, err := c.Volume(ctx, claim)
	if err != nil {
		return 0, err
	}
	content, err := os.ReadFile(filepath.Join(dir, "data", "priv_validator_state.json"))
	if err != nil {
		return 0, err
	}
	var state struct {
		Height string `json:"height"`
	}
	if err := json.Unmarshal(content, &state); err != nil {
		return 0, fmt.Errorf("the sign state of %s: %w", claim, err)
	}
	return strconv.ParseInt(state.Height, 10, 64)
}

// CopyVolume makes a claim whose volume has what another one has now. Nothing may write to
// that meanwhile.
func (c *Chain) CopyVolume(ctx context.Context, from, to string) error {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.ID, Name: to},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if err := c.Client.Create(ctx, claim); err != nil {
		return err
	}
	return c.RevertVolume(ctx, to, from)
}

// CloneVolume does the same with the volume of a pod whose seid runs. The process stands
// still meanwhile, so that the copy is what a snapshot of the whole volume would be: the
// state at one moment, and nothing closed.
func (c *Chain) CloneVolume(ctx context.Context, pod *corev1.Pod, from, to string) (err error) {
	if err := c.Signal(pod, "seid", syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Signal(pod, "seid", syscall.SIGCONT)) }()
	return c.CopyVolume(ctx, from, to)
}

// RevertVolume puts a volume back to what is on another one, in its place: claim, volume and
// all their uids stay.
func (c *Chain) RevertVolume(ctx context.Context, claim, to string) error {
	target, err := c.Volume(ctx, claim)
	if err != nil {
		return err
	}
	source, err := c.Volume(ctx, to)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(target)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(target, entry.Name())); err != nil {
			return err
		}
	}
	// With owners and times, as whoever restores a volume has them.
	if output, err := exec.CommandContext(ctx, "cp", "--archive", source+"/.", target).CombinedOutput(); err != nil {
		return fmt.Errorf("copying the volume of %s to %s: %w\n%s", to, claim, err, output)
	}
	return nil
}

// Elsewhere lets a validator of the genesis live on a claim as it would in another cluster:
// nothing of it is an object that the operator knows of. It has the signing key and the
// volume of the validator, and another node key. It is a peer of all others, and signs.
func (c *Chain) Elsewhere(ctx context.Context, i int, claim string) (*corev1.Pod, error) {
	dir, err := c.Volume(ctx, claim)
	if err != nil {
		return nil, err
	}
	// seid makes itself another one.
	if err := os.RemoveAll(filepath.Join(dir, "config", "node_key.json")); err != nil {
		return nil, err
	}
	const key = "priv_validator_key.json"
	source := c.Validator(i).Spec.Validator.SigningKey.Secret.SecretName
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.ID, Name: claim},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(nonRoot), RunAsGroup: new(nonRoot), FSGroup: new(nonRoot)},
			// Nobody needs its volume afterwards, and one that is stopped ends by SIGKILL alone.
			TerminationGracePeriodSeconds: new(int64(1)),
			AutomountServiceAccountToken:  new(false),
			Containers: []corev1.Container{{
				Name: "seid", Image: ImageV1, Args: []string{"start", "--home", SeidHome, "--chain-id", c.ID},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "data", MountPath: SeidHome},
					{Name: "key", MountPath: SeidHome + "/config/" + key, SubPath: key, ReadOnly: true},
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}},
				{Name: "key", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: source, DefaultMode: new(int32(0o440))}}},
			},
		},
	}
	return pod, c.Client.Create(ctx, pod)
}

// End deletes a pod that is no node's, and waits until it is gone. Whatever runs in it signs
// nothing more, also if it is stopped: that is not continued.
func (c *Chain) End(ctx context.Context, pod *corev1.Pod) error {
	if err := c.Client.Delete(ctx, pod); client.IgnoreNotFound(err) != nil {
		return err
	}
	return c.Gone(ctx, pod)
}

// Leave deletes a node and leaves its volume.
func (c *Chain) Leave(ctx context.Context, name string) error {
	node := &v1alpha1.SeiNode{}
	if err := c.Client.Get(ctx, c.Key(name), node); err != nil {
		return err
	}
	return errors.Join(c.Client.Delete(ctx, node), c.Gone(ctx, node))
}

// Starts is how often the container of seid was started in a pod of a node.
func Starts(pod *corev1.Pod) int32 {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool { return status.Name == "seid" })
	if i < 0 {
		return 0
	}
	return pod.Status.ContainerStatuses[i].RestartCount + 1
}

// Annotate sets an annotation of a node, as "kubectl annotate --overwrite" does.
func (c *Chain) Annotate(ctx context.Context, name, annotation, value string) error {
	return c.Edit(ctx, name, func(node *v1alpha1.SeiNode) {
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		node.Annotations[annotation] = value
	})
}

// SigningKey is the public key that a Secret of the chain holds, as messages name it.
func (c *Chain) SigningKey(ctx context.Context, secret string) (string, error) {
	object := &corev1.Secret{}
	if err := c.Client.Get(ctx, c.Key(secret), object); err != nil {
		return "", err
	}
	var content struct {
		PublicKey struct {
			Value string `json:"value"`
		} `json:"pub_key"`
	}
	err := json.Unmarshal(object.Data["priv_validator_key.json"], &content)
	return strings.TrimSpace(content.PublicKey.Value), err
}
