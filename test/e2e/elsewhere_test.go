package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/live"
)

// TestElsewhere tells what becomes of a validator whose key signs elsewhere, where the
// operator does not see it, while its own sign state is old. The twin is real: a seid with
// the key, on a copy of the volume, that votes on the chain. What is asserted is what the
// chain says, and that the sign state of the node's own seid does not rise meanwhile. The
// last story shows that this can fail: with a person's false word there is evidence.
func TestElsewhere(t *testing.T) {
	s := &elsewhere{stage: newStage(t, "elsewhere")}
	t.Cleanup(func() {
		// Also a twin that a story stopped and did not continue: it would stay for ever.
		if s.twin == nil {
			return
		}
		if err := s.End(context.WithoutCancel(t.Context()), s.twin); err != nil {
			t.Errorf("the twin of %s: %v", doubted, err)
		}
	})
	for _, one := range []struct {
		name string
		tell func(*testing.T)
	}{
		{"elsewhere: a chain of four validators", s.begin},
		{"elsewhere: a retained claim after a life elsewhere", s.retainedClaim},
		{"elsewhere: a clone of a live volume", s.clone},
		{"elsewhere: a live key is accepted on an old volume", s.acceptedKey},
		{"elsewhere: the twin is gone, and a person accepts the old sign state", s.accepted},
		{"elsewhere: a volume is reverted in place", s.reverted},
		{"elsewhere: a chain stands still without the key", s.standstill},
	} {
		s.story(t, one.name, one.tell)
		if t.Failed() {
			t.Fatal("the next story begins where this one was to end")
		}
	}
	// It leaves evidence on the chain.
	s.tell(t, "elsewhere: the control: a person accepts while the twin signs", s.control)
}

// doubted is the validator whose key signs elsewhere.
const doubted, doubtedIndex = "validator-3", 3

type elsewhere struct {
	*stage

	// twin is the life elsewhere, on a claim of the same name.
	twin   *corev1.Pod
	claims int
}

func (s *elsewhere) begin(t *testing.T) {
	check(t, s.Start(t.Context()))
	check(t, s.watcher.Signs(t.Context(), 1, s.ValidatorNames()...))
}

// claim is the name of a claim that there was not before.
func (s *elsewhere) claim(what string) string {
	s.claims++
	return fmt.Sprintf("%s-%d", what, s.claims)
}

func (s *elsewhere) signState(t *testing.T, claim string) int64 {
	t.Helper()
	return must(s.SignState(t.Context(), claim))(t)
}

// leaves lets the key go on elsewhere with what is on a claim, which nobody may use now.
// It returns when the twin has signed.
func (s *elsewhere) leaves(t *testing.T, claim string) {
	t.Helper()
	taken := s.claim("twin")
	check(t, s.CopyVolume(t.Context(), claim, taken))
	s.twin = must(s.Elsewhere(t.Context(), doubtedIndex, taken))(t)
	check(t, s.watcher.Signs(t.Context(), s.watcher.Height(), doubted))
}

// Two validators of the chain who never are in doubt.
const (
	frozen = "validator-2"
	down   = "validator-1"
)

