package operator_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

func (r *rig) override(name, key, value string) {
	r.t.Helper()
	r.edit(name, func(n *v1alpha1.SeiNode) {
		if n.Spec.Overrides == nil {
			n.Spec.Overrides = v1alpha1.Overrides{}
		}
		n.Spec.Overrides[key] = value
	})
}

// document is what matters here of a configuration.
type document struct {
	Serial    int64             `json:"serial"`
	Overrides map[string]string `json:"overrides"`
}

// applied is the last configuration that a node's sidecar applied.
func (r *rig) applied(name string) (last document) {
	r.t.Helper()
	for _, entry := range r.sidecars.Node(r.namespace, name).Ledger() {
		if entry.Type != "config-apply" || entry.Outcome != "Done" {
			continue
		}
		var params struct {
			Document document `json:"document"`
		}
		if err := json.Unmarshal(entry.Params, &params); err != nil {
			r.t.Fatal(err)
		}
		last = params.Document
	}
	return last
}

const key = "config.p2p.max-connections"

func TestConfigurationReachesTheNodeInPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	before := r.ready("alpha")
	pod := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
	ledger := len(r.ran("alpha"))
	r.override("alpha", key, "77")
	after := r.until("alpha", "the configuration to be updated", func(n *v1alpha1.SeiNode) bool {
		return isReady(n) && n.Status.ConfigHash != before.Status.ConfigHash
	})
	if diff := cmp.Diff([]string{"config-validate#1", "config-apply#1", "restart-seid#1"}, r.ran("alpha")[ledger:]); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
	if now := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true }); now.UID != pod.UID {
		t.Error("the pod was replaced")
	}
	if got := r.applied("alpha"); got.Overrides[key] != "77" || got.Serial != after.Status.ConfigSerial || got.Serial <= before.Status.ConfigSerial {
		t.Errorf("applied is %+v, the serial was %d and is %d", got, before.Status.ConfigSerial, after.Status.ConfigSerial)
	}
	if last := after.Status.LastPlan; last.Type != v1alpha1.PlanConfigUpdate {
		t.Errorf("the last plan is %+v", last)
	}
}

// What seid would refuse is found before seid is stopped.
func TestABadConfigurationStopsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	ledger := len(r.ran("alpha"))
	r.override("alpha", key, "many")
	node := r.until("alpha", "the plan to fail", has(v1alpha1.ConditionNodeUpdateInProgress, metav1.ConditionFalse, v1alpha1.ReasonPlanFailed))
	if node.Status.Phase != v1alpha1.PhaseRunning || !contains(ready(node).Message, "max-connections") {
		t.Errorf("the phase is %s and Ready says %s", node.Status.Phase, ready(node).Message)
	}
	if diff := cmp.Diff([]string{"config-validate#1"}, r.ran("alpha")[ledger:]); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
	config := &corev1.ConfigMap{}
	r.get("alpha-config", config)
	if contains(config.Data["config.json"], "many") {
		t.Error("the ConfigMap has the bad value; the next pod would boot with it")
	}
	r.override("alpha", key, "78")
	r.ready("alpha")
	if got := r.applied("alpha"); got.Overrides[key] != "78" {
		t.Errorf("applied is %+v", got)
	}
}

// The newest value stays, however fast they follow each other.
func TestAnOverrideChangedTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	release := r.sidecars.Node(r.namespace, "alpha").Block("restart-seid")
	r.override("alpha", key, "50")
	r.began("restart-seid")
	r.override("alpha", key, "60")
	release()
	node := r.ready("alpha")
	if got := r.applied("alpha"); got.Overrides[key] != "60" || got.Serial != node.Status.ConfigSerial {
		t.Errorf("applied is %+v, the serial %d", got, node.Status.ConfigSerial)
	}
	// A pod that comes up now reads the document from its ConfigMap.
	pod := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
	r.override("alpha", key, "70")
	r.delete(pod)
	r.pod("alpha", "another pod", func(p *corev1.Pod) bool { return p.UID != pod.UID })
	r.until("alpha", "the node to be ready with the newest value", func(n *v1alpha1.SeiNode) bool {
		return isReady(n) && n.Status.ConfigSerial > node.Status.ConfigSerial
	})
	config := &corev1.ConfigMap{}
	r.get("alpha-config", config)
	if !contains(config.Data["config.json"], `"70"`) {
		t.Errorf("the configuration is %s", config.Data["config.json"])
	}
	if got := r.applied("alpha"); got.Overrides[key] != "70" {
		t.Errorf("applied is %+v", got)
	}
}

