package operator_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/operator"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// The tests in this file are the conditions of seed 002 under which replace-pod deletes
// a pod, and under which it leaves it alone.

// updating is a node that runs, and whose operator's writes are recorded.
func updating(t *testing.T) (*rig, *writes, *corev1.Pod) {
	t.Helper()
	w := &writes{}
	r := newRig(t, w.record)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	w.forget()
	return r, w, r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
}

// at waits until a task of the plan of a node waits, and says so.
func (r *rig) at(task, says string) {
	r.t.Helper()
	r.until("alpha", task+" to say: "+says, func(n *v1alpha1.SeiNode) bool {
		return n.Status.Plan != nil && slices.ContainsFunc(n.Status.Plan.Tasks, func(at v1alpha1.PlanTask) bool {
			return at.Type == task && at.Status == v1alpha1.PlanTaskRunning && contains(at.Message, says)
		})
	})
}

// untouched fails the test if the operator deleted a pod, or if the pod is another one.
func (r *rig) untouched(w *writes, pod *corev1.Pod) {
	r.t.Helper()
	if deleted := w.of("delete", "Pod"); len(deleted) != 0 {
		r.t.Errorf("the operator deleted %v", deleted)
	}
	now := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
	if now.UID != pod.UID || (now.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil) {
		r.t.Errorf("the pod was %s and is %s, deleted at %v", pod.UID, now.UID, now.DeletionTimestamp)
	}
}

func TestSeed002ATerminatingPodIsSkipped(t *testing.T) {
	t.Parallel()
	r, w, pod := updating(t)
	change(r, pod, func(p *corev1.Pod) { p.Annotations["lab.sei.io/termination"] = "slow" })
	r.delete(pod)
	pod = r.pod("alpha", "the pod to be ending", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	r.setImage("alpha", imageB)
	r.at("replace-pod", "Waits for the pod alpha-0 to end")
	r.untouched(w, pod)
	change(r, pod, func(p *corev1.Pod) { delete(p.Annotations, "lab.sei.io/termination") })
	r.runs("alpha", imageB)
	if deleted := w.of("delete", "Pod"); len(deleted) != 0 {
		t.Errorf("the operator deleted %v", deleted)
	}
}

// A pod of the right name that the StatefulSet did not make, or of which nobody knows
// from which template it is made, is left to whoever put it there.
func TestSeed002UnownedAndUnlabelledPodsAreSkipped(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]struct {
		edit func(*corev1.Pod)
		done func(*corev1.Pod) bool
	}{
		"unowned": {
			// Kubernetes itself lets go of it then.
			edit: func(p *corev1.Pod) { p.Labels[v1alpha1.LabelNode] = "somebody-else" },
			done: func(p *corev1.Pod) bool { return len(p.OwnerReferences) == 0 },
		},
		"unlabelled": {
			edit: func(p *corev1.Pod) { delete(p.Labels, appsv1.StatefulSetRevisionLabel) },
			done: func(p *corev1.Pod) bool { return p.Labels[appsv1.StatefulSetRevisionLabel] == "" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, pod := updating(t)
			change(r, pod, spoil.edit)
			r.pod("alpha", "the pod to be "+name, spoil.done)
			r.setImage("alpha", imageB)
			r.at("observe-image", "Waits for the containers of pod alpha-0")
			r.untouched(w, pod)
			r.delete(pod)
			r.runs("alpha", imageB)
			if deleted := w.of("delete", "Pod"); len(deleted) != 0 {
				t.Errorf("the operator deleted %v", deleted)
			}
		})
	}
}

func TestSeed002AGenerationThatIsNotObservedWaits(t *testing.T) {
	r, w, pod := updating(t)
	resume := r.cluster.PauseControllers(t)
	r.setImage("alpha", imageB)
	r.at("replace-pod", "Waits for Kubernetes to take note of the StatefulSet alpha")
	set := &appsv1.StatefulSet{}
	if r.get("alpha", set); set.Status.ObservedGeneration >= set.Generation || set.Status.UpdateRevision == "" {
		t.Errorf("the generation is %d, observed is %d, and it updates to %s", set.Generation, set.Status.ObservedGeneration, set.Status.UpdateRevision)
	}
	r.untouched(w, pod)
	resume()
	r.runs("alpha", imageB)
	if deleted := w.of("delete", "Pod"); len(deleted) != 1 {
		t.Errorf("the operator deleted %v", deleted)
	}
}

