package scale_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/internal/render"
)

// workers is how many nodes the operator works on at once, and so does the script.
const workers = 32

// baseline is a script that does what the operator does to the API server for a node
// that is brought up, and nothing else: it asks no sidecar, decides nothing, reads
// nothing, and waits for nothing but the pod.
type baseline struct {
	*rig
	api      client.Client
	statuses []v1alpha1.SeiNodeStatus
	pods     *board
	ready    map[string]bool
	places   chan struct{}
}

// newBaseline prepares the script. The statuses are those that the operator gave a
// node, one after the other.
func newBaseline(b *testing.B, statuses []v1alpha1.SeiNodeStatus) *baseline {
	b.Helper()
	r := newRig(b)
	s := &baseline{
		rig: r, api: r.cluster.Operator(b), statuses: statuses,
		pods: newBoard(), ready: map[string]bool{}, places: make(chan struct{}, workers),
	}
	follow(b, r.person, &corev1.PodList{}, r.namespace, func(_ time.Time, _ watch.EventType, pod *corev1.Pod) {
		for i := range pod.Status.Conditions {
			if c := pod.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				s.pods.change(func() { s.ready[pod.Name] = true })
			}
		}
	})
	return s
}

// bringUpAll brings up nodes at once, and returns how long it took until the last was.
func (s *baseline) bringUpAll(names []string) time.Duration {
	began := time.Now()
	var all sync.WaitGroup
	declaring := make(chan struct{}, creators)
	for _, name := range names {
		declaring <- struct{}{}
		node := s.fullNode(name)
		all.Go(func() {
			err := s.person.Create(s.b.Context(), node)
			<-declaring
			if err == nil {
				_, err = s.bringUp(node)
			}
			if err != nil {
				s.b.Errorf("the baseline of %s: %v", node.Name, err)
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// oneByOne brings up one node after the other.
func (s *baseline) oneByOne(all []string) (running, settled []time.Duration) {
	s.b.Helper()
	for _, name := range all {
		node := s.fullNode(name)
		began := time.Now()
		err := s.person.Create(s.b.Context(), node)
		var ran time.Time
		if err == nil {
			ran, err = s.bringUp(node)
		}
		if err != nil {
			s.b.Fatalf("the baseline of %s: %v", name, err)
		}
		running, settled = append(running, ran.Sub(began)), append(settled, time.Since(began))
	}
	return running, settled
}

// bringUp makes what a node is made of, and returns when its status said Running.
func (s *baseline) bringUp(node *v1alpha1.SeiNode) (running time.Time, err error) {
	ctx := s.b.Context()
	s.places <- struct{}{}
	claim, rest, err := s.make(ctx, node)
	<-s.places
	if err != nil {
		return running, err
	}
	s.pods.wait(s.b, "the pod of "+node.Name, func() bool { return s.ready[render.PodName(node)] })
	s.places <- struct{}{}
	defer func() { <-s.places }()
	marked := claim.DeepCopy()
	marked.Annotations = map[string]string{v1alpha1.AnnotationBootstrapped: string(node.UID)}
	if err := s.api.Patch(ctx, marked, client.MergeFrom(claim), client.FieldOwner(render.FieldManager)); err != nil {
		return running, fmt.Errorf("marking the claim: %w", err)
	}
	for _, status := range rest {
		if err := s.record(ctx, node, status); err != nil {
			return running, err
		}
		if running.IsZero() {
			running = time.Now()
		}
	}
	return running, nil
}

// make does all that comes before the pod is up, and returns the statuses that are left.
func (s *baseline) make(ctx context.Context, node *v1alpha1.SeiNode) (*corev1.PersistentVolumeClaim, []v1alpha1.SeiNodeStatus, error) {
	before := node.DeepCopy()
	controllerutil.AddFinalizer(node, v1alpha1.FinalizerNode)
	if err := s.api.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, nil, fmt.Errorf("adding the finalizer: %w", err)
	}
	rest := s.statuses
	if err := s.record(ctx, node, rest[0]); err != nil {
		return nil, nil, err
	}
	want, err := render.Node(node, platform.Default())
	if err != nil {
		return nil, nil, err
	}
	claim := want.DataVolume
	if err := s.api.Create(ctx, claim, client.FieldOwner(render.FieldManager)); err != nil {
		return nil, nil, fmt.Errorf("making the claim: %w", err)
	}
	document := want.Intent
	document.Serial = 1
	for _, object := range []runtime.ApplyConfiguration{render.NodeConfig(node, document, ""), want.Service, want.StatefulSet} {
		if err := s.api.Apply(ctx, object, client.FieldOwner(render.FieldManager), client.ForceOwnership); err != nil {
			return nil, nil, fmt.Errorf("making %T: %w", object, err)
		}
	}
	for rest = rest[1:]; len(rest) > 0 && rest[0].Phase != v1alpha1.PhaseRunning; rest = rest[1:] {
		if err := s.record(ctx, node, rest[0]); err != nil {
			return nil, nil, err
		}
	}
	return claim, rest, nil
}

// record writes a status the way the operator does.
func (s *baseline) record(ctx context.Context, node *v1alpha1.SeiNode, status v1alpha1.SeiNodeStatus) error {
	before := node.DeepCopy()
	status.DeepCopyInto(&node.Status)
	err := s.api.Status().Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(render.FieldManager))
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}
