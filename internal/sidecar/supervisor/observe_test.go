package supervisor

import (
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

func TestStateSyncIsNotInterrupted(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		// data is chain data of an earlier attempt.
		data    bool
		metrics bool
	}{
		"on an empty volume, without metrics":    {config: "[statesync]\nenable = true\n"},
		"on an empty volume":                     {config: "[statesync]\nenable = true\n[instrumentation]\nprometheus = true\n", metrics: true},
		"again after one that was broken off":    {config: "[statesync]\nenable = true\n[instrumentation]\nprometheus = true\n", data: true, metrics: true},
		"broken off, and nobody can tell of one": {config: "[statesync]\nenable = \"true\"\n", data: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.config(c.config, "[api]\nenable = false\n[grpc]\nenable = false\n[grpc-web]\nenable = false\n")
			if c.data {
				r.chainData()
			}
			r.run()
			_, p := r.start(Approval{})
			p.Do(t, fakeseid.Open(fakeseid.P2P, r.at[fakeseid.P2P]))
			if c.metrics {
				p.Do(t, fakeseid.Tell(fakeseid.Facts{StateSyncing: new(1)}), fakeseid.Open(fakeseid.Metrics, r.at[fakeseid.Metrics]))
			}
			state := r.await("syncing", func(s State) bool { return s.UnsafeBecause == StateSyncing })
			if state.State != Starting || state.PID != p.PID {
				t.Fatalf("%+v", state)
			}
			r.clock.advance(time.Hour)

			facts := fakeseid.Facts{ChainID: "test-1", NodeID: "id", Height: 650, StateSyncing: new(0)}
			p.Do(t, fakeseid.Catch(fakeseid.AtOnce), fakeseid.Tell(facts), fakeseid.Open(fakeseid.RPC, r.at[fakeseid.RPC]))
			r.await("waiting for a block", func(s State) bool { return s.State == Running && s.UnsafeBecause == AwaitingBlock })
			r.clock.advance(time.Hour)
			if _, err := r.client.Stop(t.Context(), StopRequest{}); reason(err) != ReasonNotSafe {
				t.Fatal(err)
			}
			p.Do(t, fakeseid.Block(2))
			r.await("safe", func(s State) bool { return s.SafeToStop })
		})
	}
}

// chainData makes the volume one that has been used.
func (r *rig) chainData() {
	r.t.Helper()
	mkdir(r.t, r.home+"/data/tendermint/blockstore.db")
	r.write("data/tendermint/blockstore.db/000005.ldb", []byte("blocks"))
}

func TestNoStateSyncOnAUsedVolume(t *testing.T) {
	r := newRig(t)
	r.config("[statesync]\nenable = true\n[instrumentation]\nprometheus = true\n", "[api]\nenable = false\n[grpc]\nenable = false\n[grpc-web]\nenable = false\n")
	r.chainData()
	r.run()
	state, p := r.start(Approval{})
	if state.UnsafeBecause != Booting {
		t.Errorf("%+v", state)
	}
	r.settle(p, fakeseid.AtOnce)
}

func TestSeed(t *testing.T) {
	r := newRig(t)
	r.config("mode = \"seed\"\n[statesync]\nenable = true\n", "[api]\nenable = false\n[grpc]\nenable = false\n[grpc-web]\nenable = false\n")
	r.run()
	_, p := r.start(Approval{})
	p.Do(t, fakeseid.Catch(fakeseid.AtOnce), fakeseid.Open(fakeseid.P2P, r.at[fakeseid.P2P]))
	r.await("running", phase(Running))
	r.clock.advance(time.Second)
	r.await("safe", func(s State) bool { return s.SafeToStop })
}