// refused is what an API server says that is in trouble.
var refused = apierrors.NewInternalError(context.DeadlineExceeded)

// noStatefulSets keeps the operator from writing StatefulSets.
func noStatefulSets(write kube.Write) error {
	if write.Kind == "StatefulSet" {
		return refused
	}
	return nil
}

// atReplacePod is a node whose update has come to replace-pod and waits for a safe moment.
func atReplacePod(t *testing.T) (r *rig, w *writes, pod *corev1.Pod, safe func()) {
	t.Helper()
	r, w, pod = updating(t)
	safe = r.unsafe("alpha")
	r.setImage("alpha", imageB)
	r.at("replace-pod", "seid must not be stopped")
	return r, w, pod, safe
}

func TestSeed002AMissingStatefulSetWaits(t *testing.T) {
	r, w, pod, safe := atReplacePod(t)
	// Nobody takes the pod away with it, and nobody makes another.
	resume := r.cluster.PauseControllers(t)
	w.refuse(noStatefulSets)
	set := &appsv1.StatefulSet{}
	r.get("alpha", set)
	r.delete(set)
	r.at("replace-pod", "Waits for the StatefulSet.")
	safe()
	r.untouched(w, pod)
	w.refuse(nil)
	resume()
	r.runs("alpha", imageB)
	r.tracked("alpha", set.UID)
}

// A StatefulSet that was just made does not say what it updates to.
func TestSeed002AnEmptyUpdateRevisionWaits(t *testing.T) {
	r, w, pod, safe := atReplacePod(t)
	resume := r.cluster.PauseControllers(t)
	old := &appsv1.StatefulSet{}
	r.get("alpha", old)
	r.delete(old)
	set := r.statefulSet("alpha", "another StatefulSet", func(s *appsv1.StatefulSet) bool { return s.UID != old.UID })
	safe()
	r.at("replace-pod", "Waits for Kubernetes to take note of the StatefulSet alpha")
	if set.Status.UpdateRevision != "" {
		t.Errorf("it updates to %s", set.Status.UpdateRevision)
	}
	r.untouched(w, pod)
	resume()
	r.runs("alpha", imageB)
	r.tracked("alpha", old.UID)
}

// Two pods of one node would be two signers. Whatever made the StatefulSet want them,
// replacing pods is not the answer.
func TestSeed002MoreThanOneReplicaIsRefused(t *testing.T) {
	r, w, pod, safe := atReplacePod(t)
	// Nobody makes the second pod, and nobody puts the replicas right. The controllers may
	// still have to hear of two replicas when they go on: that pod's name is taken.
	r.create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "alpha-1"},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/never"}},
			Containers:      []corev1.Container{{Name: "wait", Image: "registry.example.com/wait:v1"}},
		},
	})
	resume := r.cluster.PauseControllers(t)
	w.refuse(noStatefulSets)
	set := &appsv1.StatefulSet{}
	r.get("alpha", set)
	change(r, set, func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(2)) })
	node := r.until("alpha", "the plan to fail", func(n *v1alpha1.SeiNode) bool {
		return n.Status.LastPlan.Type == v1alpha1.PlanNodeUpdate && n.Status.LastPlan.Outcome == v1alpha1.PlanOutcomeFailed
	})
	if last := node.Status.LastPlan; last.Reason != "TooManyReplicas" || !contains(last.Message, "has 2 replicas") {
		t.Errorf("it failed because of %s: %s", last.Reason, last.Message)
	}
	r.untouched(w, pod)
	w.refuse(nil)
	r.statefulSet("alpha", "the replicas to be put right", func(s *appsv1.StatefulSet) bool { return *s.Spec.Replicas == 1 })
	resume()
	safe()
	r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Annotations = map[string]string{v1alpha1.AnnotationRetry: "now"} })
	r.runs("alpha", imageB)
}

