package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// now is the time in all tests.
var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

const (
	nodeUID  types.UID = "node-uid"
	claimUID types.UID = "claim-uid"
	setUID   types.UID = "set-uid"
	otherUID types.UID = "other-uid"
)

// edit changes an input under construction.
type edit func(*Input)

// fresh is a full node that nobody has looked at yet, in an empty namespace.
func fresh(edits ...edit) Input {
	in := Input{
		Node: &v1alpha1.SeiNode{
			ObjectMeta: metav1.ObjectMeta{Name: "node", Namespace: "sei", UID: nodeUID, Generation: 1},
			Spec: v1alpha1.SeiNodeSpec{
				ChainID: "pacific-1", Image: "registry.example.com/seid:v6", FullNode: &v1alpha1.FullNodeSpec{},
			},
		},
		Seen: Observation{Now: now},
	}
	rerender(&in)
	return build(in, edits)
}

// running is a full node that was brought up, runs, and is as its spec wants it.
func running(edits ...edit) Input {
	in := fresh(hasClaim(marked(nodeUID)), admitted)
	in.Persisted = nil
	in.Node.Status.Phase = v1alpha1.PhaseRunning
	in.Node.Status.StatefulSet = &v1alpha1.ObjectIdentity{Name: in.Node.Name, UID: setUID}
	in.Node.Status.DataVolume = &v1alpha1.ObjectIdentity{Name: "data-node", UID: claimUID}
	in.Node.Status.ConfigHash, in.Node.Status.ConfigSerial = in.Want.ConfigHash, 1
	in.Node.Status.AppliedConfigHash = in.Want.ConfigHash
	in.Node.Status.Conditions = []metav1.Condition{{Type: string(v1alpha1.ConditionPaused), Reason: string(v1alpha1.ReasonNotPaused)}}
	in.Seen.StatefulSet = newSet(&in)
	in.Seen.Service = &corev1.Service{ObjectMeta: ownedMeta(in.Node, "node")}
	in.Node.Status.PodTemplateHash = in.Want.TemplateHash
	in.Seen.Pod = newPod(&in)
	in.Seen.Sidecar = Sidecar{Connected: true, Status: api.Status{
		Approved: true, Config: api.Config{Serial: 1}, Seid: api.Seid{State: api.SeidRunning, SafeToStop: true},
	}}
	hasDocument(1)(&in)
	return build(in, edits)
}

// build applies the edits. What is persisted is the status that they lead to, unless
// one of them says otherwise.
func build(in Input, edits []edit) Input {
	for _, change := range edits {
		change(&in)
	}
	if in.Persisted == nil {
		in.Persisted = in.Node.Status.DeepCopy()
	}
	return in
}

func settings() platform.Settings {
	all := platform.Default()
	all.SidecarImage = "registry.example.com/sidecar:v1"
	all.Witnesses = map[string][]string{"pacific-1": {"https://a.example.com:443", "https://b.example.com:443"}}
	return all
}

// rerender renders the spec as it is now, unless that cannot be done.
func rerender(in *Input) {
	if in.RenderProblem != "" {
		return
	}
	want, err := render.Node(in.Node, settings())
	if err != nil {
		panic(err)
	}
	in.Want = want
}

// spec is an edit of the spec by a person.
func spec(change func(*v1alpha1.SeiNodeSpec)) edit {
	return func(in *Input) {
		change(&in.Node.Spec)
		in.Node.Generation++
		rerender(in)
	}
}

// newImage is an edit that changes the pod.
var newImage = spec(func(s *v1alpha1.SeiNodeSpec) { s.Image = "registry.example.com/seid:v7" })

// override is an edit that changes the configuration.
func override(value string) edit {
	return spec(func(s *v1alpha1.SeiNodeSpec) { s.Overrides = map[string]string{"app.x": value} })
}

func paused(in *Input) { in.Node.Spec.Paused = true }

func deleted(in *Input) { in.Node.DeletionTimestamp = new(metav1.NewTime(now)) }

func annotated(key, value string) edit {
	return func(in *Input) { metav1.SetMetaDataAnnotation(&in.Node.ObjectMeta, key, value) }
}

