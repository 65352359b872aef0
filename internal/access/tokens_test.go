package access

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

// issuer counts the tokens that it gives out.
type issuer struct {
	mu    sync.Mutex
	count int
	lives time.Duration
	away  error
}

func (i *issuer) request(_ context.Context, audience string, _ time.Duration) (string, time.Duration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.count++
	return fmt.Sprintf("%s/%d", audience, i.count), i.lives, i.away
}

func TestTokens(t *testing.T) {
	now := testclock.NewFakePassiveClock(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	from := &issuer{lives: tokenLife}
	tokens := NewTokens(from.request, now)
	shown := func(step, namespace, want string) {
		t.Helper()
		if got, err := tokens.For(t.Context(), namespace); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q and %v are shown in %s instead of %q", step, got, err, namespace, want)
		}
	}
	after := func(d time.Duration) { now.SetTime(now.Now().Add(d)) }

	shown("at first", "alpha", "sei-sidecar.alpha/1")
	shown("elsewhere", "beta", "sei-sidecar.beta/2")
	shown("again", "alpha", "sei-sidecar.alpha/1")
	after(tokenLife / 2)
	shown("after half of its life", "alpha", "sei-sidecar.alpha/3")
	from.away = errors.New("no API server")
	after(tokenLife - time.Second)
	shown("while nobody can be asked", "alpha", "sei-sidecar.alpha/3")
	after(time.Second)
	shown("when it is over", "alpha", "")
	from.away = nil
	shown("when somebody can be asked again", "alpha", "sei-sidecar.alpha/6")
	after(-time.Hour)
	shown("with a clock that was set back", "alpha", "sei-sidecar.alpha/7")
	from.lives = time.Minute
	shown("elsewhere with a limit of the cluster", "gamma", "sei-sidecar.gamma/8")
	after(30 * time.Second)
	shown("after half of that", "gamma", "sei-sidecar.gamma/9")
}

// A fleet that is connected at once asks once.
func TestOneTokenForAllWhoAskAtOnce(t *testing.T) {
	from := &issuer{lives: tokenLife}
	tokens := NewTokens(from.request, testclock.NewFakePassiveClock(time.Unix(0, 0)))
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if token, err := tokens.For(t.Context(), "alpha"); token != "sei-sidecar.alpha/1" || err != nil {
				t.Errorf("%q and %v", token, err)
			}
		})
	}
	all.Wait()
}
