package nodes_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/fakeseid"
	"github.com/sei-operator/sei-operator/test/nodes"
)

func TestAPodOfAStatefulSetGetsASidecar(t *testing.T) {
	r := newRig(t)
	n, c := r.up()
	fresh := status(t, c)
	if fresh.Approved || fresh.Seid.State != api.SeidWaiting || !fresh.Seid.SafeToStop || fresh.SigningPublicKey != "" {
		t.Errorf("a new node is %+v", fresh)
	}
	if !regexp.MustCompile("^[0-9a-f]{40}$").MatchString(fresh.NodeID) {
		t.Errorf("the node id is %q", fresh.NodeID)
	}
	do(t, c, tasks.TypeConfigApply, document(3, seid.ModeFullNode, nil))
	do(t, c, tasks.TypeMarkReady, `{}`)
	ready := status(t, c)
	if !ready.Approved || ready.Status != api.StatusReady || ready.Seid.State != api.SeidRunning || !ready.Seid.RPC || ready.Config.Serial != 3 {
		t.Errorf("an approved node is %+v", ready)
	}
	if diff := cmp.Diff([]string{"config-apply Done", "mark-ready Done"}, outcomes(n)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(n.Ledger(), r.fleet.Ledger(r.claim())); diff != "" {
		t.Error(diff)
	}
	submission := nodes.Call{Namespace: r.namespace, Name: "a", Method: http.MethodPost, Path: "/v0/tasks", NodeUID: nodeUID}
	if posts := slices.DeleteFunc(r.fleet.Calls(), func(call nodes.Call) bool { return call != submission }); len(posts) != 2 {
		t.Errorf("two submissions are not in %+v", r.fleet.Calls())
	}
}

func TestTheVolumeKeepsEverythingOverARestartOfThePod(t *testing.T) {
	r := newRig(t)
	n, c := r.up()
	do(t, c, tasks.TypeConfigApply, document(5, seid.ModeFullNode, nil))
	approval := do(t, c, tasks.TypeMarkReady, `{}`)
	before := status(t, c)
	n.Block(tasks.TypeConfigureGenesis)
	unfinished := uuid.New()
	submit(t, c, unfinished, tasks.TypeConfigureGenesis, `{"chainId":"sei-test"}`)
	_, err := n.WaitCall(t.Context(), tasks.TypeConfigureGenesis)
	must(t, err)

	c = r.replacePod()
	after := status(t, c)
	if after.Seid.State != api.SeidRunning || after.Seid.Instance == before.Seid.Instance {
		t.Errorf("seid is %+v", after.Seid)
	}
	after.Seid, before.Seid = api.Seid{}, api.Seid{}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	if got, err := c.Get(t.Context(), approval.ID); err != nil || got.Status != api.TaskCompleted {
		t.Errorf("the old task is %+v, %v", got, err)
	}
	if got, err := c.Get(t.Context(), unfinished); err != nil || got.Status != api.TaskRunning || got.Run != 1 {
		t.Errorf("the unfinished task is %+v, %v", got, err)
	}
	if got := n.Ledger(); len(got) != 3 || got[2].Outcome != nodes.Running {
		t.Errorf("a run that was cut in two is not one: %+v", got)
	}
}

func TestAHoldSurvivesThePodAndApprovalIsOfOneNode(t *testing.T) {
	r := newRig(t)
	n, c := r.up()
	do(t, c, tasks.TypeMarkReady, `{}`)
	do(t, c, tasks.TypeMarkNotReady, `{"reason":"maintenance"}`)
	if got := status(t, c); !got.Held || got.Seid.State != api.SeidWaiting || got.Seid.LastExit.Time.IsZero() {
		t.Errorf("a held node is %+v", got)
	}
	c = r.replacePod()
	if got := status(t, c); !got.Held || !got.Approved || got.Seid.State != api.SeidWaiting {
		t.Errorf("a held node in a new pod is %+v", got)
	}
	n.Release()

	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "a"}}
	must(t, r.person.Delete(t.Context(), set))
	cluster.Gone[*corev1.Pod](t, r.person, r.key("a-0"), "its StatefulSet was deleted")
	r.create("a", "another-uid")
	pod := cluster.Eventually(t, r.person, r.key("a-0"), "a pod", func(*corev1.Pod) bool { return true })
	_, err := n.WaitPod(t.Context(), pod.UID)
	must(t, err)
	got := status(t, r.dial(n, "another-uid"))
	if got.Approved || got.Approval.NodeUID != nodeUID || got.Seid.State != api.SeidWaiting ||
		!slices.ContainsFunc(got.Problems, func(p api.Problem) bool { return p.Reason == consent.ReasonApprovalOfAnother }) {
		t.Errorf("the next node finds %+v", got)
	}
}

