package operator_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/signing"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/nodes"
	shared "github.com/sei-operator/sei-operator/test/rig"
)

// isNobodys tells whether a Lease has no holder, and nobody keeps it.
func isNobodys(lease *coordinationv1.Lease) bool {
	return lease.Spec.HolderIdentity == nil && lease.Annotations[v1alpha1.AnnotationHolder] == "" && len(lease.Finalizers) == 0
}

// recordOf is what a Lease says that its key signed.
func recordOf(tb testing.TB, lease *coordinationv1.Lease) (record plan.SignRecord) {
	tb.Helper()
	text := lease.Annotations[v1alpha1.AnnotationSigned]
	if text == "" {
		return record
	}
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		tb.Errorf("the Lease %s says %q: %v", lease.Name, text, err)
	}
	return record
}

// signer is a validator on a chain that stands still but for what it signs: then a seid
// that is guarded finds what its key signed last, and does not run.
type signer struct {
	*rig
	name, public string
	*nodes.Node
}

func newSigner(r *rig, name string) signer {
	r.t.Helper()
	s := signer{rig: r, name: name, public: r.createKeys(name), Node: r.sidecars.Node(r.namespace, name)}
	r.sidecars.StandStill()
	r.create(r.validator(name))
	r.ready(name)
	return s
}

// leaseName is where a signing key is reserved.
func leaseName(public string) types.NamespacedName {
	sum := sha256.Sum256([]byte("testnet-1\nSigningKey\n" + public))
	return types.NamespacedName{Namespace: shared.Namespace, Name: "sei-signingkey-" + hex.EncodeToString(sum[:20])}
}

// lease waits for the Lease of the key to say something.
func (s signer) lease(what string, ok func(plan.SignRecord) bool) plan.SignRecord {
	s.t.Helper()
	lease := cluster.Eventually(s.t, s.cluster.Admin(s.t), leaseName(s.public), what,
		func(l *coordinationv1.Lease) bool { return ok(recordOf(s.t, l)) })
	return recordOf(s.t, lease)
}

// told waits for what is mounted into the pod to say something.
func (s signer) told(what string, ok func(signing.Known) bool) signing.Known {
	s.t.Helper()
	var known signing.Known
	cluster.Eventually(s.t, s.person, s.key(s.name+"-config"), what, func(c *corev1.ConfigMap) bool {
		var err error
		if known, err = signing.Parse([]byte(c.Data[signing.File])); err != nil {
			s.t.Logf("it says %q", c.Data[signing.File])
		}
		return err == nil && ok(known)
	})
	return known
}

// signs signs so many blocks, and has the operator hear of them: otherwise it asks once a
// minute.
func (s signer) signs(blocks int) {
	s.t.Helper()
	s.Sign(blocks)
	message := fmt.Sprintf("It signed height %d.", s.SignHeight())
	s.SetSeid(func(seid *api.Seid) { seid.Message = message })
}

// stopped stops seid, and waits until the last height that it signed is recorded.
func (s signer) stopped() int64 {
	s.t.Helper()
	s.Hold("it is looked at")
	height := s.SignHeight()
	s.lease("the last height to be recorded", func(r plan.SignRecord) bool { return r.Height == height })
	return height
}

// putBack puts the volume back while there is no pod.
func (s signer) putBack(restore func()) {
	s.t.Helper()
	s.pause(s.name, true)
	s.until(s.name, "the node to be paused", isPaused)
	restore()
	s.pause(s.name, false)
}

// guardAt waits for a seid to be started on a sign state of this height.
func (s signer) guardAt(height int64, want signing.Reason) {
	s.t.Helper()
	s.until(s.name, fmt.Sprintf("seid to be started with the sign state at height %d", height), func(*v1alpha1.SeiNode) bool {
		starts := s.Starts()
		return len(starts) > 0 && starts[len(starts)-1] == nodes.SeidStart{PublicKey: s.public, SignHeight: height, Guard: want}
	})
}

func (s signer) accepts(height string) {
	s.t.Helper()
	s.edit(s.name, func(n *v1alpha1.SeiNode) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		if delete(n.Annotations, v1alpha1.AnnotationAcceptSignState); height != "" {
			n.Annotations[v1alpha1.AnnotationAcceptSignState] = height
		}
	})
}