// admitted says that the spec as it is now is the one that was last admitted.
func admitted(in *Input) { in.Node.Status.AdmittedSpecHash = in.Want.SpecHash }

func unrenderable(in *Input) {
	in.Want, in.RenderProblem = render.Desired{}, "the pod would not be safe"
}

func phase(p v1alpha1.SeiNodePhase) edit {
	return func(in *Input) { in.Node.Status.Phase = p }
}

// stateSync makes the node start from a snapshot.
func stateSync(witnesses ...string) edit {
	return func(in *Input) {
		spec(func(s *v1alpha1.SeiNodeSpec) {
			s.FullNode.Snapshot = &v1alpha1.SnapshotSource{StateSync: &v1alpha1.StateSyncSource{}}
		})(in)
		in.Want.Witnesses = witnesses
	}
}

// imports makes the node use the claim chain-data.
var imports = spec(func(s *v1alpha1.SeiNodeSpec) {
	s.DataVolume = &v1alpha1.DataVolumeSpec{Import: &v1alpha1.VolumeImport{PVCName: "chain-data"}}
})

func keySource(secret string) *v1alpha1.KeySource {
	return &v1alpha1.KeySource{Secret: &v1alpha1.KeySecret{SecretName: secret}}
}

// validator makes the node a validator with all keys that it can have.
var validator = spec(func(s *v1alpha1.SeiNodeSpec) {
	s.FullNode = nil
	s.Validator = &v1alpha1.ValidatorSpec{
		SigningKey: keySource("signing"), NodeKey: keySource("identity"),
		OperatorKeyring: &v1alpha1.OperatorKeyring{Secret: &v1alpha1.KeyringSecret{
			SecretName: "keyring", KeyName: "admin",
			PassphraseSecretRef: v1alpha1.SecretEntry{SecretName: "passphrase", Key: "passphrase"},
		}},
	}
})

var seed = spec(func(s *v1alpha1.SeiNodeSpec) {
	s.FullNode, s.Seed = nil, &v1alpha1.SeedSpec{NodeKey: *keySource("identity")}
})

// usable says that these keys were looked at and are all right.
func usable(kinds ...KeyKind) edit {
	return func(in *Input) {
		for _, kind := range kinds {
			key(kind, Key{})(in)
		}
	}
}

func key(kind KeyKind, found Key) edit {
	return func(in *Input) {
		if in.Seen.Keys == nil {
			in.Seen.Keys = map[KeyKind]Key{}
		}
		in.Seen.Keys[kind] = found
	}
}

// hasClaim puts the claim there that this node would make, bound, with changes.
func hasClaim(changes ...func(*corev1.PersistentVolumeClaim)) edit {
	return func(in *Input) {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Name: render.ClaimName(in.Node), Namespace: in.Node.Namespace, UID: claimUID,
				Labels: map[string]string{
					v1alpha1.LabelNode: in.Node.Name, v1alpha1.LabelChain: in.Node.Spec.ChainID, v1alpha1.LabelMode: string(in.Node.Spec.Mode()),
				},
			},
			Spec: corev1.PersistentVolumeClaimSpec{
				VolumeName: "pv-1", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		}
		for _, change := range changes {
			change(claim)
		}
		in.Seen.Claim = claim
	}
}

func noClaim(in *Input) { in.Seen.Claim = nil }

// marked puts the mark of a finished bootstrap on a claim.
func marked(by types.UID) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationBootstrapped, string(by))
	}
}

func claimed(uid types.UID) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.UID = uid }
}

func terminatingClaim(c *corev1.PersistentVolumeClaim) {
	c.DeletionTimestamp = new(metav1.NewTime(now))
}

// tracks says which claim holds the data of the node.
func tracks(uid types.UID) edit {
	return func(in *Input) {
		in.Node.Status.DataVolume = &v1alpha1.ObjectIdentity{Name: render.ClaimName(in.Node), UID: uid}
	}
}

func usedBy(pods ...string) edit {
	return func(in *Input) { in.Seen.OtherPods = pods }
}

