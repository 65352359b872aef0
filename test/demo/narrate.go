package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/live"
)

// narrate tells what the nodes say of themselves, whenever they say something else.
func (d *demo) narrate(ctx context.Context) {
	ctx, d.narrator = context.WithCancel(ctx)
	go func() {
		said := map[string]string{}
		for ctx.Err() == nil {
			events, err := d.chain.Client.Watch(ctx, &v1alpha1.SeiNodeList{}, client.InNamespace(chainID))
			if err != nil {
				return // The stories will say what is wrong.
			}
			for event := range events.ResultChan() {
				node, ok := event.Object.(*v1alpha1.SeiNode)
				if !ok || event.Type == watch.Deleted {
					continue
				}
				if now := state(node); now != said[node.Name] {
					said[node.Name] = now
					d.say("    %-12s %s", node.Name, now)
				}
			}
		}
	}()
}

// state is a node in a few words.
func state(node *v1alpha1.SeiNode) string {
	ready := live.Condition(node, v1alpha1.ConditionReady)
	if ready.Reason == "" {
		return "created"
	}
	text := fmt.Sprintf("%s, %s", node.Status.Phase, ready.Reason)
	if ready.Status == metav1.ConditionTrue {
		text = "Ready"
	}
	if plan := node.Status.Plan; plan != nil {
		text += fmt.Sprintf(" (%s)", plan.Type)
	}
	return text
}