// says waits for the condition of the signing key to say all of this.
func (s signer) says(parts ...string) {
	s.t.Helper()
	s.until(s.name, fmt.Sprintf("the condition of the key to say %q", parts), func(n *v1alpha1.SeiNode) bool {
		message := shared.Condition(n, v1alpha1.ConditionSigningKeyReady).Message
		for _, part := range parts {
			if !contains(message, part) {
				return false
			}
		}
		return true
	})
}

// The Lease of the key is written at the first signature, when seid ended, and every ten
// minutes between; never per block, and never over what somebody else wrote.
func TestWhatAKeySignedIsRecorded(t *testing.T) {
	t.Parallel()
	var now clock
	var w writes
	r := newRig(t, now.use, w.record)
	s := newSigner(r, "alpha")
	patches := func() int {
		count := 0
		for _, write := range w.of("patch", "Lease") {
			if write.Key.Name == leaseName(s.public).Name {
				count++
			}
		}
		return count
	}
	first := s.lease("the first signature", func(r plan.SignRecord) bool { return r.Height > 0 })
	if claim := r.claim("alpha"); first.Volume != claim.UID || first.Accepted != nil {
		t.Errorf("the Lease says %+v, and the claim is %s", first, claim.UID)
	}
	s.told("what the Lease says", func(k signing.Known) bool { return k.PublicKey == s.public && k.Height == first.Height && k.Vouched })
	r.settled("alpha")

	w.forget()
	for range 5 {
		s.signs(20)
		r.settled("alpha")
	}
	if got := patches(); got > 0 {
		t.Errorf("100 blocks were signed, and the Lease was written %d times", got)
	}
	now.advance(11*time.Minute, r, "alpha")
	later := s.lease("what it signed later", func(r plan.SignRecord) bool { return r.Height > first.Height })
	r.settled("alpha")
	if got := patches(); got != 1 {
		t.Errorf("ten minutes later the Lease was written %d times", got)
	}

	// Somebody else writes it at the same moment, and knows more.
	const more = 5000
	s.signs(20)
	w.refuse(func(write kube.Write) error {
		if write.Verb != "patch" || write.Key.Name != leaseName(s.public).Name {
			return nil
		}
		w.refuse(nil)
		return writeRecord(t, r.cluster.Admin(t), s.public, plan.SignRecord{Height: more, Volume: later.Volume})
	})
	now.advance(11*time.Minute, r, "alpha")
	s.lease("what somebody else wrote", func(r plan.SignRecord) bool { return r.Height == more })
	s.told("what somebody else wrote", func(k signing.Known) bool { return k.Height == more })
	r.settled("alpha")
	if got := s.lease("it again", func(plan.SignRecord) bool { return true }); got.Height != more {
		t.Errorf("the Lease said %d and says %d", more, got.Height)
	}
}

// writeRecord has a person write what a key signed.
func writeRecord(tb testing.TB, person client.Client, public string, record plan.SignRecord) error {
	tb.Helper()
	lease := &coordinationv1.Lease{}
	if err := person.Get(tb.Context(), leaseName(public), lease); err != nil {
		return err
	}
	before := lease.DeepCopy()
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	lease.Annotations[v1alpha1.AnnotationSigned] = string(text)
	return person.Patch(tb.Context(), lease, client.MergeFrom(before))
}

