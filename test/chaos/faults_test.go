package chaos_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/live"
)

// The fleet of the chain.
const (
	fleet    = "rpc"
	replicas = 2
)

// fault is something that happens. It tells to whom, and returns when it has happened: what
// comes of it is another matter.
type fault struct {
	name   string
	strike func(context.Context, *chaos) (string, error)
}

// faults are the deck. The halt of the whole chain for an upgrade is not in it: it can
// happen but once, and is told in a story.
var faults = []fault{
	onAny("a StatefulSet is deleted", (*chaos).deleteStatefulSet),
	onAny("a StatefulSet is deleted without its pod", (*chaos).orphan),
	onAny("a pod is deleted", (*chaos).deletePod),
	onAny("seid is killed", (*chaos).killSeid),
	onAny("a sidecar is killed", (*chaos).killSidecar),
	onAny("seid is restarted in place", (*chaos).restart),
	onAny("seid ignores SIGTERM and is to be restarted", (*chaos).deaf),
	onAny("the Service and the ConfigMap of a node are deleted", (*chaos).deleteAround),
	onAny("a pod is deleted while the operator is away", (*chaos).deletePodUnseen),
	onOwn("a node is paused and resumed", (*chaos).pause),
	onOwn("a node is paused and a Job measures its volume", (*chaos).measure),
	onOwn("an image that cannot be pulled, then corrected", (*chaos).wrongImage),
	onOwn("another image, and the old one again", (*chaos).thereAndBack),
	onOwn("an override is changed", (*chaos).override),
	onOwn("an override is changed and seid restarted at once", (*chaos).overrideAndRestart),
	onOwn("the template of a pod is changed", (*chaos).template),
	onOwn("a node is deleted and made again on its volume", (*chaos).Again),
	onAny("a node is held and released", (*chaos).hold),
	onNone("the fleet gets another template", (*chaos).roll),
	onNone("the fleet is scaled up and down", (*chaos).scale),
	onNone("a second SeiNode has the key of a validator", (*chaos).twin),
	onNone("a node is stopped in the middle of its state sync", (*chaos).stopInStateSync),
	onNone("a volume is ruined and the node synced anew", (*chaos).ruin),
	onNone("the operator is killed and leaves its Lease", func(c *chaos, ctx context.Context) error {
		_, _, err := c.KillLeader(ctx)
		return err
	}),
	daemon("kubelet"), daemon("kube-apiserver"), daemon("etcd"), daemon("kube-controller-manager"), daemon("kube-scheduler"),
}

// onAny strikes any node, onOwn one that no fleet looks after.
func onAny(name string, strike func(*chaos, context.Context, string) error) fault {
	return on(name, (*chaos).names, strike)
}

func onOwn(name string, strike func(*chaos, context.Context, string) error) fault {
	return on(name, func(c *chaos) []string { return append(c.ValidatorNames(), "archive", "provider") }, strike)
}

func on(name string, nodes func(*chaos) []string, strike func(*chaos, context.Context, string) error) fault {
	return fault{name, func(ctx context.Context, c *chaos) (string, error) {
		node := c.one(nodes(c)...)
		return fmt.Sprintf("%s (%s)", name, node), strike(c, ctx, node)
	}}
}

// onNone strikes none of the nodes, or one that it makes and takes away.
func onNone(name string, strike func(*chaos, context.Context) error) fault {
	return fault{name, func(ctx context.Context, c *chaos) (string, error) { return name, strike(c, ctx) }}
}

func daemon(program string) fault {
	return onNone(program+" is killed and started again", func(c *chaos, ctx context.Context) error { return c.Restart(ctx, program) })
}

func (c *chaos) deleteStatefulSet(ctx context.Context, node string) error {
	set := &appsv1.StatefulSet{}
	if err := c.Client.Get(ctx, c.Key(node), set); err != nil {
		return err
	}
	if err := c.Client.Delete(ctx, set); err != nil {
		return err
	}
	return c.Gone(ctx, set)
}

