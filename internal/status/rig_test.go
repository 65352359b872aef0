package status

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// now is the time in all tests.
var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// edit changes an input under construction.
type edit func(*Input)

// running is a node that was brought up, runs and follows the chain.
func running(edits ...edit) Input {
	node := &v1alpha1.SeiNode{
		ObjectMeta: metav1.ObjectMeta{Name: "node", Namespace: "sei", UID: "node-uid", Generation: 3},
		Spec: v1alpha1.SeiNodeSpec{
			ChainID: "pacific-1", Image: "registry.example.com/seid:v6", FullNode: &v1alpha1.FullNodeSpec{},
		},
		Status: v1alpha1.SeiNodeStatus{
			Phase:       v1alpha1.PhaseRunning,
			DataVolume:  &v1alpha1.ObjectIdentity{Name: "data-node", UID: "claim-uid"},
			StatefulSet: &v1alpha1.ObjectIdentity{Name: "node", UID: "set-uid"},
		},
	}
	in := Input{
		Input:    plan.Input{Node: node, Seen: plan.Observation{Now: now}},
		Decision: plan.Decision{Step: plan.Idle, Reason: v1alpha1.ReasonSettled, Message: "Nothing is to be done."},
	}
	in.Seen.Claim = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: "data-node", UID: "claim-uid",
			Labels: map[string]string{v1alpha1.LabelNode: "node", v1alpha1.LabelChain: "pacific-1", v1alpha1.LabelMode: "fullNode"},
		},
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	in.Seen.StatefulSet = &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "node", UID: "set-uid",
			OwnerReferences: []metav1.OwnerReference{{Kind: "SeiNode", Name: "node", UID: "node-uid", Controller: new(true)}},
		},
		Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1))},
	}
	in.Seen.Pod = newPod()
	in.Seen.Sidecar = plan.Sidecar{Connected: true, Status: api.Status{Approved: true, NodeID: "abc", Seid: api.Seid{State: api.SeidRunning, SafeToStop: true}}}
	rerender(&in)
	for _, change := range edits {
		change(&in)
	}
	if in.Persisted == nil {
		in.Persisted = in.Node.Status.DeepCopy()
	}
	return in
}

func rerender(in *Input) {
	settings := platform.Default()
	settings.SidecarImage = "registry.example.com/sidecar:v1"
	want, err := render.Node(in.Node, settings)
	if err != nil {
		panic(err)
	}
	in.Want = want
}

func newPod() *corev1.Pod {
	started := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-time.Hour))}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "node-0", Annotations: map[string]string{v1alpha1.AnnotationTemplateHash: "hash"},
		},
		Spec: corev1.PodSpec{
			NodeName:       "machine-1",
			Containers:     []corev1.Container{{Name: "proxy", Image: "proxy"}, {Name: render.ContainerSeid, Image: "registry.example.com/seid:v6"}},
			InitContainers: []corev1.Container{{Name: "install"}, {Name: render.ContainerSidecar, Image: "registry.example.com/sidecar:v1"}},
		},
		Status: corev1.PodStatus{
			Conditions:            []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses:     []corev1.ContainerStatus{{Name: "proxy", State: started}, {Name: render.ContainerSeid, State: started}},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "install"}, {Name: render.ContainerSidecar, State: started}},
		},
	}
}

// probedByPolicy is a template that is ours but for a probe that nobody owns.
func probedByPolicy(in *Input) {
	text, err := json.Marshal(in.Want.StatefulSet.Spec.Template)
	if err == nil {
		err = json.Unmarshal(text, &in.Seen.StatefulSet.Spec.Template)
	}
	if err != nil {
		panic(err)
	}
	in.Seen.StatefulSet.Spec.Template.Spec.Containers[0].LivenessProbe = &corev1.Probe{}
}

func asksForPause(in *Input) { in.Node.Spec.Paused = true }

func deleted(in *Input) { in.Node.DeletionTimestamp = new(metav1.NewTime(now)) }

