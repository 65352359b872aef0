package operator_test

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	shared "github.com/sei-operator/sei-operator/test/rig"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

func equal(a, b []string) bool { return slices.Equal(a, b) }

func ready(node *v1alpha1.SeiNode) *metav1.Condition {
	return meta.FindStatusCondition(node.Status.Conditions, string(v1alpha1.ConditionReady))
}

// watchImages watches the pod of a node from now on, and returns what tells which
// images it was ever made with.
func (r *rig) watchImages(name string) func() []string {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	events, err := r.person.Watch(ctx, &corev1.PodList{}, client.InNamespace(r.namespace), client.MatchingLabels{v1alpha1.LabelNode: name})
	if err != nil {
		r.t.Fatal(err)
	}
	var images []string
	seen := map[string]bool{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || event.Type == watch.Deleted || seen[string(pod.UID)] {
				continue
			}
			seen[string(pod.UID)] = true
			images = append(images, pod.Spec.Containers[0].Image)
		}
	}()
	return func() []string {
		cancel()
		events.Stop()
		<-done
		return images
	}
}

// validator is a SeiNode with its keys in Secrets.
func (r *rig) validator(name string) *v1alpha1.SeiNode {
	return shared.Validator(r.key(name), "testnet-1")
}

// createKeys makes the Secrets that validator names, and returns the public key.
func (r *rig) createKeys(name string) string {
	r.t.Helper()
	signing := shared.NewKey(r.t)
	r.create(shared.SigningSecret(r.t, r.key(name+"-signing"), signing))
	r.create(shared.NodeSecret(r.t, r.key(name+"-node"), shared.NewKey(r.t)))
	return signing.Public()
}

func slicesContains(list []string, item string) bool { return slices.Contains(list, item) }

// watchSlots watches the nodes from now on, and returns what tells how many of them
// took a place in the update budget at once, at most.
func (r *rig) watchSlots() func() int {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	events, err := r.person.Watch(ctx, &v1alpha1.SeiNodeList{}, client.InNamespace(r.namespace))
	if err != nil {
		r.t.Fatal(err)
	}
	most := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		taken := map[string]bool{}
		for event := range events.ResultChan() {
			node, ok := event.Object.(*v1alpha1.SeiNode)
			if !ok {
				continue
			}
			delete(taken, node.Name)
			if node.Status.Slot != nil {
				taken[node.Name] = true
			}
			most = max(most, len(taken))
		}
	}()
	return func() int {
		cancel()
		events.Stop()
		<-done
		return most
	}
}