// ends ends the twin for good. It returns when the chain is behind all that the twin signed,
// so nothing that the key signs from then on can be the second signature of a block, and
// when no block comes any more, because another validator is down too. Otherwise a slow
// machine would take longer than the blocks that seid looks through, and seid would rightly
// find nothing. It returns where the chain stands; goesOn ends that.
func (s *elsewhere) ends(t *testing.T) (stands int64) {
	t.Helper()
	check(t, s.Signal(s.twin, "seid", syscall.SIGSTOP))
	for last := int64(-1); last != s.signState(t, s.twin.Name); {
		last = s.signState(t, s.twin.Name)
		check(t, s.watcher.Until(t.Context(), fmt.Sprintf("the chain to pass %d", last), func(r *live.Record) bool { return r.Height() > last }))
	}
	// Only a process that is stopped ends the chain's progress at once; a pause takes its
	// time, and may do so while no block comes.
	pod := s.pod(t, frozen)
	check(t, s.Signal(pod, "seid", syscall.SIGSTOP))
	defer func() {
		if err := s.Signal(pod, "seid", syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}()
	check(t, s.Pause(t.Context(), down))
	check(t, s.End(t.Context(), s.twin))
	return s.watcher.Height()
}

// goesOn lets the validator return that ends took down. The doubted one signs by now.
func (s *elsewhere) goesOn(t *testing.T) {
	t.Helper()
	must(s.Unpause(t.Context(), down))(t)
}

// unpause does not wait for a node that is ready: this one must not be.
func (s *elsewhere) unpause(t *testing.T, name string) {
	t.Helper()
	s.edit(t, name, func(spec *v1alpha1.SeiNodeSpec) { spec.Paused = false })
}

// refused waits until a node on a claim, whose sign state was at a height, says that its key
// signs elsewhere and with which numbers. It asserts that its seid was started at least
// twice and signed nothing, while the twin signed all the time.
func (s *elsewhere) refused(t *testing.T, name, claim string, signed int64) {
	t.Helper()
	from := s.watcher.Height()
	s.says(t, name, claim, signed, 2)
	check(t, s.watcher.Grow(t.Context(), while))
	check(t, s.watcher.Signs(t.Context(), s.watcher.Height(), doubted))
	said := s.says(t, name, claim, signed, 2)
	s.watcher.Read(func(r *live.Record) {
		to := r.LastSigned(doubted)
		note("%s: refused at sign state %d, while the twin signed %d of the blocks %d to %d; %s",
			t.Name(), signed, to-from+1-int64(r.Missed(doubted, from, to)), from, to, said)
	})
}

// says waits until a node says that its key signs elsewhere, and names its sign state, after
// so many starts of seid. Whatever it says: its sign state does not rise meanwhile.
func (s *elsewhere) says(t *testing.T, name, claim string, signed int64, starts int32) (said string) {
	t.Helper()
	node, pod := &v1alpha1.SeiNode{}, &corev1.Pod{}
	why, way := fmt.Sprintf("The sign state is at height %d", signed), fmt.Sprintf("%s=%d", v1alpha1.AnnotationAcceptSignState, signed)
	check(t, live.Poll(t.Context(), fmt.Sprintf("%s to refuse to sign, and to say so", name), func() (bool, error) {
		if now := s.signState(t, claim); now != signed {
			t.Fatalf("the sign state of %s was at %d, and is at %d while the key signs elsewhere", name, signed, now)
		}
		if err := errors.Join(s.Client.Get(t.Context(), s.Key(name), node), s.Client.Get(t.Context(), s.Key(name+"-0"), pod)); err != nil {
			return false, err
		}
		ready, key := live.Condition(node, v1alpha1.ConditionReady), live.Condition(node, v1alpha1.ConditionSigningKeyReady)
		said = key.Message
		elsewhere := ready.Reason == string(v1alpha1.ReasonSignedElsewhere) && key.Reason == string(v1alpha1.ReasonSignedElsewhere)
		return elsewhere && strings.Contains(said, why) && strings.Contains(said, way) && live.Starts(pod) >= starts, nil
	}))
	return said
}

// accept accepts the sign state as a person does, by the height that the node names.
func (s *elsewhere) accept(t *testing.T, claim string) {
	t.Helper()
	signed := s.signState(t, claim)
	s.says(t, doubted, claim, signed, 1)
	check(t, s.Annotate(t.Context(), doubted, v1alpha1.AnnotationAcceptSignState, strconv.FormatInt(signed, 10)))
}

// The SeiNode is deleted, and what its key did then happened elsewhere, on a copy. It comes
// back on its own claim, for which this cluster would vouch. Just then the twin is silent for
// more blocks than a restart takes, so that the latest blocks do not show it.
func (s *elsewhere) retainedClaim(t *testing.T) {
	claim := must(s.ClaimOf(t.Context(), doubted))(t)
	check(t, s.Leave(t.Context(), doubted))
	s.leaves(t, claim)
	check(t, s.Signal(s.twin, "seid", syscall.SIGSTOP))
	check(t, s.watcher.Grow(t.Context(), while+5))
	signed := s.signState(t, claim)
	s.create(t, s.Validator(doubtedIndex))
	s.says(t, doubted, claim, signed, 1)
	check(t, s.Signal(s.twin, "seid", syscall.SIGCONT))
	s.refused(t, doubted, claim, signed)
}

// imports is the doubted validator on a claim that exists.
func (s *elsewhere) imports(node *v1alpha1.SeiNode, claim string) *v1alpha1.SeiNode {
	node.Spec.DataVolume = &v1alpha1.DataVolumeSpec{Import: &v1alpha1.VolumeImport{PVCName: claim}}
	return node
}

// A snapshot of the volume on which the key signs becomes a volume of ours: its sign state
// is a few blocks old.
func (s *elsewhere) clone(t *testing.T) {
	check(t, s.Leave(t.Context(), doubted))
	clone := s.claim("clone")
	check(t, s.CloneVolume(t.Context(), s.twin, s.twin.Name, clone))
	signed := s.signState(t, clone)
	s.create(t, s.imports(s.Validator(doubtedIndex), clone))
	s.refused(t, doubted, clone, signed)
}

// A node has the volume of another validator and a key that signs nothing. Then a person
// gives it the key that signs elsewhere. The sign state is that of another key: it is old,
// and says nothing of this one.
func (s *elsewhere) acceptedKey(t *testing.T) {
	const name, other = "heir", "validator-2"
	check(t, s.Leave(t.Context(), doubted))
	old := s.claim("old")
	check(t, s.CloneVolume(t.Context(), s.pod(t, other), must(s.ClaimOf(t.Context(), other))(t), old))
	signed := s.signState(t, old)
	spare := must(s.NewNodeKey(t.Context(), "spare"))(t)
	heir := s.imports(s.Node(name, func(spec *v1alpha1.SeiNodeSpec) {
		spec.Validator = &v1alpha1.ValidatorSpec{
			SigningKey: &v1alpha1.KeySource{Secret: &v1alpha1.KeySecret{SecretName: "spare-" + live.ValidatorName(0) + "-signing-key"}},
			NodeKey:    &v1alpha1.KeySource{Secret: &v1alpha1.KeySecret{SecretName: spare.Secret}},
		}
	}), old)
	s.create(t, heir)
	s.ready(t, name)
	check(t, s.Pause(t.Context(), name))

	secret, key := &corev1.Secret{}, &corev1.Secret{}
	signs := s.Validator(doubtedIndex).Spec.Validator.SigningKey.Secret.SecretName
	check(t, s.Client.Get(t.Context(), s.Key(signs), key))
	check(t, s.Client.Get(t.Context(), s.Key(heir.Spec.Validator.SigningKey.Secret.SecretName), secret))
	secret.Data = key.Data
	check(t, s.Client.Update(t.Context(), secret))
	check(t, s.Annotate(t.Context(), name, v1alpha1.AnnotationAcceptKey, must(s.SigningKey(t.Context(), signs))(t)))
	s.unpause(t, name)
	s.refused(t, name, old, signed)
	check(t, s.Leave(t.Context(), name))
}

// The twin is gone, and its last signatures are still among the blocks that seid looks
// through. The validator comes back on its own old volume, and signs when a person says that
// nobody else does.
func (s *elsewhere) accepted(t *testing.T) {
	stands := s.ends(t)
	s.create(t, s.Validator(doubtedIndex))
	s.accept(t, must(s.ClaimOf(t.Context(), doubted))(t))
	check(t, s.watcher.Signs(t.Context(), stands+1, doubted))
	s.goesOn(t)
	s.ready(t, doubted)
}

// The volume is put back in its place to what it was before the last signatures, as whoever
// restores a disk does: every uid is the same. Meanwhile the key goes on elsewhere.
func (s *elsewhere) reverted(t *testing.T) {
	claim := must(s.ClaimOf(t.Context(), doubted))(t)
	check(t, s.Pause(t.Context(), doubted))
	old := s.claim("old")
	check(t, s.CopyVolume(t.Context(), claim, old))
	must(s.Unpause(t.Context(), doubted))(t)
	check(t, s.watcher.Signs(t.Context(), s.watcher.Height()+3, doubted))
	check(t, s.Pause(t.Context(), doubted))
	s.leaves(t, claim)
	check(t, s.RevertVolume(t.Context(), claim, old))
	signed := s.signState(t, claim)
	s.unpause(t, doubted)
	s.refused(t, doubted, claim, signed)
}

// The twin is gone, and another validator is down: of four only two sign, so no block comes,
// and the guard finds the last signatures however often the node starts. The way out is a
// person's word.
func (s *elsewhere) standstill(t *testing.T) {
	stands := s.ends(t)
	check(t, s.Pause(t.Context(), doubted))
	claim := must(s.ClaimOf(t.Context(), doubted))(t)
	signed := s.signState(t, claim)
	s.unpause(t, doubted)
	s.says(t, doubted, claim, signed, 2)
	// The validator that was stopped may have been about to complete a block.
	if now := s.watcher.Height(); now > stands+1 {
		t.Errorf("the chain was at %d and is at %d: it does not stand still", stands, now)
	}
	s.accept(t, claim)
	check(t, s.watcher.Signs(t.Context(), stands+1, doubted))
	s.goesOn(t)
	s.ready(t, doubted)
}

// The same as before, and the person who accepts the sign state is wrong: the twin signs.
// Now the chain has evidence. Without this story, no evidence would say nothing.
func (s *elsewhere) control(t *testing.T) {
	claim := must(s.ClaimOf(t.Context(), doubted))(t)
	check(t, s.Pause(t.Context(), doubted))
	s.leaves(t, claim)
	s.unpause(t, doubted)
	s.accept(t, claim)
	check(t, s.watcher.Until(t.Context(), "evidence of a block that was signed twice", func(r *live.Record) bool {
		for _, block := range r.Blocks {
			if block.Evidence > 0 {
				return true
			}
		}
		return false
	}))
}
