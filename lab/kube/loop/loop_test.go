package loop

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/tools/cache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFailuresAreTriedAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	q := NewQueue()
	q.Add(cache.NewObjectName("namespace", "name"))
	calls, failures := 0, 0
	q.Run(ctx, 1, func(_ context.Context, name cache.ObjectName) error {
		if name.String() != "namespace/name" {
			t.Errorf("name %s", name)
		}
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		cancel()
		return nil
	}, func(cache.ObjectName, error) { failures++ })
	if calls != 3 || failures != 2 {
		t.Errorf("%d calls, %d failures", calls, failures)
	}
}