func TestServicesComeBeforeTheSignalHandler(t *testing.T) {
	r := newRig(t)
	r.config("", "[api]\nenable = true\n[grpc]\nenable = true\n[grpc-web]\nenable = true\n")
	r.run()
	_, p := r.start(Approval{})
	p.Do(t, fakeseid.Tell(fakeseid.Facts{ChainID: "test-1", NodeID: "id"}), fakeseid.Open(fakeseid.RPC, r.at[fakeseid.RPC]))
	r.await("running", phase(Running))
	r.clock.advance(20 * time.Second)
	for _, service := range []fakeseid.Endpoint{fakeseid.REST, fakeseid.GRPC, fakeseid.GRPCWeb} {
		if _, err := r.client.Stop(t.Context(), StopRequest{}); reason(err) != ReasonNotSafe {
			t.Fatalf("before %s: %v", service, err)
		}
		p.Do(t, fakeseid.Open(service, r.at[service]))
	}
	stop := async(func() (State, error) {
		return r.client.Stop(t.Context(), StopRequest{SafeWait: Duration(time.Hour)})
	})
	p.Do(t, fakeseid.Catch(fakeseid.AtOnce))
	// However late the last port was seen: the limit has not been reached when it
	// becomes safe.
	for r.stillUnsafe() {
		r.clock.advance(time.Second)
	}
	if state, err := r.answer(stop); err != nil || state.LastExit.How != Clean {
		t.Fatalf("%+v, %v", state, err)
	}
	if waited := r.clock.Now().Sub(newFakeClock().Now()); waited < 26*time.Second {
		t.Errorf("thought to be safe after %s", waited)
	}
}