func noPod(in *Input) { in.Seen.Pod, in.Seen.Sidecar = nil, plan.Sidecar{} }

func pod(change func(*corev1.Pod)) edit {
	return func(in *Input) { change(in.Seen.Pod) }
}

func endsAt(when time.Time) edit {
	return pod(func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(when)) })
}

var notReadyPod = pod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })

// crashing is a pod whose seid does not stay up, unpullable one whose image is not to be had.
var (
	crashing   = waiting("CrashLoopBackOff")
	unpullable = waiting("ImagePullBackOff")
)

func waiting(reason string) edit {
	return pod(func(p *corev1.Pod) {
		p.Status.ContainerStatuses[1].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
		p.Status.Conditions[0].Status = corev1.ConditionFalse
	})
}

// sidecarUp is a pod whose sidecar started at this time.
func sidecarUp(when time.Time) edit {
	return pod(func(p *corev1.Pod) { p.Status.InitContainerStatuses[1].State.Running.StartedAt = metav1.NewTime(when) })
}

// sidecarStarting is a pod whose sidecar has not started.
var sidecarStarting = pod(func(p *corev1.Pod) { p.Status.InitContainerStatuses[1].State.Running = nil })

func sidecar(change func(*plan.Sidecar)) edit {
	return func(in *Input) { change(&in.Seen.Sidecar) }
}

var silent = sidecar(func(s *plan.Sidecar) { *s = plan.Sidecar{} })

var unapproved = sidecar(func(s *plan.Sidecar) { s.Status.Approved = false })

// unsafe says that seid must not be stopped at this moment.
var unsafe = sidecar(func(s *plan.Sidecar) { s.Status.Seid.SafeToStop, s.Status.Seid.UnsafeBecause = false, "state sync" })

var holds = sidecar(func(s *plan.Sidecar) { s.Status.Held, s.Status.HeldReason = true, "the disk is being checked" })

// rounded: the height of the upgrade is only near the right one.
var rounded = sidecar(func(s *plan.Sidecar) { s.Status.Upgrade.Rounded = true })

// upgrade is a halt for an upgrade, or one that is due.
func upgrade(halted bool) edit {
	return sidecar(func(s *plan.Sidecar) { s.Status.Upgrade = api.Upgrade{Name: "v7", Height: 100, Halted: halted} })
}

func parkedFor(reason string) edit {
	return sidecar(func(s *plan.Sidecar) {
		s.Status.Seid = api.Seid{State: api.SeidParked, ParkedBecause: reason, Message: "the key is another one"}
	})
}

// ruined is a seid that ended because its volume is ruined, and is about to be restarted.
var ruined = sidecar(func(s *plan.Sidecar) {
	s.Status.Seid = api.Seid{State: api.SeidUnknown, LastExit: api.Exit{Cause: "VolumeRuined"}}
})

func noClaim(in *Input) { in.Seen.Claim = nil }

// endingClaim says that somebody deleted the claim, which the pod keeps.
func endingClaim(in *Input) { in.Seen.Claim.DeletionTimestamp = new(metav1.NewTime(now)) }

// leasedToOther says that another node has the key in the Secret.
func leasedToOther(kind plan.KeyKind) edit {
	return func(in *Input) {
		key(kind, plan.Key{PublicKey: "public", NodeID: "id"})(in)
		in.Seen.Leases = map[string]plan.Lease{}
		for _, wish := range plan.Wishes(in.Input) {
			in.Seen.Leases[wish.Name] = plan.Lease{Holder: "other-uid", HolderName: "sei/other"}
		}
	}
}

// reserved says that the node has a key, by which it was approved.
func reserved(kind v1alpha1.ReservationKind) edit {
	return func(in *Input) {
		in.Node.Status.Reservations = append(in.Node.Status.Reservations, v1alpha1.Reservation{Kind: kind, Name: "sei-key"})
	}
}

// fullDisk says that less than a tenth of the disk is free.
var fullDisk = sidecar(func(s *plan.Sidecar) { s.Status.TotalBytes, s.Status.FreeBytes = 1000, 1 })

