// Package controlplane proves what the other tests rely on: that the control
// plane they run against is a real one, and that they act on it with no more
// rights than the operator and its users have.
package controlplane

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// TestStatefulSetLivesAndDiesWithItsOwner is the proof that the controllers are
// real: the StatefulSet controller makes a pod, the scheduler places it, a
// stand-in kubelet makes it ready under an address of its own, a server at that
// address is reached as the pod's would be, and the garbage collector removes
// all of it when the owner is deleted.
func TestStatefulSetLivesAndDiesWithItsOwner(t *testing.T) {
	c := cluster.Get(t)
	operator, person, namespace := c.Operator(t), c.Person(t), c.Namespace(t)

	node := newNode(namespace)
	if err := person.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if err := operator.Apply(t.Context(), statefulSetOf(node), client.FieldOwner("sei-operator")); err != nil {
		t.Fatalf("the operator cannot apply a StatefulSet: %v", err)
	}

	pod := awaitPod(t, operator, namespace, node.Name+"-0", func(pod *corev1.Pod, kind watch.EventType) bool {
		return kind != watch.Deleted && isReady(pod)
	})
	if pod.Spec.NodeName == "" {
		t.Error("the pod is ready and was not scheduled")
	}
	address, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || !c.PodNetwork.Contains(address) || !address.IsLoopback() {
		t.Fatalf("the pod's address %q is not in the loopback network %s", pod.Status.PodIP, c.PodNetwork)
	}
	assertReached(t, netip.AddrPortFrom(address, 7777))

	if err := person.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, operator, namespace, pod.Name, func(_ *corev1.Pod, kind watch.EventType) bool {
		return kind == watch.Deleted
	})
	statefulSets := &appsv1.StatefulSetList{}
	if err := operator.List(t.Context(), statefulSets, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if len(statefulSets.Items) != 0 {
		t.Errorf("the StatefulSet outlived its owner: %v", statefulSets.Items[0].Name)
	}
}

// TestOperatorHasItsRoleAndNoMore shows that a verb that is not in the shipped
// role is really missing in the tests.
func TestOperatorHasItsRoleAndNoMore(t *testing.T) {
	c := cluster.Get(t)
	operator, namespace := c.Operator(t), c.Namespace(t)
	for what, act := range map[string]func() error{
		"create a SeiNodeTask": func() error {
			return operator.Create(t.Context(), &v1alpha1.SeiNodeTask{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"}})
		},
		// It may list and watch them, because a watch of their metadata needs that too, and
		// makes those with the certificates of nodes.
		"replace a Secret": func() error {
			return operator.Update(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "theirs"}})
		},
		"ask who somebody is": func() error {
			return operator.Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "theirs"}})
		},
		"delete a Secret": func() error {
			return operator.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "theirs"}})
		},
		"list reservations elsewhere": func() error {
			return operator.List(t.Context(), &coordinationv1.LeaseList{}, client.InNamespace(namespace))
		},
		"create a namespace": func() error {
			return operator.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}})
		},
		"list Kubernetes nodes": func() error { return operator.List(t.Context(), &corev1.NodeList{}) },
	} {
		if err := act(); !apierrors.IsForbidden(err) {
			t.Errorf("the operator should be forbidden to %s, and got: %v", what, err)
		}
	}
	if err := operator.List(t.Context(), &v1alpha1.SeiNodeList{}); err != nil {
		t.Errorf("the operator should be allowed to list SeiNodes: %v", err)
	}
}

// TestPersonIsNoClusterAdmin shows that people in the tests have an ordinary role.
func TestPersonIsNoClusterAdmin(t *testing.T) {
	person := cluster.Get(t).Person(t)
	if err := person.List(t.Context(), &corev1.NodeList{}); !apierrors.IsForbidden(err) {
		t.Errorf("a person should be forbidden to list Kubernetes nodes, and got: %v", err)
	}
}

// TestKubectlExplains shows the documentation of the fields as a person sees it.
func TestKubectlExplains(t *testing.T) {
	c := cluster.Get(t)
	for path, want := range map[string]string{
		"snode.spec.dataVolume.deletionPolicy": "takes it over",
		"snd.spec.rolloutPaused":               "the nodes go on running",
		"snt.spec.restartSeid":                 "restarts seid in place",
	} {
		output, err := exec.CommandContext(t.Context(), c.Kubectl,
			"--kubeconfig", c.PersonKubeconfig(t), "--cache-dir", t.TempDir(), "explain", path).CombinedOutput()
		// kubectl breaks lines where it likes.
		text := strings.Join(strings.Fields(string(output)), " ")
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("kubectl explain %s: %v, does not say %q:\n%s", path, err, want, output)
		}
	}
}

func newNode(namespace string) *v1alpha1.SeiNode {
	return &v1alpha1.SeiNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "node"},
		Spec: v1alpha1.SeiNodeSpec{
			ChainID: "pacific-1", Image: "ghcr.io/sei-protocol/sei:v6.6.2", FullNode: &v1alpha1.FullNodeSpec{},
		},
	}
}

func statefulSetOf(node *v1alpha1.SeiNode) *appsv1ac.StatefulSetApplyConfiguration {
	labels := map[string]string{v1alpha1.LabelNode: node.Name}
	return appsv1ac.StatefulSet(node.Name, node.Namespace).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("SeiNode").
			WithName(node.Name).WithUID(node.UID).WithController(true).WithBlockOwnerDeletion(true)).
		WithSpec(appsv1ac.StatefulSetSpec().
			WithReplicas(1).
			WithServiceName(node.Name).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).
				WithSpec(corev1ac.PodSpec().WithContainers(
					corev1ac.Container().WithName("seid").WithImage(node.Spec.Image)))))
}

// awaitPod watches one pod until it is as wanted.
func awaitPod(t *testing.T, c client.WithWatch, namespace, name string, wanted func(*corev1.Pod, watch.EventType) bool) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watcher, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	var last *corev1.Pod
	for event := range watcher.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			t.Fatalf("watching pod %s: %v", name, event.Object)
		}
		if last = pod; wanted(pod, event.Type) {
			return pod
		}
	}
	t.Fatalf("pod %s did not become what was wanted; last seen: %+v", name, last)
	return nil
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// assertReached binds a server to the address and calls it there.
func assertReached(t *testing.T, address netip.AddrPort) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address.String())
	if err != nil {
		t.Fatalf("a scripted sidecar cannot listen at its pod's address: %v", err)
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := fmt.Fprint(w, r.Context().Value(http.LocalAddrContextKey)); err != nil {
				t.Errorf("answering: %v", err)
			}
		}),
	}
	go server.Serve(listener) //nolint:errcheck // it always ends with ErrServerClosed
	defer server.Close()      //nolint:errcheck // the test is over

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("the scripted sidecar is not reached at its pod's address: %v", err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != address.String() {
		t.Errorf("expected the server at %s to answer, got %q (%v)", address, body, err)
	}
}
