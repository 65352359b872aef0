package access

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
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
	// asking: a fleet that is connected at once asks once.
	asking singleflight.Group

	mu   sync.Mutex
	held map[string]held // by namespace
}

// Request asks for a token for an audience, and says how long it lives.
type Request func(audience string, life time.Duration) (token string, lives time.Duration, err error)

// held is the token for a namespace.
type held struct {
	token string
	since time.Time
	lives time.Duration
}

// within tells whether a token is younger than that. Its age is what counts, not the time
// at which it ends: a clock that is wrong by an hour is still right about minutes.
func (h held) within(limit time.Duration, now time.Time) bool {
	age := now.Sub(h.since)
	return h.token != "" && age >= 0 && age < limit
}

// NewTokens makes an empty collection.
func NewTokens(request Request, c clock.PassiveClock) *Tokens {
	return &Tokens{request: request, clock: c, held: map[string]held{}}
}

// For returns the token to show in a namespace. It is asked for when somebody needs it,
// so that at rest nobody asks.
func (t *Tokens) For(ctx context.Context, namespace string) (string, error) {
	t.mu.Lock()
	last := t.held[namespace]
	t.mu.Unlock()
	now := t.clock.Now()
	if last.within(last.lives/2, now) {
		return last.token, nil
	}
	answer := t.asking.DoChan(namespace, func() (any, error) { return t.renew(namespace) })
	if last.within(last.lives, now) {
		// Half of its life is for an API server that is slow or away: no call waits for it.
		return last.token, nil
	}
	select {
	case got := <-answer:
		token, _ := got.Val.(string)
		return token, got.Err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (t *Tokens) renew(namespace string) (string, error) {
	asked := t.clock.Now()
	token, lives, err := t.request(render.TokenAudience(namespace), tokenLife)
	if err != nil {
		return "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[namespace] = held{token: token, since: asked, lives: lives}
	return token, nil
}
