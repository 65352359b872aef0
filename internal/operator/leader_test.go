package operator

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is the Lease of the leader, on an API server that does not answer until a moment.
type lease struct {
	mu     sync.Mutex
	record *resourcelock.LeaderElectionRecord
	silent time.Time
}

func (l *lease) answer(ctx context.Context) error {
	l.mu.Lock()
	wait := time.Until(l.silent)
	l.mu.Unlock()
	select {
	case <-time.After(max(0, wait)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.answer(ctx); err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "sei-operator")
	}
	found := *l.record
	text, err := json.Marshal(found)
	return &found, text, err
}

func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.answer(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record = &record
	return nil
}

func (*lease) RecordEvent(string) {}
func (*lease) Identity() string   { return "one" }
func (*lease) Describe() string   { return "the Lease" }

// TestASlowAPIServerEndsNoLeader: one that only waits for its turn on a busy machine goes
// on. One that cannot renew for longer ends before anybody else may take the Lease.
func TestASlowAPIServerEndsNoLeader(t *testing.T) {
	for silence, ends := range map[time.Duration]bool{5 * time.Second: false, 15 * time.Second: false, 40 * time.Second: true} {
		t.Run(silence.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				lock, ended := &lease{}, make(chan time.Time, 1)
				options := leaderElection(Config{LeaderElection: true})
				elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
					Lock: lock, LeaseDuration: *options.LeaseDuration, RenewDeadline: *options.RenewDeadline, RetryPeriod: *options.RetryPeriod,
					Callbacks: leaderelection.LeaderCallbacks{
						OnStartedLeading: func(context.Context) {},
						OnStoppedLeading: func() { ended <- time.Now() },
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				go elector.Run(ctx)
				<-time.After(time.Minute)
				begin := time.Now()
				lock.mu.Lock()
				renewed := lock.record.RenewTime.Time
				lock.silent = begin.Add(silence)
				lock.mu.Unlock()
				<-time.After(2 * time.Minute)
				select {
				case at := <-ended:
					if !ends {
						t.Errorf("it ended %s after the API server went silent for %s", at.Sub(begin), silence)
					}
					if free := renewed.Add(*options.LeaseDuration); !at.Before(free) {
						t.Errorf("it ended at %s, and another one may lead since %s", at, free)
					}
				default:
					if ends {
						t.Errorf("it leads on without its Lease, after %s", silence)
					}
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}