func (c *chaos) orphan(ctx context.Context, node string) error {
	_, err := c.Orphan(ctx, node)
	return err
}

func (c *chaos) deletePod(ctx context.Context, node string) error {
	pod, err := c.Pod(ctx, node)
	if err != nil {
		return err
	}
	if err := c.Client.Delete(ctx, pod); err != nil {
		return err
	}
	return c.Gone(ctx, pod)
}

func (c *chaos) deletePodUnseen(ctx context.Context, node string) error {
	if err := c.StopOperator(ctx); err != nil {
		return err
	}
	old, err := c.Pod(ctx, node)
	if err != nil {
		return err
	}
	if err := c.deletePod(ctx, node); err != nil {
		return err
	}
	// The node needs nobody to come back.
	if _, err := c.NewPod(ctx, node, old); err != nil {
		return err
	}
	return c.StartOperator(ctx)
}

func (c *chaos) deleteAround(ctx context.Context, node string) error {
	if err := c.Client.Delete(ctx, &corev1.Service{ObjectMeta: c.meta(node)}); err != nil {
		return err
	}
	return c.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(c.ID), client.MatchingLabels{v1alpha1.LabelNode: node})
}

func (c *chaos) killSeid(ctx context.Context, node string) error { return c.kill(ctx, node, "seid") }

func (c *chaos) killSidecar(ctx context.Context, node string) error {
	return c.kill(ctx, node, "sei-sidecar")
}

func (c *chaos) kill(ctx context.Context, node, program string) error {
	pod, err := c.Pod(ctx, node)
	if err != nil {
		return err
	}
	before, err := live.Processes(pod, program)
	if err != nil {
		return err
	}
	if err := c.Kill(pod, program); err != nil {
		return err
	}
	return c.Another(ctx, pod, program, before)
}

func (c *chaos) restart(ctx context.Context, node string) error {
	_, err := c.RestartSeid(ctx, node)
	return err
}

// deaf has a restart fail. The signal is not lost, so seid ends when it can.
func (c *chaos) deaf(ctx context.Context, node string) error {
	pod, err := c.Pod(ctx, node)
	if err != nil {
		return err
	}
	before, err := live.Processes(pod, "seid")
	if err != nil {
		return err
	}
	task, err := c.Deaf(ctx, node)
	if err != nil {
		return err
	}
	if task.Status.Phase != v1alpha1.TaskPhaseFailed {
		return fmt.Errorf("the restart of a seid that ignores SIGTERM is %s: %s", task.Status.Phase, task.Status.Message)
	}
	return c.Another(ctx, pod, "seid", before)
}

func (c *chaos) pause(ctx context.Context, node string) error {
	if err := c.Pause(ctx, node); err != nil {
		return err
	}
	_, err := c.Unpause(ctx, node)
	return err
}

func (c *chaos) measure(ctx context.Context, node string) error {
	if err := c.Pause(ctx, node); err != nil {
		return err
	}
	if _, err := c.MeasureState(ctx, node); err != nil {
		return err
	}
	_, err := c.Unpause(ctx, node)
	return err
}

func (c *chaos) wrongImage(ctx context.Context, node string) error {
	if err := c.image(ctx, node, live.ImageMissing); err != nil {
		return err
	}
	if _, err := c.Wait(ctx, node, "an image that cannot be pulled", func(n *v1alpha1.SeiNode) bool {
		return live.Condition(n, v1alpha1.ConditionReady).Reason == string(v1alpha1.ReasonImagePullBackOff)
	}); err != nil {
		return err
	}
	return c.image(ctx, node, live.ImageV1)
}

func (c *chaos) image(ctx context.Context, node, image string) error {
	return c.Edit(ctx, node, func(n *v1alpha1.SeiNode) { n.Spec.Image = image })
}