func TestKeysOfAValidator(t *testing.T) {
	r := newRig(t)
	file, key := fakeseid.SigningKey("one")
	must(t, r.person.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "key"}, Data: map[string][]byte{"priv_validator_key.json": file},
	}))
	n, c := r.up(func(spec *corev1.PodSpec) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "key", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "key"}}})
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "key", MountPath: "/home/config/priv_validator_key.json", SubPath: "priv_validator_key.json"}}
	})
	do(t, c, tasks.TypeConfigApply, document(1, seid.ModeValidator, nil))
	if got := do(t, c, tasks.TypeMarkReady, `{"publicKey":"`+key+`"}`); got.Status != api.TaskCompleted {
		t.Fatalf("mark-ready: %+v", got)
	}
	if got := status(t, c); got.SigningPublicKey != key || got.Approval.PublicKey != key || got.Seid.State != api.SeidRunning {
		t.Errorf("a validator is %+v", got)
	}
	_, other := fakeseid.SigningKey("two")
	n.KeyIdentity(other)
	if got := do(t, c, tasks.TypeRestartSeid, `{}`); got.Reason != tasks.ReasonKeyIdentityChanged {
		t.Errorf("restart: %+v", got)
	}
	if got := status(t, c).Seid; got.State != api.SeidParked || got.ParkedBecause != "KeyIdentityChanged" {
		t.Errorf("seid is %+v", got)
	}
	if got := do(t, c, tasks.TypeMarkReady, `{"publicKey":"`+key+`"}`); got.Reason != tasks.ReasonKeyIdentityChanged {
		t.Errorf("mark-ready with the old key: %+v", got)
	}
	n.KeyIdentity("")
	if got := status(t, c).Seid; got.State != api.SeidRunning {
		t.Errorf("with its own key again seid is %+v", got)
	}
}

func TestANewPodBootsWithTheMountedConfiguration(t *testing.T) {
	r := newRig(t)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "a-config"}}
	write := func(serial int64) {
		text, _ := json.Marshal(seid.Intent{Serial: serial, ChainID: "sei-test", Mode: seid.ModeFullNode})
		config.Data = map[string]string{"node.json": string(text)}
	}
	write(4)
	must(t, r.person.Create(t.Context(), config))
	_, c := r.up(func(spec *corev1.PodSpec) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "a-config"}},
		}})
		sidecar := &spec.InitContainers[0]
		sidecar.Env = append(sidecar.Env, corev1.EnvVar{Name: "SEI_NODE_CONFIG", Value: "/etc/sei/node.json"})
		sidecar.VolumeMounts = append(sidecar.VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: "/etc/sei"})
	})
	do(t, c, tasks.TypeMarkReady, `{}`)
	if got := status(t, c).Config.Serial; got != 4 {
		t.Errorf("the first pod has the configuration %d", got)
	}
	write(9)
	must(t, r.person.Update(t.Context(), config))
	if got := do(t, c, tasks.TypeRestartSeid, `{}`); got.Status != api.TaskCompleted || status(t, c).Config.Serial != 4 {
		t.Errorf("a mounted ConfigMap follows late, but the restart %+v has found it", got)
	}
	if got := status(t, r.replacePod()); got.Config.Serial != 9 || got.Seid.State != api.SeidRunning {
		t.Errorf("the second pod is %+v", got)
	}
}

// BenchmarkFleet prints how long the pods of many nodes take to have an address, and
// how long after that it takes until all sidecars have answered, and have approved
// their nodes one after the other.
func BenchmarkFleet(b *testing.B) {
	const count = 200
	for b.Loop() {
		r := newRig(b)
		begin := time.Now()
		for i := range count {
			r.create(fmt.Sprint("node-", i), nodeUID)
		}
		for i := range count {
			cluster.Eventually(b, r.person, r.key(fmt.Sprintf("node-%d-0", i)), "an address", func(p *corev1.Pod) bool { return p.Status.PodIP != "" })
		}
		pods := time.Now()
		for i := range count {
			status(b, r.dial(r.fleet.Node(r.namespace, fmt.Sprint("node-", i)), nodeUID))
		}
		sidecars := time.Now()
		for i := range count {
			do(b, r.dial(r.fleet.Node(r.namespace, fmt.Sprint("node-", i)), nodeUID), tasks.TypeMarkReady, `{}`)
		}
		b.ReportMetric(pods.Sub(begin).Seconds(), "s/pods")
		b.ReportMetric(sidecars.Sub(pods).Seconds(), "s/sidecars")
		b.ReportMetric(time.Since(sidecars).Seconds(), "s/approvals")
	}
}
