package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/live"
)

type story struct {
	title string
	tell  func(context.Context) error
}

func (d *demo) stories() []story {
	return []story{
		{"The operator is installed, as a Deployment with its own ServiceAccount", d.operator},
		{"A chain of four validators, and two nodes that keep all of it", d.startChain},
		{"A fleet of two full nodes begins with a snapshot of the chain", d.startFleet},
		{"The StatefulSet of a validator is deleted", d.deleteStatefulSet},
		{"seid is restarted: in place, and for comparison by deleting the pod", d.restart},
		{"A Job measures the volume of a node that is paused", d.measure},
		{"The chain halts for an upgrade, and resumes with another image", d.upgrade},
	}
}

func (d *demo) operator(ctx context.Context) error {
	if err := d.cluster.InstallOperator(ctx, true); err != nil {
		return err
	}
	d.say("the operator is at work in the namespace %s", live.OperatorNamespace)
	return nil
}

func (d *demo) startChain(ctx context.Context) (err error) {
	if d.chain, err = d.cluster.NewChain(ctx, chainID, 4); err != nil {
		return err
	}
	d.narrate(ctx)
	if d.watcher, err = d.chain.Watch(ctx, load); err != nil {
		return err
	}
	if err := d.chain.Start(ctx); err != nil {
		return err
	}
	if err := d.watcher.Signs(ctx, 1, d.chain.ValidatorNames()...); err != nil {
		return err
	}
	d.say("all four validators have signed; the chain is at height %d", d.watcher.Height())
	return nil
}

func (d *demo) startFleet(ctx context.Context) error {
	if err := d.watcher.Snapshot(ctx); err != nil {
		return err
	}
	d.say("the chain is at height %d, and there is a snapshot of it", d.watcher.Height())
	if err := d.chain.Client.Create(ctx, d.chain.Fleet("rpc", 2)); err != nil {
		return err
	}
	if _, err := live.Until(ctx, d.cluster, d.chain.Key("rpc"), "the fleet", func(fleet *v1alpha1.SeiNodeDeployment) bool {
		return fleet.Status.AvailableReplicas == 2
	}); err != nil {
		return err
	}
	if err := d.watcher.Follows(ctx, d.watcher.Height(), "rpc-0", "rpc-1"); err != nil {
		return err
	}
	d.say("both follow the chain, at height %d", d.watcher.Height())
	return nil
}

func (d *demo) deleteStatefulSet(ctx context.Context) error {
	const name = "validator-0"
	before, err := d.chain.Ready(ctx, name)
	if err != nil {
		return err
	}
	pod, err := d.chain.Pod(ctx, name)
	if err != nil {
		return err
	}
	set, signed, began := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: chainID, Name: name}}, d.watcher.LastSigned(name), time.Now()
	if err := d.chain.Client.Delete(ctx, set); err != nil {
		return err
	}
	if _, err := live.Until(ctx, d.cluster, d.chain.Key(name), "another StatefulSet", func(set *appsv1.StatefulSet) bool {
		return set.UID != before.Status.StatefulSet.UID
	}); err != nil {
		return err
	}
	d.say("the StatefulSet is back after %.0f ms", float64(time.Since(began).Microseconds())/1000)
	if _, err := d.chain.NewPod(ctx, name, pod); err != nil {
		return err
	}
	after, err := d.chain.Ready(ctx, name)
	if err != nil {
		return err
	}
	if before.Status.DataVolume.UID != after.Status.DataVolume.UID {
		return fmt.Errorf("%s has another volume", name)
	}
	if _, err := d.watcher.Gap(ctx, name, signed); err != nil {
		return err
	}
	d.say("%s signs again, on the same volume", name)
	return nil
}

func (d *demo) restart(ctx context.Context) error {
	const name = "validator-1"
	signed := d.watcher.LastSigned(name)
	task, err := d.chain.RestartSeid(ctx, name)
	if err != nil {
		return err
	}
	d.say("SeiNodeTask %s: RPC did not answer for %s s", task.Name, task.Status.Outputs.RestartGapSeconds)
	if err := d.measured(ctx, "in place (RestartSeid)", name, signed); err != nil {
		return err
	}

	pod, err := d.chain.Pod(ctx, name)
	if err != nil {
		return err
	}
	signed = d.watcher.LastSigned(name)
	if err := d.chain.Client.Delete(ctx, pod); err != nil {
		return err
	}
	if _, err := d.chain.NewPod(ctx, name, pod); err != nil {
		return err
	}
	return d.measured(ctx, "by deleting the pod", name, signed)
}

