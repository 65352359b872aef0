package tasks

import (
	"testing"

	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// TestAStopThatIsProvenStaysOne: a start that was decided before may still be on its way
// to the supervisor when no seid is found. Whoever was told that none lives must not see
// one come up after that.
func TestAStopThatIsProvenStaysOne(t *testing.T) {
	w := newWorld(t)
	w.supervise()
	l := w.live(nil)
	decided, err := w.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.hold()
	done[StopSeidResult](l, TypeStopSeid, "")
	late := supervisor.StartRequest{AsOf: &decided.Stops}
	if state, err := w.client.Start(t.Context(), late); refusal(err) != supervisor.ReasonSuperseded {
		t.Errorf("it was started after all: %+v, %v", state, err)
	}
}
