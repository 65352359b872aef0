package nodes_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/client"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/nodes"
)

func TestMain(m *testing.M) { cluster.Main(m) }

const (
	nodeUID = "11111111-1111-1111-1111-111111111111"
	peer    = "0123456789012345678901234567890123456789@seed.example.com:26656"
)

// rig is a namespace of its own with a fleet.
type rig struct {
	t         testing.TB
	fleet     *nodes.Fleet
	person    runtimeclient.WithWatch
	namespace string
	http      *http.Client
}

func newRig(tb testing.TB) *rig {
	tb.Helper()
	c := cluster.Get(tb)
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	r := &rig{t: tb, person: c.Person(tb), namespace: c.Namespace(tb), http: &http.Client{Transport: transport}}
	r.fleet = nodes.Start(tb, c, nodes.Options{Namespace: r.namespace})
	return r
}

// create makes a claim if there is none, and a StatefulSet, as the operator would.
func (r *rig) create(name, uid string, changes ...func(*corev1.PodSpec)) {
	r.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "data-" + name}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if err := r.person.Create(r.t.Context(), claim); runtimeclient.IgnoreAlreadyExists(err) != nil {
		r.t.Fatal(err)
	}
	set := statefulSet(r.namespace, name, uid)
	for _, change := range changes {
		change(&set.Spec.Template.Spec)
	}
	if err := r.person.Create(r.t.Context(), set); err != nil {
		r.t.Fatal(err)
	}
}

func statefulSet(namespace, name, uid string) *appsv1.StatefulSet {
	labels := map[string]string{v1alpha1.LabelNode: name}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	set.Spec.Replicas = new(int32(1))
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec = corev1.PodSpec{
		InitContainers: []corev1.Container{{
			Name: "sei-sidecar", Image: "sidecar", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
			Ports:        []corev1.ContainerPort{{ContainerPort: 7777}},
			Env:          []corev1.EnvVar{{Name: "SEI_NODE_UID", Value: uid}},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/home/nonroot"}},
		}},
		Containers: []corev1.Container{{Name: "seid", Image: "seid:1"}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + name},
		}}},
	}
	return set
}

// up makes the node "a" and returns its handle and a client of its sidecar.
func (r *rig) up(changes ...func(*corev1.PodSpec)) (*nodes.Node, *client.Client) {
	r.t.Helper()
	r.create("a", nodeUID, changes...)
	n := r.fleet.Node(r.namespace, "a")
	return n, r.dial(n, nodeUID)
}

func (r *rig) dial(n *nodes.Node, uid string) *client.Client {
	r.t.Helper()
	url, err := n.WaitUp(r.t.Context())
	must(r.t, err)
	c, err := client.New(client.Options{BaseURL: url, HTTPClient: r.http, NodeUID: uid})
	must(r.t, err)
	return c
}

func (r *rig) claim() types.UID {
	r.t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	must(r.t, r.person.Get(r.t.Context(), r.key("data-a"), claim))
	return claim.UID
}

func (r *rig) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespace, Name: name}
}

// replacePod deletes the pod and returns a client of the next one.
func (r *rig) replacePod() *client.Client {
	r.t.Helper()
	pod := &corev1.Pod{}
	must(r.t, r.person.Get(r.t.Context(), r.key("a-0"), pod))
	must(r.t, r.person.Delete(r.t.Context(), pod))
	next := cluster.Eventually(r.t, r.person, r.key(pod.Name), "a new pod", func(p *corev1.Pod) bool { return p.UID != pod.UID })
	n := r.fleet.Node(r.namespace, "a")
	_, err := n.WaitPod(r.t.Context(), next.UID)
	must(r.t, err)
	return r.dial(n, nodeUID)
}

// do submits a task and returns it when it has ended.
func do(tb testing.TB, c *client.Client, kind, params string) api.TaskResult {
	tb.Helper()
	return redo(tb, c, uuid.New(), kind, params)
}

func redo(tb testing.TB, c *client.Client, id uuid.UUID, kind, params string) api.TaskResult {
	tb.Helper()
	submit(tb, c, id, kind, params)
	return wait(tb, c, id)
}

func submit(tb testing.TB, c *client.Client, id uuid.UUID, kind, params string) {
	tb.Helper()
	_, err := c.Submit(tb.Context(), api.TaskRequest{ID: id, Type: kind, Params: json.RawMessage(params)})
	must(tb, err)
}

func wait(tb testing.TB, c *client.Client, id uuid.UUID) api.TaskResult {
	tb.Helper()
	for {
		result, err := c.Wait(tb.Context(), id, 30*time.Second)
		must(tb, err)
		if result.Status != api.TaskRunning {
			return result
		}
	}
}

func status(tb testing.TB, c *client.Client) api.Status {
	tb.Helper()
	got, err := c.Status(tb.Context())
	must(tb, err)
	return got
}

// follow returns the events from now on.
func follow(t *testing.T, c *client.Client) <-chan client.Event {
	t.Helper()
	events := make(chan client.Event)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event, err := range c.Events(t.Context(), "") {
			if err != nil {
				return // The test has ended, or it will wait in vain and say so.
			}
			select {
			case events <- event:
			case <-t.Context().Done():
				return
			}
		}
	}()
	t.Cleanup(func() { <-done })
	if first := <-events; first.Kind != api.EventReset {
		t.Fatalf("the stream began with %+v", first)
	}
	return events
}

func document(serial int64, mode seid.Mode, overrides map[string]string) string {
	text, _ := json.Marshal(map[string]any{"document": seid.Intent{Serial: serial, ChainID: "sei-test", Mode: mode, Overrides: overrides}})
	return string(text)
}

func outcomes(n *nodes.Node) []string {
	var out []string
	for _, e := range n.Ledger() {
		out = append(out, e.Type+" "+e.Outcome)
	}
	return out
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