// controlledBy is the metadata of an object that has a controller.
func controlledBy(name, kind, owner string, uid types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: "sei",
		OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: owner, UID: uid, Controller: new(true)}},
	}
}

func ownedMeta(node *v1alpha1.SeiNode, name string) metav1.ObjectMeta {
	return controlledBy(name, "SeiNode", node.Name, node.UID)
}

// hasSet puts the node's StatefulSet there, with changes.
func hasSet(changes ...func(*appsv1.StatefulSet)) edit {
	return func(in *Input) {
		in.Seen.StatefulSet = newSet(in)
		for _, change := range changes {
			change(in.Seen.StatefulSet)
		}
	}
}

func noSet(in *Input) { in.Seen.StatefulSet = nil }

// forgotten says that the reference to the StatefulSet is cleared and persisted.
func forgotten(in *Input) { in.Node.Status.StatefulSet = nil }

func scaled(replicas int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Replicas = &replicas }
}

// newPod is the pod that the StatefulSet makes which is there, or a bare one.
func newPod(in *Input) *corev1.Pod {
	pod := &corev1.Pod{Status: corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}}
	if in.Seen.StatefulSet != nil {
		template := in.Seen.StatefulSet.Spec.Template.DeepCopy()
		pod.ObjectMeta, pod.Spec = template.ObjectMeta, template.Spec
	}
	pod.Name, pod.Namespace, pod.UID, pod.Spec.NodeName = "node-0", "sei", "pod-uid", "machine-1"
	return pod
}

func hasPod(changes ...func(*corev1.Pod)) edit {
	return func(in *Input) {
		in.Seen.Pod = newPod(in)
		for _, change := range changes {
			change(in.Seen.Pod)
		}
	}
}

func noPod(in *Input) { in.Seen.Pod, in.Seen.Sidecar = nil, Sidecar{} }

func endingPod(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(now)) }

func sidecar(change func(*Sidecar)) edit {
	return func(in *Input) { change(&in.Seen.Sidecar) }
}

// at gives the node a bootstrap that has come to the task of this type.
func at(task string) edit {
	return func(in *Input) {
		p := newPlan(*in, v1alpha1.PlanBootstrap, v1alpha1.ReasonBootstrapping, "It is brought up.")
		p.StartTime = metav1.NewTime(now.Add(-time.Minute))
		index := slices.IndexFunc(p.Tasks, func(t v1alpha1.PlanTask) bool { return t.Type == task })
		for i := range p.Tasks {
			switch {
			case i < index:
				p.Tasks[i].Status = v1alpha1.PlanTaskComplete
			case i == index:
				p.Tasks[i].Status = v1alpha1.PlanTaskRunning
			}
		}
		in.Node.Status.Plan = p
		in.Node.Status.Phase = v1alpha1.PhaseInitializing
		admitted(in)
	}
}

// ended gives the node a last plan.
func ended(kind v1alpha1.PlanType, outcome v1alpha1.PlanOutcome, ago time.Duration, failures int32) edit {
	return func(in *Input) {
		in.Node.Status.LastPlan = &v1alpha1.PlanRecord{
			Type: kind, Outcome: outcome, Message: "it broke", Failures: failures, CompletionTime: metav1.NewTime(now.Add(-ago)),
		}
	}
}

// wantGate checks a gate: its reason, whether it needs a person, when it is looked at
// again, and what it says. An empty reason means that there is none.
type wantGate struct {
	reason  v1alpha1.ConditionReason
	stalled bool
	after   time.Duration
	says    []string
}

func (w wantGate) check(t *testing.T, got *Gate) {
	t.Helper()
	if got == nil || w.reason == "" {
		if got != nil || w.reason != "" {
			t.Fatalf("the gate is %+v, want reason %q", got, w.reason)
		}
		return
	}
	if got.Reason != w.reason || got.Stalled != w.stalled || got.After != w.after {
		t.Errorf("the gate is %+v, want reason %s, stalled %t, after %s", got, w.reason, w.stalled, w.after)
	}
	saysAll(t, got.Message, w.says)
}

// saysAll checks that a message says all of this.
func saysAll(t *testing.T, message string, parts []string) {
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