// A configuration that was written down and did not reach seid is not forgotten.
func TestAConfigurationThatDidNotReachSeid(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*rig){
		"because config-apply failed": func(r *rig) {
			r.sidecars.Node(r.namespace, "alpha").Fail("config-apply", 1, "InvalidConfiguration", "no", false)
			r.override("alpha", key, "61")
			r.until("alpha", "the plan to fail", has(v1alpha1.ConditionNodeUpdateInProgress, metav1.ConditionFalse, v1alpha1.ReasonPlanFailed))
			r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Annotations = map[string]string{v1alpha1.AnnotationRetry: "now"} })
		},
		"because another edit came before the restart": func(r *rig) {
			safe := r.unsafe("alpha")
			r.override("alpha", key, "61")
			r.until("alpha", "the restart to wait", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForSafeStop))
			r.edit("alpha", func(n *v1alpha1.SeiNode) {
				n.Spec.Peers = []v1alpha1.PeerSource{{Static: &v1alpha1.StaticPeers{Addresses: []string{"0123456789abcdef0123456789abcdef01234567@peer.example.com:26656"}}}}
			})
			r.until("alpha", "the edit to be noticed", func(n *v1alpha1.SeiNode) bool { return n.Status.ObservedGeneration == n.Generation })
			safe()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.create(r.fullNode("alpha"))
			r.ready("alpha")
			ledger := len(r.ran("alpha"))
			spoil(r)
			r.until("alpha", "the configuration to have reached seid", func(n *v1alpha1.SeiNode) bool {
				return isReady(n) && n.Status.AppliedConfigHash == n.Status.ConfigHash && n.Status.ConfigSerial > 1
			})
			if ran := r.ran("alpha")[ledger:]; ran[len(ran)-1] != "restart-seid#1" {
				t.Errorf("the sidecar ran %v", ran)
			}
		})
	}
}

func TestSeed000StatefulSetDeletedInAConfigUpdate(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"config-validate", "config-apply", "restart-seid"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.create(r.fullNode("alpha"))
			before := r.ready("alpha")
			release := r.sidecars.Node(r.namespace, "alpha").Block(at)
			r.override("alpha", key, "55")
			r.began(at)
			set := &appsv1.StatefulSet{}
			r.get("alpha", set)
			r.delete(set)
			release()
			node := r.tracked("alpha", set.UID)
			if node.Status.ConfigHash == before.Status.ConfigHash || node.Status.DataVolume.UID != before.Status.DataVolume.UID {
				t.Errorf("the status is %+v", node.Status)
			}
		})
	}
}

// unsafe makes the sidecar of a node say that seid must not be stopped, and returns when the
// operator has heard of it: a stop that is wanted before that goes ahead, and it is seid's
// parent that holds it back, which the tests here do not have.
//
// The operator reads a status because of an event, for the node and for a task, each of
// them one after the other. So when the fourth read has begun, one was taken in.
func (r *rig) unsafe(name string) (safe func()) {
	r.t.Helper()
	node := r.sidecars.Node(r.namespace, name)
	reads := func() (count int) {
		for _, call := range r.sidecars.Calls() {
			if call.Name == name && call.Method == http.MethodGet && strings.HasSuffix(call.Path, "/status") {
				count++
			}
		}
		return count
	}
	for i := range 4 {
		before := reads()
		node.SetSeid(func(s *api.Seid) {
			s.SafeToStop, s.UnsafeBecause = false, fmt.Sprintf("state sync ended, and %d blocks of 4 came", i)
		})
		each(r.t, "the operator to read the status", func() bool { return reads() > before })
	}
	return func() { node.SetSeid(nil) }
}

func TestEveryStopWaitsForASafeMoment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stop func(*rig)
		told func(*v1alpha1.SeiNode) bool
		done func(*v1alpha1.SeiNode) bool
	}{
		"a pause": {
			func(r *rig) { r.pause("alpha", true) },
			has(v1alpha1.ConditionPaused, metav1.ConditionFalse, v1alpha1.ReasonWaitingForSafeStop), isPaused,
		},
		"an update": {
			func(r *rig) { r.setImage("alpha", imageB) },
			has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForSafeStop),
			func(n *v1alpha1.SeiNode) bool { return isReady(n) && n.Status.CurrentImage == imageB },
		},
		"a restart for the configuration": {
			func(r *rig) { r.override("alpha", key, "44") },
			has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForSafeStop),
			func(n *v1alpha1.SeiNode) bool { return isReady(n) && n.Status.ConfigSerial > 1 },
		},
	} {
		for _, end := range []string{"until it is safe", "unless a person says otherwise"} {
			t.Run(name+" "+end, func(t *testing.T) {
				t.Parallel()
				w := &writes{}
				r := newRig(t, w.record)
				r.create(r.fullNode("alpha"))
				r.ready("alpha")
				pod := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
				safe := r.unsafe("alpha")
				c.stop(r)
				node := r.until("alpha", "the wait to be told of", c.told)
				if same := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true }); same.UID != pod.UID || same.DeletionTimestamp != nil {
					t.Error("the pod was stopped")
				}
				_ = node
				if end == "until it is safe" {
					safe()
				} else {
					r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Annotations = map[string]string{v1alpha1.AnnotationSkipSafeStop: "true"} })
				}
				r.until("alpha", "it to be done", c.done)
			})
		}
	}
}
