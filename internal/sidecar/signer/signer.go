// Package signer is what a sidecar knows of the signing key of its node: from the
// approval on the volume, from the operator, and by proof from the chain. seid is
// started under the guard against signing twice when its sign state falls short of it.
package signer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
	"github.com/sei-operator/sei-operator/internal/signing"
)

// noteEvery is how often what was signed is written down while seid runs. The sign
// state itself is on the same volume; this is for one that is lost or put back alone.
const noteEvery = 10 * time.Minute

// Options make a Signer.
type Options struct {
	Home    seid.Home
	Consent *consent.Consent
	// Mounted is the file into which the operator's knowledge is mounted.
	Mounted string
	// ChainID is that of the node; empty while nobody knows.
	ChainID func() string
	// HTTP is for witnesses, each of which is asked much at once (egress.NewSurveyClient).
	HTTP  *http.Client
	Clock clock.PassiveClock // default: the real one
	Log   *slog.Logger       // default: none
}

// Signer knows the signing key of one node. It is safe for concurrent use.
type Signer struct {
	opts Options

	mu sync.Mutex
	// mounted is what the operator was last seen to know.
	mounted signing.Known
	// proven is the highest height at which a commit proves a signature, and of which
	// key; answered is the key of which a witness was asked and has answered.
	proven   signing.Known
	answered string
	// unwritten is why what a person accepted does not count: it cannot be written down.
	unwritten error
	// noted is when what was signed was last written down.
	noted time.Time
}

// New makes a Signer.
func New(o Options) *Signer {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Signer{opts: o}
}

// Approval is under which identity seid may run now, and what its sign state is to be
// held against. What a person accepted is written down before it counts: once seid has
// signed, the acceptance no longer fits the sign state, and what was known before it
// would keep the node down. So one that cannot be written down does not count.
func (s *Signer) Approval(allowed consent.State) supervisor.Approval {
	if allowed.Approval == nil {
		return supervisor.Approval{}
	}
	s.read()
	s.accept(*allowed.Approval, s.Height())
	return supervisor.Approval{
		PublicKey: allowed.Approval.PublicKey, NodeID: allowed.Approval.NodeID, Signing: s.limits(*allowed.Approval),
	}
}

// limits is all that counts, without looking anew.
func (s *Signer) limits(approval consent.Approval) signing.Limits {
	limits := s.told(approval)
	if s.Problem() != nil {
		limits.Accepted = nil
	}
	return limits
}

// told is all that was told, with an acceptance that may not be written down.
func (s *Signer) told(approval consent.Approval) signing.Limits {
	s.mu.Lock()
	defer s.mu.Unlock()
	mounted, proven := s.mounted.Of(approval.PublicKey), s.proven.Of(approval.PublicKey)
	return signing.Limits{
		Known:   max(approval.Signed, mounted.Height, proven.Height),
		Doubted: approval.Doubted, Vouched: mounted.Vouched,
		Tip: mounted.Tip, Accepted: mounted.Accepted,
	}
}

// Prepare finds out what there is to know before seid is started. It takes a few
// seconds at most, and fails for nobody: who is not there knows nothing.
func (s *Signer) Prepare(ctx context.Context, allowed consent.State) {
	if !allowed.Approved || allowed.Approval.PublicKey == "" {
		return
	}
	s.read()
	key, height := allowed.Approval.PublicKey, s.Height()
	if s.told(*allowed.Approval).Accepts(height) {
		return // Approval sees to it
	}
	limits := s.limits(*allowed.Approval)
	// A sign state without a signature is guarded in any case.
	if height > 0 && s.mayAsk(key, limits.Guard(height)) {
		s.ask(ctx, key, height)
	}
	if reason := s.limits(*allowed.Approval).Guard(height); reason != signing.Off {
		s.opts.Log.Warn("seid is started under the guard against signing twice", "reason", reason, "why", s.limits(*allowed.Approval).Explain(height))
	}
}

// mayAsk tells whether the witnesses are asked: at each start of a pod until one has
// answered, and as long as nobody vouches for the volume.
func (s *Signer) mayAsk(key string, reason signing.Reason) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered != key || reason == signing.Doubted
}

func (s *Signer) ask(ctx context.Context, key string, signed int64) {
	s.mu.Lock()
	witnesses := s.mounted.Of(key).Witnesses
	s.mu.Unlock()
	height, answered := s.witnessed(ctx, key, signed, witnesses)
	if answered {
		s.mu.Lock()
		s.answered = key
		s.mu.Unlock()
	}
	if height == 0 {
		return
	}
	s.mu.Lock()
	s.proven = signing.Known{PublicKey: key, Height: max(height, s.proven.Of(key).Height)}
	s.mu.Unlock()
	if err := s.opts.Consent.Signed(key, height); err != nil {
		s.opts.Log.Error("What the chain says of the signing key is known to this sidecar only", "error", err)
	}
}

// accept writes down that a person accepted the sign state at this height, if one did.
func (s *Signer) accept(approval consent.Approval, height int64) {
	accepted, err := s.told(approval).Accepts(height), error(nil)
	if accepted {
		err = s.opts.Consent.SignStateAccepted(approval.PublicKey, height)
	}
	if err != nil {
		err = fmt.Errorf("a person accepted the sign state at height %d, which does not count because it cannot be written to the volume; "+
			"see to the volume, then restart seid: %w", height, err)
		s.opts.Log.Error("seid is started as if the sign state had not been accepted", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwritten = err
	if accepted && err == nil {
		s.proven = signing.Known{}
	}
}

// Problem is what a person should know of; nil for nothing.
func (s *Signer) Problem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unwritten
}

// Note writes down what was signed, if others may rely on it: now and then while seid
// runs, and when it has ended.
func (s *Signer) Note(signed supervisor.State) {
	s.read()
	allowed := s.opts.Consent.State()
	if !allowed.Approved || allowed.Approval.PublicKey == "" || allowed.Approval.PublicKey != signed.Identity.PublicKey {
		return
	}
	if height := signed.SignHeight; height <= allowed.Approval.Signed || !s.limits(*allowed.Approval).Guard(height).Trusted() {
		return
	}
	now := s.opts.Clock.Now()
	s.mu.Lock()
	due := signed.PID == 0 || now.Sub(s.noted) >= noteEvery
	if due {
		s.noted = now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	if err := s.opts.Consent.Signed(allowed.Approval.PublicKey, signed.SignHeight); err != nil {
		s.opts.Log.Warn("What was signed cannot be written down", "error", err)
	}
}

// Guard tells whether a seid that is started now is guarded, and why. It reads nothing.
func (s *Signer) Guard(allowed consent.State, height int64) (reason signing.Reason, why string) {
	if !allowed.Approved || allowed.Approval.PublicKey == "" {
		return signing.Off, ""
	}
	limits := s.limits(*allowed.Approval)
	return limits.Guard(height), limits.Explain(height)
}

// Height is that of the sign state; 0 when nobody can tell.
func (s *Signer) Height() int64 {
	state, err := seid.ReadSignState(s.opts.Home.SignState())
	if err != nil {
		return 0
	}
	return state.Height
}

// read takes in what the operator knows. What was read once counts until there is
// something else to read: a file that is not there for a moment is no news.
func (s *Signer) read() {
	if s.opts.Mounted == "" {
		return
	}
	content, err := os.ReadFile(s.opts.Mounted)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var known signing.Known
	if err == nil {
		known, err = signing.Parse(content)
	}
	if err != nil {
		s.opts.Log.Warn("What the operator knows of the signing key cannot be read", "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mounted = known
}
