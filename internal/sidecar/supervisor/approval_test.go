package supervisor

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/sei-operator/sei-operator/internal/signing"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

// keys writes key files made from a seed and returns whom they are of.
func (r *rig) keys(seed string) Approval {
	r.t.Helper()
	file, public := fakeseid.SigningKey(seed)
	node, id := fakeseid.NodeKey(seed + " node")
	r.write("config/priv_validator_key.json", file)
	r.write("config/node_key.json", node)
	return Approval{PublicKey: public, NodeID: id}
}

func TestKeysThatWereNotApproved(t *testing.T) {
	r := newRig(t)
	approved := r.keys("a")
	other := r.keys("b")
	r.run()
	for range 2 { // Asking again parks again.
		if _, err := r.client.Start(t.Context(), StartRequest{Approval: approved}); reason(err) != ReasonKeys {
			t.Fatalf("start with other keys: %v", err)
		}
	}
	state := r.await("parked", phase(Parked))
	if state.ParkedBecause != ParkedKeys || state.PID != 0 || state.Instance != "" || state.Identity != (Identity{PublicKey: other.PublicKey, NodeID: other.NodeID}) || !state.SafeToStop {
		t.Fatalf("%+v", state)
	}
	for _, value := range []string{approved.PublicKey, approved.NodeID, other.PublicKey, other.NodeID} {
		if !strings.Contains(state.Message, value) {
			t.Errorf("the message does not name %s: %s", value, state.Message)
		}
	}

	// The Secret is restored.
	r.keys("a")
	started, _ := r.start(approved)
	if started.State != Starting || started.ParkedBecause != "" || started.Message != "" || started.Identity != (Identity{PublicKey: approved.PublicKey, NodeID: approved.NodeID}) {
		t.Fatalf("%+v", started)
	}
}

func TestRestartChecksTheKeysToo(t *testing.T) {
	r := newRig(t)
	approved := r.keys("a")
	r.run()
	_, p := r.start(approved)
	r.settle(p, fakeseid.AtOnce)
	r.keys("b")
	_, err := r.client.Restart(t.Context(), RestartRequest{Approval: approved})
	if reason(err) != ReasonKeys {
		t.Fatal(err)
	}
	r.await("parked", func(s State) bool { return s.State == Parked && s.ParkedBecause == ParkedKeys })
}