func (r *rig) stillUnsafe() bool {
	r.t.Helper()
	state, err := r.client.State(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return !state.SafeToStop
}

func TestHangingBootMayBeStopped(t *testing.T) {
	r := newRig(t)
	r.run()
	_, p := r.start(Approval{})
	r.clock.advance(time.Minute)
	state := r.await("safe", func(s State) bool { return s.SafeToStop })
	if state.State != Starting {
		t.Fatalf("%+v", state)
	}
	// It may still come up.
	p.Do(t, fakeseid.Tell(fakeseid.Facts{ChainID: "test-1", NodeID: "id"}), fakeseid.Open(fakeseid.RPC, r.at[fakeseid.RPC]))
	r.await("running", func(s State) bool { return s.State == Running && s.SafeToStop })
}

func TestSettledSeidIsNotProbed(t *testing.T) {
	r := newRig(t)
	r.run()
	_, p := r.settled(fakeseid.AtOnce)
	s := r.current
	s.mu.Lock()
	c := s.child
	s.mu.Unlock()
	b := s.observation(c, readSettings(s.home, nil, nil))
	b.Answered = c.started
	s.observe(t.Context(), c, b) // It returns although seid lives.
	p.Do(t, fakeseid.Close(fakeseid.RPC))
	if state, err := r.client.State(t.Context()); err != nil || state.State != Running || !state.SafeToStop {
		t.Errorf("%+v, %v", state, err)
	}
}

func TestSettingsThatCannotBeReadMakeAStopWait(t *testing.T) {
	r := newRig(t)
	r.config("this is not TOML", "neither is this")
	r.run()
	_, p := r.start(Approval{})
	p.Do(t, fakeseid.Tell(fakeseid.Facts{ChainID: "test-1", NodeID: "id"}), fakeseid.Open(fakeseid.RPC, r.at[fakeseid.RPC]))
	r.await("running", phase(Running))
	r.clock.advance(30 * time.Second)
	if _, err := r.client.Stop(t.Context(), StopRequest{}); reason(err) != ReasonNotSafe {
		t.Fatal(err)
	}
	r.clock.advance(30 * time.Second)
	r.await("safe", func(s State) bool { return s.SafeToStop })
}

func TestStateSyncThatTurnsUpAfterTheLimit(t *testing.T) {
	r := newRig(t)
	r.run()
	_, p := r.start(Approval{})
	r.clock.advance(time.Minute)
	r.await("safe", func(s State) bool { return s.SafeToStop })

	p.Do(t, fakeseid.Tell(fakeseid.Facts{StateSyncing: new(1)}), fakeseid.Open(fakeseid.Metrics, r.at[fakeseid.Metrics]))
	r.await("unsafe again", func(s State) bool { return !s.SafeToStop && s.UnsafeBecause == StateSyncing })
	if _, err := r.client.Stop(t.Context(), StopRequest{}); reason(err) != ReasonNotSafe {
		t.Fatal(err)
	}
	stop := r.waiting(time.Hour, func() (State, error) {
		return r.client.Stop(t.Context(), StopRequest{SafeWait: Duration(time.Hour)})
	})
	facts := fakeseid.Facts{ChainID: "test-1", NodeID: "id", Height: 650, StateSyncing: new(0)}
	p.Do(t, fakeseid.Catch(fakeseid.AtOnce), fakeseid.Tell(facts), fakeseid.Open(fakeseid.RPC, r.at[fakeseid.RPC]))
	r.await("waiting for a block", func(s State) bool { return s.State == Running && s.UnsafeBecause == AwaitingBlock })
	p.Do(t, fakeseid.Block(2))
	r.await("booting", func(s State) bool { return s.UnsafeBecause == Booting })
	r.clock.advance(time.Second)
	if state, err := r.answer(stop); err != nil || state.LastExit.How != Clean {
		t.Fatalf("%+v, %v", state, err)
	}
}

// A stop that waits wakes when seid is safe; by the time it can act that may be
// over.
func TestSafetyThatEndsBeforeAStopActs(t *testing.T) {
	r := newRig(t)
	r.run()
	_, p := r.start(Approval{})
	stop := r.waiting(late, func() (State, error) {
		return r.client.Stop(t.Context(), StopRequest{SafeWait: Duration(late)})
	})
	s := r.current
	s.mu.Lock()
	close(s.child.safe)
	s.child.safe = make(chan struct{})
	s.mu.Unlock()
	r.clock.advance(late)
	if _, err := r.answer(stop); reason(err) != ReasonNotSafe {
		t.Errorf("stop: %v", err)
	}
	r.untouched(p)
}

// TestSeidThatRestartsItself has no signal handler until it is up again, in the same
// process; while it goes down its old RPC still answers.
func TestSeidThatRestartsItself(t *testing.T) {
	r := newRig(t)
	r.run()
	state, p := r.settled(fakeseid.AtOnce)
	p.Do(t, fakeseid.Print("stdout", "time=now level=INFO msg=\"Blocks behind threshold, restarting node\" threshold=300\n"))
	r.await("unsafe", func(s State) bool { return s.UnsafeBecause == Booting })
	r.clock.advance(10 * time.Second)
	if _, err := r.client.Stop(t.Context(), StopRequest{}); reason(err) != ReasonNotSafe {
		t.Errorf("stop while it goes down: %v", err)
	}
	p.Do(t, fakeseid.Close(fakeseid.RPC), fakeseid.Print("stdout", "time=now level=INFO msg=\"restarting node...\"\n"))
	r.clock.advance(10 * time.Second)
	if _, err := r.client.Stop(t.Context(), StopRequest{}); reason(err) != ReasonNotSafe {
		t.Errorf("stop while it comes up: %v", err)
	}
	stop := async(func() (State, error) {
		return r.client.Stop(t.Context(), StopRequest{SafeWait: Duration(time.Hour)})
	})
	p.Do(t, fakeseid.Open(fakeseid.RPC, r.at[fakeseid.RPC]))
	for r.stillUnsafe() {
		r.clock.advance(time.Second)
	}
	if ended, err := r.answer(stop); err != nil || ended.LastExit.How != Clean || ended.LastExit.Instance != state.Instance {
		t.Errorf("%+v, %v", ended, err)
	}
}

// TestServicesByArgumentAndVariable: they count more than the file.
func TestServicesByArgumentAndVariable(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		command, env []string
		want         bool
	}{
		"the file":                 {nil, nil, false},
		"a variable":               {nil, []string{"SEID_GRPC_WEB_ENABLE=true"}, true},
		"an argument":              {[]string{"--grpc-web.enable"}, nil, true},
		"an argument over another": {[]string{"--grpc-web.enable=true", "--grpc-web.enable=false"}, nil, false},
		"an argument over all":     {[]string{"--grpc-web.enable=false"}, []string{"SEID_GRPC_WEB_ENABLE=true"}, false},
	} {
		if got := readSettings(seid.Home(r.home), c.command, c.env); got.grpcWeb != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