// The same claim with older content: nothing but the Lease knows that the key signed
// more. seid is guarded, the node says why, and a person can accept exactly this height,
// once.
func TestAVolumeThatIsPutBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSigner(r, "alpha")
	s.lease("the first signature", func(r plan.SignRecord) bool { return r.Height > 0 })
	restore := s.Snapshot()
	low := s.SignHeight()
	s.Sign(20)
	high := s.stopped()
	s.putBack(restore)
	s.guardAt(low, signing.Behind)
	s.says(strconv.FormatInt(low, 10), strconv.FormatInt(high, 10))
	s.Sign(3)
	if got := s.SignHeight(); got != low {
		t.Fatalf("it signs: its sign state was at height %d and is at %d", low, got)
	}

	s.accepts(strconv.FormatInt(low+1, 10))
	r.settled("alpha")
	s.lease("nothing to be accepted", func(r plan.SignRecord) bool { return r.Height == high && r.Accepted == nil })

	s.accepts(strconv.FormatInt(low, 10))
	s.told("that it is accepted", func(k signing.Known) bool { return k.Height == low && k.Accepted != nil && *k.Accepted == low })
	s.Deliver()
	s.guardAt(low, signing.Off)
	s.says("is there and well-formed")
	if !slicesContains(r.events("alpha"), "SignStateAccepted") {
		t.Errorf("the events are %v", r.events("alpha"))
	}

	// Once: the annotation is still there when the volume is put back again.
	s.Sign(20)
	high = s.stopped()
	s.putBack(restore)
	s.guardAt(low, signing.Behind)
	s.says(strconv.FormatInt(low, 10), strconv.FormatInt(high, 10))
	r.settled("alpha")
	s.lease("nothing to be accepted again", func(r plan.SignRecord) bool { return r.Height == high })
	s.accepts("")
	s.lease("the acceptance to be forgotten", func(r plan.SignRecord) bool { return r.Accepted == nil && r.Height == high })
	s.accepts(strconv.FormatInt(low, 10))
	s.lease("it to be accepted again", func(r plan.SignRecord) bool { return r.Accepted != nil && r.Height == low })
}

// A validator that is deleted leaves its volume and what its key signed. Made again, it
// starts at once: the Lease vouches for the volume. Nobody touches the Lease of another
// key.
func TestAValidatorIsMadeAgainAndStartsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := &coordinationv1.Lease{}
	other.Namespace, other.Name = shared.Namespace, leaseName(r.namespace).Name
	other.Labels = map[string]string{v1alpha1.LabelReservation: string(v1alpha1.ReservationSigningKey), v1alpha1.LabelChain: "testnet-1"}
	other.Annotations = map[string]string{v1alpha1.AnnotationSigned: `{"height":7,"volume":"gone"}`}
	admin := r.cluster.Admin(t)
	if err := admin.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	s := newSigner(r, "alpha")
	s.lease("the first signature", func(r plan.SignRecord) bool { return r.Height > 0 })
	s.Sign(20)
	node := &v1alpha1.SeiNode{}
	r.get("alpha", node)
	r.delete(node)
	cluster.Gone[*v1alpha1.SeiNode](t, r.person, r.key("alpha"), "it is deleted")
	kept := cluster.Eventually(t, admin, leaseName(s.public), "the key to be let go", isNobodys)
	if got := recordOf(t, kept); got.Height == 0 || got.Volume != r.claim("alpha").UID {
		t.Errorf("the Lease says %+v", got)
	}
	height := s.SignHeight()
	r.create(r.validator("alpha"))
	again := r.ready("alpha")
	s.guardAt(height, signing.Off)
	lease := cluster.Eventually(t, admin, leaseName(s.public), "the key to be taken", func(l *coordinationv1.Lease) bool { return l.Spec.HolderIdentity != nil })
	if *lease.Spec.HolderIdentity != string(again.UID) {
		t.Errorf("the key is held by %s", *lease.Spec.HolderIdentity)
	}
	now := &coordinationv1.Lease{}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(other), now); err != nil || now.ResourceVersion != other.ResourceVersion {
		t.Errorf("the Lease of another key was touched: %v, %+v", err, now.ObjectMeta)
	}
	r.delete(now)
}

// A key that seid made on a volume exists nowhere else. When the volume is deleted with
// the node, nobody needs to know what it signed.
func TestAKeyThatIsDeletedWithItsVolume(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	node := r.validator("alpha")
	node.Spec.Validator.SigningKey, node.Spec.Validator.NodeKey = nil, nil
	node.Spec.DataVolume = &v1alpha1.DataVolumeSpec{DeletionPolicy: v1alpha1.DeletionPolicyDelete}
	r.create(node)
	held := r.ready("alpha").Status.Reservations
	if len(held) != 1 {
		t.Fatalf("reserved are %v", held)
	}
	key := client.ObjectKey{Namespace: shared.Namespace, Name: held[0].Name}
	cluster.Eventually(t, r.cluster.Admin(t), key, "the first signature", func(l *coordinationv1.Lease) bool { return recordOf(t, l).Height > 0 })
	r.get("alpha", node)
	r.delete(node)
	cluster.Gone[*v1alpha1.SeiNode](t, r.person, r.key("alpha"), "it is deleted")
	cluster.Gone[*coordinationv1.Lease](t, r.cluster.Admin(t), key, "nobody has the key any more")
}