func TestMismatch(t *testing.T) {
	for name, c := range map[string]struct {
		approved Approval
		found    Identity
		want     string
	}{
		"nothing expected":   {Approval{}, Identity{"k", "n"}, ""},
		"equal":              {Approval{PublicKey: "k", NodeID: "n"}, Identity{"k", "n"}, ""},
		"only the node id":   {Approval{NodeID: "n"}, Identity{"k", "n"}, ""},
		"another key":        {Approval{PublicKey: "k", NodeID: "n"}, Identity{"x", "n"}, "public key in config/priv_validator_key.json: approved is k, found is x"},
		"another node id":    {Approval{PublicKey: "k", NodeID: "n"}, Identity{"k", "x"}, "node id in config/node_key.json: approved is n, found is x"},
		"no key at all":      {Approval{PublicKey: "k"}, Identity{}, "public key in config/priv_validator_key.json: approved is k, found is none"},
		"both at once, both": {Approval{PublicKey: "k", NodeID: "n"}, Identity{"x", "y"}, "public key in config/priv_validator_key.json: approved is k, found is x; node id in config/node_key.json: approved is n, found is y"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mismatch(c.approved, c.found); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

const doubleSignCheck = "--consensus.double-sign-check-height=100"

func TestDoubleSignCheck(t *testing.T) {
	const zero, signed = `{"height":"0","round":0,"step":0}`, `{"height":"12","round":0,"step":3}`
	for name, c := range map[string]struct {
		signState string
		expected  bool
		checked   bool
	}{
		"a fresh state":            {zero, true, true},
		"no state":                 {"", true, true},
		"a torn state":             {`{"hei`, true, true},
		"a state with a signature": {signed, true, false},
		"no key is expected":       {zero, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			approved := r.keys("a")
			if !c.expected {
				approved.PublicKey = ""
			}
			if c.signState != "" {
				r.write("data/priv_validator_state.json", []byte(c.signState))
			}
			r.run()
			_, p := r.start(approved)
			if got := slices.Contains(p.Args, doubleSignCheck); got != c.checked {
				t.Errorf("arguments: %q", p.Args)
			}
		})
	}
}

func TestDoubleSignCheckEndsWithTheFirstSignature(t *testing.T) {
	r := newRig(t)
	approved := r.keys("a")
	r.run()
	_, p := r.start(approved)
	r.settle(p, fakeseid.AtOnce)
	p.Do(t, fakeseid.Sign(5))
	state, err := r.client.Restart(t.Context(), RestartRequest{Approval: approved})
	if err != nil || state.SignHeight != 5 {
		t.Fatalf("%+v, %v", state, err)
	}
	if p := r.control.Next(t); slices.Contains(p.Args, doubleSignCheck) {
		t.Errorf("arguments: %q", p.Args)
	}
}

func TestKeyThatSignsElsewhere(t *testing.T) {
	r := newRig(t, fakeseid.RefuseDoubleSign())
	approved := r.keys("a")
	r.run()
	if _, err := r.client.Start(t.Context(), StartRequest{Approval: approved}); err != nil {
		t.Fatal(err)
	}
	if code := r.end(); code != 2 {
		t.Fatalf("code %d", code)
	}
	if !strings.Contains(r.stderr.String(), "found signature from the same key") {
		t.Errorf("stderr: %q", r.stderr.String())
	}
}

func TestValidatorNeedsAnApprovedKey(t *testing.T) {
	r := newRig(t)
	r.config("mode = \"validator\"\n", "[api]\nenable = false\n[grpc]\nenable = false\n[grpc-web]\nenable = false\n")
	approved := r.keys("a")
	r.run()
	for _, lacking := range []Approval{{}, {NodeID: approved.NodeID}} {
		if _, err := r.client.Start(t.Context(), StartRequest{Approval: lacking}); reason(err) != ReasonKeys {
			t.Fatalf("start under %+v: %v", lacking, err)
		}
	}
	state := r.await("parked", phase(Parked))
	if state.ParkedBecause != ParkedKeys || state.PID != 0 || state.Instance != "" {
		t.Fatalf("%+v", state)
	}
	for _, words := range []string{"names no signing key", "approve it again with the public key", approved.PublicKey} {
		if !strings.Contains(state.Message, words) {
			t.Errorf("the message does not say %q: %s", words, state.Message)
		}
	}

	_, p := r.start(approved)
	if !slices.Contains(p.Args, doubleSignCheck) {
		t.Errorf("arguments: %q", p.Args)
	}
	r.settle(p, fakeseid.AtOnce)
	if _, err := r.client.Restart(t.Context(), RestartRequest{}); reason(err) != ReasonKeys {
		t.Errorf("restart without a key: %v", err)
	}
}

func TestArguments(t *testing.T) {
	key := Approval{PublicKey: "k", NodeID: "n"}
	for name, c := range map[string]struct {
		approved  Approval
		validator bool
		signed    int64
		checked   bool
	}{
		"validator, fresh":              {key, true, 0, true},
		"validator, has signed":         {key, true, 1, false},
		"validator, no key is expected": {Approval{}, true, 0, true},
		"a key is expected":             {key, false, 0, true},
		"a key that has signed":         {key, false, 1, false},
		"a key that has signed more":    {Approval{PublicKey: "k", Signing: signing.Limits{Known: 2}}, true, 1, true},
		"a volume that changed hands":   {Approval{PublicKey: "k", Signing: signing.Limits{Doubted: 1}}, true, 1, true},
		"only a node id is expected":    {Approval{NodeID: "n"}, false, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			command := []string{"seid", "start"}
			want := command
			if c.checked {
				want = []string{"seid", "start", doubleSignCheck}
			}
			if got := arguments(command, c.approved, c.validator, c.signed, 100); !slices.Equal(got, want) {
				t.Errorf("arguments: %q", got)
			}
		})
	}
}

// TestWhatTheUserAddsDoesNotSwallowTheGuard: a flag at the end whose value is missing
// takes the next argument for its value.
func TestWhatTheUserAddsDoesNotSwallowTheGuard(t *testing.T) {
	r := newRig(t)
	r.cfg.Command = append(r.cfg.Command, "--moniker")
	approved := r.keys("a")
	r.run()
	_, p := r.start(approved)
	guard, added := slices.Index(p.Args, doubleSignCheck), slices.Index(p.Args, "--moniker")
	if guard < 0 || guard > added {
		t.Errorf("arguments: %q", p.Args)
	}
}

// TestArgumentsThatVoidTheGuard: of a flag that is given twice seid takes the last,
// and after "--" it takes none.
func TestArgumentsThatVoidTheGuard(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end() // One that is not refused has nothing to wait for.
	for _, void := range []string{"--", "--consensus.double-sign-check-height=0", "--consensus.double-sign-check-height"} {
		r := newRig(t)
		r.cfg.Command = append(r.cfg.Command, void)
		code, err := New(r.cfg).Run(ended)
		if code == 0 || err == nil || !strings.Contains(err.Error(), "spec.extraArgs") {
			t.Errorf("%s: %d, %v", void, code, err)
		}
	}
}