func (c *chaos) thereAndBack(ctx context.Context, node string) error {
	if err := c.image(ctx, node, live.ImageV2); err != nil {
		return err
	}
	if _, err := c.Wait(ctx, node, "the node with the other image", func(n *v1alpha1.SeiNode) bool {
		return live.IsReady(n) && n.Status.CurrentImage == live.ImageV2
	}); err != nil {
		return err
	}
	return c.image(ctx, node, live.ImageV1)
}

func (c *chaos) override(ctx context.Context, node string) error {
	size := fmt.Sprint(1000 + c.random.IntN(4000))
	return c.Edit(ctx, node, func(n *v1alpha1.SeiNode) { n.Spec.Overrides["config.mempool.size"] = size })
}

func (c *chaos) overrideAndRestart(ctx context.Context, node string) error {
	if err := c.override(ctx, node); err != nil {
		return err
	}
	return c.restart(ctx, node)
}

func (c *chaos) template(ctx context.Context, node string) error {
	other := c.resources()
	return c.Edit(ctx, node, func(n *v1alpha1.SeiNode) { n.Spec.Resources = other })
}

// resources are some that no node had before, most likely.
func (c *chaos) resources() *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(10+c.random.Int64N(30), resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse("64Mi"),
	}}
}

func (c *chaos) hold(ctx context.Context, node string) error {
	for _, spec := range []v1alpha1.SeiNodeTaskSpec{
		{Kind: v1alpha1.TaskKindHoldNode, HoldNode: &v1alpha1.HoldNodePayload{}},
		{Kind: v1alpha1.TaskKindReleaseHold, ReleaseHold: &v1alpha1.ReleaseHoldPayload{}},
	} {
		task, err := c.Task(ctx, node, spec)
		if err != nil {
			return err
		}
		if task.Status.Phase != v1alpha1.TaskPhaseComplete {
			return fmt.Errorf("%s of %s: %s", spec.Kind, node, task.Status.Message)
		}
	}
	return nil
}

func (c *chaos) roll(ctx context.Context) error {
	other := c.resources()
	return c.EditFleet(ctx, fleet, func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Template.Spec.Resources = other })
}

// scale adds a node, and takes it away once it is there. Its volume stays for the next time.
func (c *chaos) scale(ctx context.Context) error {
	if err := c.scaleTo(ctx, replicas+1); err != nil {
		return err
	}
	return c.scaleTo(ctx, replicas)
}

func (c *chaos) scaleTo(ctx context.Context, count int32) error {
	if err := c.EditFleet(ctx, fleet, func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Replicas = &count }); err != nil {
		return err
	}
	_, err := live.Until(ctx, c.Cluster, c.Key(fleet), fmt.Sprintf("a fleet of %d", count), func(f *v1alpha1.SeiNodeDeployment) bool {
		return f.Status.ObservedGeneration == f.Generation && f.Status.AvailableReplicas == count && f.Status.Replicas == count
	})
	return err
}

// twin lets the chain go on for some blocks, in which the second could have signed.
func (c *chaos) twin(ctx context.Context) error {
	twin, remove, err := c.Twin(ctx, c.random.IntN(c.Validators))
	if err != nil {
		return err
	}
	if err := c.watcher.Grow(ctx, 4); err != nil {
		return err
	}
	if err := c.PodGone(ctx, twin.Name); err != nil {
		return err
	}
	return remove(ctx)
}

func (c *chaos) stopInStateSync(ctx context.Context) error {
	const name = "syncer"
	if _, err := c.Syncing(ctx, c.watcher, name); err != nil {
		return err
	}
	if err := c.Pause(ctx, name); err != nil {
		return err
	}
	if _, err := c.Unpause(ctx, name); err != nil {
		return err
	}
	return c.Remove(ctx, name)
}

func (c *chaos) ruin(ctx context.Context) error {
	const name = "ruin"
	if err := c.Ruin(ctx, c.watcher, name); err != nil {
		return err
	}
	if err := c.Resync(ctx, name); err != nil {
		return err
	}
	if _, err := c.Ready(ctx, name); err != nil {
		return err
	}
	return c.Remove(ctx, name)
}

func (c *chaos) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: c.ID, Name: name}
}
