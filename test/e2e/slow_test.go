package e2e_test

import (
	"flag"
	"testing"
	"time"
)

// slowShutdown is for a person: the story takes as long as seid does.
var slowShutdown = flag.Duration("slow-shutdown", 0, "tell the story of a seid that takes so long to close its state, such as 4m")

// TestSlowShutdown deletes the pod of a validator whose seid takes minutes to close its state.
// The grace period of the pod is longer, so it is waited for: a second signal, or a kill,
// would tear that state, and the new pod could not start.
func TestSlowShutdown(t *testing.T) {
	if *slowShutdown == 0 {
		t.Skip("it takes minutes: -args -slow-shutdown=4m")
	}
	s := newStage(t, "slow")
	s.story(t, "a slow shutdown is waited for", func(t *testing.T) {
		const name = "validator-3"
		check(t, s.Start(t.Context()))
		check(t, s.watcher.Signs(t.Context(), 1, s.ValidatorNames()...))
		before, pod := s.identity(t, name), s.pod(t, name)
		check(t, s.CloseSlowly(pod, *slowShutdown))
		signed := s.watcher.LastSigned(name)
		deleted := time.Now().Truncate(time.Second) // as precise as what Kubernetes tells
		check(t, s.Client.Delete(t.Context(), pod))
		select { // Nobody waits for a pod as patiently as this.
		case <-time.After(*slowShutdown):
		case <-t.Context().Done():
		}
		now := must(s.NewPod(t.Context(), name, pod))(t)
		// The shutdown is over before the next pod is made.
		if took := now.CreationTimestamp.Sub(deleted); took < *slowShutdown {
			t.Errorf("the next pod was made %s after the last one was deleted: seid was not waited for", took)
		}
		check(t, s.CloseSoon(now))
		note("a shutdown of %s: %s", *slowShutdown, s.gap(t, name, signed))
		s.same(t, name, before)
	})
}
