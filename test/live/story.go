package live

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// ScheduleUpgrade has the chain halt before a height until its nodes have a binary that
// knows the upgrade.
func (c *Chain) ScheduleUpgrade(ctx context.Context, name string, height int64) error {
	pod, err := c.Pod(ctx, "archive")
	if err != nil {
		return err
	}
	output, err := c.inside(ctx, c.programs.devchain(), "upgrade", "--host", pod.Status.PodIP, "--name", name,
		"--height", strconv.FormatInt(height, 10)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("scheduling the upgrade %s: %w\n%s", name, err, output)
	}
	return nil
}

// HaltedAt waits until so many of some nodes stand before the height of an upgrade, and say
// so. One that did not get the block before it, because those that had it had halted, lives
// on below: it says so after a minute in which no block came.
func (c *Chain) HaltedAt(ctx context.Context, w *Watcher, height int64, count int, names ...string) error {
	if err := w.Until(ctx, fmt.Sprintf("the chain to reach %d", height-1), func(r *Record) bool { return r.Height() >= height-1 }); err != nil {
		return err
	}
	if err := Poll(ctx, fmt.Sprintf("%d nodes that are halted", count), func() (bool, error) {
		halted := 0
		for _, name := range names {
			node := &v1alpha1.SeiNode{}
			if err := c.Client.Get(ctx, c.Key(name), node); err != nil {
				return false, err
			}
			if Condition(node, v1alpha1.ConditionUpgradeHalted).Status == metav1.ConditionTrue {
				halted++
			}
		}
		return halted >= count, nil
	}); err != nil {
		return err
	}
	if now := w.Height(); now >= height {
		return fmt.Errorf("the chain is at %d, and was to halt before %d", now, height)
	}
	return nil
}

// MeasureState runs a Job on the volume of a node, which has to be paused, and returns
// the bytes in each part of the node's home.
func (c *Chain) MeasureState(ctx context.Context, name string) (map[string]int64, error) {
	node := &v1alpha1.SeiNode{}
	if err := c.Client.Get(ctx, c.Key(name), node); err != nil {
		return nil, err
	}
	if node.Status.DataVolume == nil {
		return nil, fmt.Errorf("%s has no volume", name)
	}
	user := int64(65532)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.ID, GenerateName: "state-size-"},
		Spec: batchv1.JobSpec{BackoffLimit: new(int32), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy:   corev1.RestartPolicyNever,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: &user, RunAsGroup: &user, FSGroup: &user},
			Containers: []corev1.Container{{
				Name: "state-size", Image: imageStateSize, Args: []string{"/volume"},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/volume", ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: node.Status.DataVolume.Name, ReadOnly: true},
			}}},
		}}},
	}
	if err := c.Client.Create(ctx, job); err != nil {
		return nil, err
	}
	if _, err := Until(ctx, c.Cluster, c.Key(job.Name), "the end of the Job", func(job *batchv1.Job) bool {
		return job.Status.Succeeded+job.Status.Failed > 0
	}); err != nil {
		return nil, err
	}
	output, err := c.kubectl(ctx, "logs", "job/"+job.Name)
	if err != nil {
		return nil, err
	}
	var sizes map[string]int64
	if err := json.Unmarshal(output, &sizes); err != nil {
		return nil, fmt.Errorf("the Job said %q: %w", output, err)
	}
	return sizes, nil
}

// kubectl runs kubectl in the chain's namespace.
func (c *Chain) kubectl(ctx context.Context, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, c.Info.Kubectl, append([]string{"--kubeconfig", c.Info.Kubeconfig, "--namespace", c.ID}, arguments...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("kubectl %v: %w\n%s", arguments, err, output)
	}
	return output, nil
}

// RPC asks a node whose RPC others reach, through the API server.
func (c *Chain) RPC(ctx context.Context, node, path string) ([]byte, error) {
	return c.kubectl(ctx, "get", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/%s-0:26657/proxy/%s", c.ID, node, path))
}
