package scale_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/nodes"
)

const (
	// creators is how many requests a person who declares a fleet at once has under way.
	creators = 16
	// patience only ends a benchmark that would wait for ever.
	patience = 15 * time.Minute
)

// rig is a namespace, a person in it, and the sidecars of its pods.
type rig struct {
	b         *testing.B
	cluster   *cluster.Cluster
	person    client.WithWatch
	namespace string
	sidecars  *nodes.Fleet
	seen      *nodesSeen
}

var once sync.Once

// newRig makes a namespace that is emptied when the benchmark ends, so that what one
// leaves behind does not slow down the next.
func newRig(b *testing.B) *rig {
	b.Helper()
	c := cluster.Get(b)
	once.Do(func() { sayConditions(b) })
	r := &rig{b: b, cluster: c, person: c.Person(b), namespace: c.Namespace(b)}
	b.Cleanup(r.clear)
	r.sidecars = nodes.Start(b, c, nodes.Options{Namespace: r.namespace})
	r.seen = followNodes(b, r.person, r.namespace)
	return r
}

func (r *rig) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespace, Name: name}
}

// fullNode is the smallest SeiNode. It asks for little, because the lab's two machines
// have place for some sixty nodes that ask for what a node needs.
func (r *rig) fullNode(name string) *v1alpha1.SeiNode {
	return &v1alpha1.SeiNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec: v1alpha1.SeiNodeSpec{
			ChainID: "testnet-1", Image: "registry.example.com/seid:v1", FullNode: &v1alpha1.FullNodeSpec{},
			Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("10Mi"),
			}},
		},
	}
}

func (r *rig) create(name string) {
	if err := r.person.Create(r.b.Context(), r.fullNode(name)); err != nil {
		r.b.Errorf("creating %s: %v", name, err)
	}
}

// createAll declares a fleet at once.
func (r *rig) createAll(names []string) { each(names, creators, r.create) }

// names are those of a fleet.
func names(prefix string, count int) []string {
	all := make([]string, count)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return all
}

// each calls a function for every item, so many at once.
func each[T any](items []T, atOnce int, do func(T)) {
	var running sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for _, item := range items {
		places <- struct{}{}
		running.Go(func() {
			do(item)
			<-places
		})
	}
	running.Wait()
}

// clear removes all nodes and their volumes without the operator, which must not run
// any more, and returns when the pods are gone.
func (r *rig) clear() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.b.Context()), patience)
	defer cancel()
	var list v1alpha1.SeiNodeList
	if err := r.person.List(ctx, &list, client.InNamespace(r.namespace)); err != nil {
		r.b.Errorf("listing what is left: %v", err)
		return
	}
	each(list.Items, creators, func(node v1alpha1.SeiNode) {
		free := node.DeepCopy()
		controllerutil.RemoveFinalizer(free, v1alpha1.FinalizerNode)
		if err := r.person.Patch(ctx, free, client.MergeFrom(&node)); err != nil {
			r.b.Errorf("letting %s go: %v", node.Name, err)
		}
	})
	for _, kind := range []client.Object{&v1alpha1.SeiNode{}, &corev1.PersistentVolumeClaim{}} {
		if err := r.person.DeleteAllOf(ctx, kind, client.InNamespace(r.namespace)); err != nil {
			r.b.Errorf("deleting what is left: %v", err)
		}
	}
	if err := podsGone(ctx, r.person, r.namespace); err != nil {
		r.b.Errorf("waiting for the last pod to go: %v", err)
	}
}

// podsGone looks from time to time: nothing is measured here.
func podsGone(ctx context.Context, c client.Client, namespace string) error {
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(namespace)); err != nil || len(pods.Items) == 0 {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pause lets time pass for a figure that is about a stretch of time.
func (r *rig) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.b.Context().Done():
	}
}