// Between the decision to delete a pod and the deletion another one takes its place.
// That one is not meant.
func TestSeed002AFreshPodOfTheSameNameIsNotDeleted(t *testing.T) {
	t.Parallel()
	r, w, pod := updating(t)
	since := time.Now()
	decided, swapped := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(swapped) })
	defer goOn()
	var once sync.Once
	w.refuse(func(write kube.Write) error {
		if write.Verb == "delete" && write.Kind == "Pod" {
			once.Do(func() {
				close(decided)
				<-swapped
			})
		}
		return nil
	})
	r.setImage("alpha", imageB)
	comes(t, "the operator to delete the pod", decided)
	r.delete(pod)
	fresh := r.pod("alpha", "the fresh pod", func(p *corev1.Pod) bool { return p.UID != pod.UID })
	goOn()
	r.runs("alpha", imageB)
	r.ready("alpha")
	if now := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true }); now.UID != fresh.UID || now.DeletionTimestamp != nil {
		t.Errorf("the fresh pod was %s, and now there is %s", fresh.UID, now.UID)
	}
	var codes []int
	for _, event := range r.cluster.Audit(t, cluster.OperatorUser, since) {
		if event.Verb == "delete" && event.Resource == "pods" && event.Namespace == r.namespace {
			codes = append(codes, event.Code)
		}
	}
	if !slices.Equal(codes, []int{http.StatusConflict}) {
		t.Errorf("the API server answered the deletions of pods with %v", codes)
	}
}

// late is a way to the API server on which news about a kind may be held back, so that
// a cache is stale.
type late struct {
	kind schema.GroupResource

	mu   sync.Mutex
	held chan struct{} // closed when the news may go on; nil: nothing is held back
}

// use makes an operator go this way.
func (l *late) use(config *operator.Config) {
	config.Kubernetes.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err == nil && request.URL.Query().Get("watch") != "" && strings.HasSuffix(request.URL.Path, "/"+l.kind.Resource) {
				response.Body = &lateBody{ReadCloser: response.Body, late: l, closed: make(chan struct{})}
			}
			return response, err
		})
	})
}

// hold holds the news back until the function is called.
func (l *late) hold() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(chan struct{})
	l.held = held
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.held = nil
		close(held)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// lateBody is the stream of news.
type lateBody struct {
	io.ReadCloser
	late   *late
	once   sync.Once
	closed chan struct{}
}

func (b *lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.late.mu.Lock()
	held := b.late.held
	b.late.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-b.closed:
		}
	}
	return n, err
}

func (b *lateBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}

// Right after the template was applied, a cache may still have the StatefulSet from
// before: observed, and with the pod of its revision. Taken at its word there would be
// nothing to replace.
func TestSeed002AStaleCacheDoesNotCompleteTheTask(t *testing.T) {
	t.Parallel()
	w, news := &writes{}, &late{kind: appsv1.Resource("statefulsets")}
	r := newRig(t, w.record, news.use)
	for _, name := range []string{"alpha", "beta"} {
		r.create(r.fullNode(name))
	}
	r.ready("alpha")
	r.ready("beta")
	pod := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
	set := &appsv1.StatefulSet{}
	r.get("alpha", set)
	w.forget()
	release := news.hold()
	defer release()
	r.setImage("alpha", imageB)
	r.statefulSet("alpha", "Kubernetes to have seen the new template", func(s *appsv1.StatefulSet) bool {
		return s.Generation > set.Generation && s.Status.ObservedGeneration == s.Generation && s.Status.UpdateRevision != set.Status.UpdateRevision
	})
	// The operator has time enough for another node.
	r.settled("beta")
	node := &v1alpha1.SeiNode{}
	r.get("alpha", node)
	for _, task := range node.Status.Plan.Tasks {
		if task.Type == "replace-pod" && task.Status == v1alpha1.PlanTaskComplete {
			t.Error("replace-pod is complete, and the old pod is there")
		}
	}
	r.untouched(w, pod)
	release()
	r.runs("alpha", imageB)
	if deleted := w.of("delete", "Pod"); len(deleted) != 1 {
		t.Errorf("the operator deleted %v", deleted)
	}
}
