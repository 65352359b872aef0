package access

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/render"
)

// tokenLife is the shortest that Kubernetes knows: who gets to see a token has it no
// longer than that.
const tokenLife = 10 * time.Minute

// Tokens are what the operator shows to the access proxies, one for each namespace. Who
// runs the proxies of one namespace gets to see that one, and it opens no other.
type Tokens struct {
	request Request
	clock   clock.PassiveClock

	mu   sync.Mutex
	held map[string]*held // by namespace
}

// Request asks for a token for an audience, and says how long it lives.
type Request func(ctx context.Context, audience string, life time.Duration) (token string, lives time.Duration, err error)

// held is the token for a namespace. While somebody asks for it, the others wait: a fleet
// that is connected at once asks once.
type held struct {
	mu    sync.Mutex
	token string
	since time.Time
	lives time.Duration
}

// NewTokens makes an empty collection.
func NewTokens(request Request, c clock.PassiveClock) *Tokens {
	return &Tokens{request: request, clock: c, held: map[string]*held{}}
}

// For returns the token to show in a namespace. It is asked for when somebody needs it,
// so that at rest nobody asks.
func (t *Tokens) For(ctx context.Context, namespace string) (string, error) {
	h := t.of(namespace)
	h.mu.Lock()
	defer h.mu.Unlock()
	// By how long we have it, not by the time at which it ends: a clock that is wrong by
	// an hour is still right about minutes.
	age := t.clock.Since(h.since)
	if h.token != "" && age >= 0 && age < h.lives/2 {
		return h.token, nil
	}
	asked := t.clock.Now()
	token, lives, err := t.request(ctx, render.TokenAudience(namespace), tokenLife)
	switch {
	case err == nil:
		h.token, h.since, h.lives = token, asked, lives
		return token, nil
	case h.token != "" && age >= 0 && age < h.lives:
		// The other half is for an API server that is away.
		return h.token, nil
	default:
		return "", err
	}
}

func (t *Tokens) of(namespace string) *held {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[namespace] == nil {
		t.held[namespace] = &held{}
	}
	return t.held[namespace]
}
