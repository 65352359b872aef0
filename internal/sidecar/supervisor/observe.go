package supervisor

import (
	"context"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
)

// firstPause is how long the first probe of a seid waits.
const firstPause = 5 * time.Millisecond

// probeTimeout is how long one probe may take.
const probeTimeout = 500 * time.Millisecond

// boot is what is known of a seid on its way up, and how to learn more.
type boot struct {
	Observation

	seed bool
	// services are the addresses of Observation.Services.
	services []string
}

// observation is what is known at the start.
func (s *Supervisor) observation(c *child, set settings) *boot {
	b := &boot{seed: set.seed, Observation: Observation{
		Now: c.started, Started: c.started, SyncExpected: syncExpected(s.home, set),
	}}
	for _, service := range []struct {
		name, address string
		enabled       bool
	}{
		{"REST", s.cfg.Endpoints.REST, set.rest},
		{"gRPC", s.cfg.Endpoints.GRPC, set.grpc},
		{"gRPC-web", s.cfg.Endpoints.GRPCWeb, set.grpcWeb},
	} {
		if service.enabled {
			b.Services = append(b.Services, Service{Name: service.name})
			b.services = append(b.services, service.address)
		}
	}
	c.boot = b
	return b
}

// observeAgain begins anew with a seid that restarts itself in its process. From the
// first word of it until it is up again it has no signal handler. The lock is held.
func (s *Supervisor) observeAgain(c *child, closing bool) {
	b := s.observation(c, c.settings)
	b.Started, b.Now, b.Closing = s.cfg.Clock.Now(), s.cfg.Clock.Now(), closing
	if s.state.SafeToStop {
		c.safe = make(chan struct{})
	}
	s.state.SafeToStop, s.state.UnsafeBecause = false, Booting
	s.publish()
	s.work.Go(func() { s.observe(context.WithoutCancel(c.ctx), c, b) })
}

// observe probes a seid until it has answered and may be stopped; from then on
// nothing is probed any more.
func (s *Supervisor) observe(ctx context.Context, c *child, b *boot) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.work.Go(func() {
		defer cancel()
		select {
		case <-c.ended:
		case <-ctx.Done():
		}
	})
	transport := &http.Transport{DisableKeepAlives: true, DialContext: s.cfg.Dial}
	client := &http.Client{Transport: transport}
	for !s.learn(c, b) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.cfg.Timing.pause(s.cfg.Clock.Now().Sub(b.Started))):
		}
		s.probe(ctx, client, b)
	}
	if s.cfg.Reap {
		// From here on this process only waits, for weeks; seid needs the memory more.
		debug.FreeOSMemory()
	}
}

// pause is how long to wait before the next probe of a seid of this age: the older
// it is, the less a moment matters. A seid that is up at once is seen at once.
func (t Timing) pause(age time.Duration) time.Duration {
	if age > t.BootLimit {
		return 10 * t.Poll
	}
	return min(t.Poll, max(age/8, firstPause))
}

// learn takes what was observed into the state, and tells whether nothing more is
// to be learnt. Until the first answer a state sync may still turn up, so what was
// thought to be safe may be unsafe after all.
func (s *Supervisor) learn(c *child, b *boot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != c || c.boot != b {
		return true
	}
	answered := !b.Answered.IsZero()
	b.Now = s.cfg.Clock.Now()
	b.Searching = c.searching
	s.endanger(c, SafeToStop(b.Observation, s.cfg.Timing))
	if answered && !c.answered {
		c.answered = true
		s.state.SnapshotSearch, s.state.RestoreAbandoned = nil, false // RPC opens when a state sync is over.
		if s.state.State == Starting {
			s.enter(Running)
		}
	}
	return answered && s.state.SafeToStop
}

// probe asks seid what is still unknown.
func (s *Supervisor) probe(ctx context.Context, client *http.Client, b *boot) {
	if b.Closing {
		return // What answers is the old one.
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if b.seed {
		if b.Answered.IsZero() && s.open(ctx, s.cfg.Endpoints.P2P) {
			b.Answered = s.cfg.Clock.Now()
		}
	} else {
		s.probeNode(ctx, client, b)
	}
	if b.Answered.IsZero() {
		return
	}
	for i, address := range b.services {
		if b.Services[i].Opened.IsZero() && s.open(ctx, address) {
			b.Services[i].Opened = s.cfg.Clock.Now()
		}
	}
}

// probeNode asks RPC, and the metrics while RPC is closed.
func (s *Supervisor) probeNode(ctx context.Context, client *http.Client, b *boot) {
	if b.Answered.IsZero() || b.awaitsBlock() {
		s.probeRPC(ctx, client, b)
	}
	if b.Answered.IsZero() && !b.SyncSeen {
		b.SyncSeen = stateSyncing(ctx, client, s.cfg.Endpoints.Metrics)
	}
}

func (s *Supervisor) probeRPC(ctx context.Context, client *http.Client, b *boot) {
	rpc, err := seid.NewClient(client, "http://"+s.cfg.Endpoints.RPC)
	if err != nil {
		return
	}
	status, err := rpc.Status(ctx)
	if err != nil {
		return
	}
	b.Height = status.LatestBlockHeight
	if b.Answered.IsZero() {
		b.Answered, b.FirstHeight = s.cfg.Clock.Now(), b.Height
	}
}

// stateSyncing asks the metrics, which are there while RPC is not.
func stateSyncing(ctx context.Context, client *http.Client, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	metrics, err := seid.ParseMetrics(response.Body)
	return err == nil && metrics.StateSyncing != nil && *metrics.StateSyncing
}

// open tells whether somebody listens.
func (s *Supervisor) open(ctx context.Context, address string) bool {
	conn, err := s.cfg.Dial(ctx, "tcp", address)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}
