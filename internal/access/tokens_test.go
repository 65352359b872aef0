package access

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// issuer numbers the tokens that it gives out.
type issuer struct {
	mu    sync.Mutex
	count int
	lives time.Duration
	takes time.Duration
	away  error
}

func (i *issuer) request(audience string, _ time.Duration) (string, time.Duration, error) {
	<-time.After(i.takes)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.away != nil {
		return "", 0, i.away
	}
	i.count++
	return fmt.Sprintf("%s/%d", audience, i.count), i.lives, nil
}

// shown calls For, and lets what it began come to an end.
func shown(t *testing.T, tokens *Tokens, step, namespace, want string) {
	t.Helper()
	got, err := tokens.For(t.Context(), namespace)
	if got != want || (err == nil) != (want != "") {
		t.Errorf("%s: %q and %v are shown in %s instead of %q", step, got, err, namespace, want)
	}
	synctest.Wait()
}

func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &issuer{lives: tokenLife}
		tokens := NewTokens(from.request, clock.RealClock{})
		shown(t, tokens, "at first", "alpha", "sei-sidecar.alpha/1")
		shown(t, tokens, "elsewhere", "beta", "sei-sidecar.beta/2")
		shown(t, tokens, "again", "alpha", "sei-sidecar.alpha/1")
		<-time.After(tokenLife / 2)
		shown(t, tokens, "when another one is asked for", "alpha", "sei-sidecar.alpha/1")
		shown(t, tokens, "when there is another one", "alpha", "sei-sidecar.alpha/3")
		from.away = errors.New("no API server")
		<-time.After(tokenLife - time.Second)
		shown(t, tokens, "while nobody can be asked", "alpha", "sei-sidecar.alpha/3")
		<-time.After(time.Second)
		shown(t, tokens, "when it is over", "alpha", "")
		from.away = nil
		shown(t, tokens, "when somebody can be asked again", "alpha", "sei-sidecar.alpha/4")
		from.lives = time.Minute
		shown(t, tokens, "with a limit of the cluster", "gamma", "sei-sidecar.gamma/5")
		<-time.After(time.Minute)
		shown(t, tokens, "when that is over", "gamma", "sei-sidecar.gamma/6")
	})
}

// A clock that was set back says nothing about the age of a token.
func TestATokenOfTheFutureIsNotShown(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	h := held{token: "a", since: now, lives: tokenLife}
	if h.within(h.lives, now.Add(-time.Second)) || !h.within(h.lives, now) {
		t.Error("the age is misjudged")
	}
}

// While the API server is slow, calls that have a token go on, and those without one end
// when their time is up.
func TestNoCallWaitsLongerThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &issuer{lives: tokenLife}
		tokens := NewTokens(from.request, clock.RealClock{})
		shown(t, tokens, "at first", "alpha", "sei-sidecar.alpha/1")
		from.takes = time.Hour
		<-time.After(tokenLife / 2)
		began := time.Now()
		if token, err := tokens.For(t.Context(), "alpha"); token != "sei-sidecar.alpha/1" || err != nil || time.Since(began) > 0 {
			t.Errorf("%q and %v after %s", token, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if token, err := tokens.For(ctx, "beta"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%q and %v after %s", token, err, time.Since(began))
		}
		<-time.After(2 * time.Hour)
	})
}

// A fleet that is connected at once asks once.
func TestOneTokenForAllWhoAskAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &issuer{lives: tokenLife, takes: time.Second}
		tokens := NewTokens(from.request, clock.RealClock{})
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if token, err := tokens.For(t.Context(), "alpha"); token != "sei-sidecar.alpha/1" || err != nil {
					t.Errorf("%q and %v", token, err)
				}
			})
		}
		all.Wait()
	})
}