// usedByJob says that another pod uses the claim.
func usedByJob(in *Input) { in.Seen.OtherPods = []string{"job-1"} }

// stoppedSet says that the StatefulSet has no replicas.
func stoppedSet(in *Input) { in.Seen.StatefulSet.Spec.Replicas = new(int32(0)) }

// blocked is a decision to wait for a person.
func blocked(reason v1alpha1.ConditionReason, message string) edit {
	return func(in *Input) {
		in.Decision = plan.Decision{Step: plan.Blocked, Reason: reason, Message: message, Stalled: true}
	}
}

func decided(step plan.Step, reason v1alpha1.ConditionReason, message string) edit {
	return func(in *Input) { in.Decision = plan.Decision{Step: step, Reason: reason, Message: message} }
}

func doing(kind v1alpha1.PlanType) edit {
	return func(in *Input) {
		in.Node.Status.Plan = &v1alpha1.Plan{Type: kind, Reason: "ImageChanged", Message: "Because of this."}
	}
}

func phase(p v1alpha1.SeiNodePhase) edit {
	return func(in *Input) { in.Node.Status.Phase = p }
}

func trouble(gates ...plan.Gate) edit {
	return func(in *Input) { in.Trouble = gates }
}

func keySource(secret string) *v1alpha1.KeySource {
	return &v1alpha1.KeySource{Secret: &v1alpha1.KeySecret{SecretName: secret}}
}

// validator makes the node a validator with all keys that it can have.
func validator(in *Input) {
	in.Node.Spec.FullNode = nil
	in.Node.Spec.Validator = &v1alpha1.ValidatorSpec{
		SigningKey: keySource("signing"), NodeKey: keySource("identity"),
		OperatorKeyring: &v1alpha1.OperatorKeyring{Secret: &v1alpha1.KeyringSecret{
			SecretName: "keyring", KeyName: "admin",
			PassphraseSecretRef: v1alpha1.SecretEntry{SecretName: "passphrase", Key: "passphrase"},
		}},
	}
	rerender(in)
	in.Seen.Claim.Labels[v1alpha1.LabelMode] = "validator"
}

// stateSynced makes the node start from a snapshot, with so many witnesses.
func stateSynced(witnesses int) edit {
	return func(in *Input) {
		in.Node.Spec.FullNode.Snapshot = &v1alpha1.SnapshotSource{StateSync: &v1alpha1.StateSyncSource{}}
		rerender(in)
		in.Want.Witnesses = make([]string, witnesses)
	}
}

func key(kind plan.KeyKind, found plan.Key) edit {
	return func(in *Input) {
		if in.Seen.Keys == nil {
			in.Seen.Keys = map[plan.KeyKind]plan.Key{}
		}
		in.Seen.Keys[kind] = found
	}
}

// said is a condition that was written before, for an earlier generation.
func said(kind v1alpha1.ConditionType, status metav1.ConditionStatus, reason v1alpha1.ConditionReason) edit {
	return func(in *Input) {
		c := condition(kind, status, reason, "As it was.")
		c.ObservedGeneration, c.LastTransitionTime = 2, metav1.NewTime(now.Add(-time.Hour))
		in.Node.Status.Conditions = append(in.Node.Status.Conditions, c)
		in.Persisted = in.Node.Status.DeepCopy()
	}
}

func find(t *testing.T, in Input, kind v1alpha1.ConditionType) metav1.Condition {
	t.Helper()
	found := meta.FindStatusCondition(in.Node.Status.Conditions, string(kind))
	if found == nil {
		t.Fatalf("there is no condition %s", kind)
	}
	return *found
}

// says checks that a message says all of this.
func says(t *testing.T, message string, parts ...string) {
	t.Helper()
	if message == "" {
		t.Error("it says nothing")
	}
	for _, part := range parts {
		if !strings.Contains(message, part) {
			t.Errorf("it says %q, which lacks %q", message, part)
		}
	}
}