// measured waits until a validator signs again, and tells how long it did not.
func (d *demo) measured(ctx context.Context, how, validator string, behind int64) error {
	told, err := d.watcher.Gap(ctx, validator, behind)
	if err != nil {
		return err
	}
	d.gaps = append(d.gaps, gap{how, told})
	d.say("%s, %s: %s", validator, how, told)
	return nil
}

func (d *demo) measure(ctx context.Context) error {
	const name = "rpc-1"
	if err := d.chain.Pause(ctx, name); err != nil {
		return err
	}
	d.say("%s is paused: its pod is gone, its volume is free", name)
	sizes, err := d.chain.MeasureState(ctx, name)
	if err != nil {
		return err
	}
	var parts []string
	for _, part := range slices.Sorted(maps.Keys(sizes)) {
		parts = append(parts, fmt.Sprintf("%s %.1f MB", part, float64(sizes[part])/1e6))
	}
	d.say("a Job has measured it: %s", strings.Join(parts, ", "))
	before := d.watcher.Height()
	if _, err := d.chain.Unpause(ctx, name); err != nil {
		return err
	}
	if err := d.watcher.Follows(ctx, before, name); err != nil {
		return err
	}
	d.say("%s is back and has caught up", name)
	return nil
}

func (d *demo) upgrade(ctx context.Context) error {
	height := d.watcher.Height() + 12
	if err := d.chain.ScheduleUpgrade(ctx, "v2", height); err != nil {
		return err
	}
	d.say("the chain decides on the upgrade v2 at height %d", height)
	// Without two of four no block is made, and the others notice that after a minute.
	if err := d.chain.HaltedAt(ctx, d.watcher, height, 2, d.chain.ValidatorNames()...); err != nil {
		return err
	}
	d.say("the chain stands at %d: validators are halted for the upgrade, and the others get no block (condition UpgradeHalted)", d.watcher.Height())
	swapped := time.Now()
	for _, name := range append(d.chain.ValidatorNames(), "archive", "provider") {
		if err := d.chain.Edit(ctx, name, func(node *v1alpha1.SeiNode) { node.Spec.Image = live.ImageV2 }); err != nil {
			return err
		}
	}
	if err := d.chain.EditFleet(ctx, "rpc", func(fleet *v1alpha1.SeiNodeDeployment) { fleet.Spec.Template.Spec.Image = live.ImageV2 }); err != nil {
		return err
	}
	d.say("all nodes get the image %s", live.ImageV2)
	if err := d.watcher.Signs(ctx, height, d.chain.ValidatorNames()...); err != nil {
		return err
	}
	d.say("the chain makes blocks again %.1f s after the image was swapped", time.Since(swapped).Seconds())
	for _, name := range append(d.chain.ValidatorNames(), "archive", "provider", "rpc-0", "rpc-1") {
		if _, err := d.chain.Wait(ctx, name, "the node with the new image", func(node *v1alpha1.SeiNode) bool {
			return live.IsReady(node) && node.Status.CurrentImage == live.ImageV2
		}); err != nil {
			return err
		}
	}
	if err := d.watcher.Follows(ctx, height, "archive", "provider", "rpc-0", "rpc-1"); err != nil {
		return err
	}
	return d.verdict()
}

// verdict is what the chain's own record says about all of it.
func (d *demo) verdict() (err error) {
	d.watcher.Read(func(r *live.Record) {
		if complaints := r.Complaints(); len(complaints) > 0 {
			err = fmt.Errorf("the chain complains: %s", strings.Join(complaints, "; "))
			return
		}
		d.say("all nodes are ready with it. The record of the chain: %d blocks, no evidence of signing twice, every state agreed upon", r.Height())
	})
	return err
}
