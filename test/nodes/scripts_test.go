package nodes_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/client"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/nodes"
)

func TestATornApproval(t *testing.T) {
	r := newRig(t)
	n, c := r.up()
	do(t, c, tasks.TypeMarkReady, `{}`)
	n.Unapprove()
	got := status(t, c)
	if got.Approved || got.Held || got.Seid.State != api.SeidWaiting ||
		!slices.ContainsFunc(got.Problems, func(p api.Problem) bool { return p.Reason == consent.ReasonApprovalUnreadable }) {
		t.Errorf("it finds %+v", got)
	}
	do(t, c, tasks.TypeMarkReady, `{}`)
	if got := status(t, c); !got.Approved || got.Seid.State != api.SeidRunning {
		t.Errorf("approved again it is %+v", got)
	}
}

func TestATaskThatIsBlockedOrDelayed(t *testing.T) {
	r := newRig(t)
	n, c := r.up()
	release := n.Block(tasks.TypeMarkReady)
	n.Delay(tasks.TypeMarkReady, time.Millisecond)
	id := uuid.New()
	submit(t, c, id, tasks.TypeMarkReady, `{}`)
	_, err := n.WaitCall(t.Context(), tasks.TypeMarkReady)
	must(t, err)
	if got, err := c.Get(t.Context(), id); err != nil || got.Status != api.TaskRunning || status(t, c).Approved {
		t.Errorf("it is %+v, %v", got, err)
	}
	release()
	if got := wait(t, c, id); got.Status != api.TaskCompleted {
		t.Errorf("released it is %+v", got)
	}
}

func TestABlockedHoldDoesNotOutliveItsPods(t *testing.T) {
	r := newRig(t)
	n, c := r.up()
	n.Block(tasks.TypeMarkNotReady)
	submit(t, c, uuid.New(), tasks.TypeMarkNotReady, `{}`)
	_, err := n.WaitCall(t.Context(), tasks.TypeMarkNotReady)
	must(t, err)
	pod := &corev1.Pod{}
	must(t, r.person.Get(t.Context(), r.key("a-0"), pod))
	must(t, r.person.Delete(t.Context(), pod))
	// The next pod waits for the hold, and the test ends before it comes.
	cluster.Eventually(t, r.person, r.key("a-0"), "an address", func(p *corev1.Pod) bool {
		return p.UID != pod.UID && p.Status.PodIP != ""
	})
	if got := outcomes(n); len(got) != 1 || got[0] != "mark-not-ready "+nodes.Running {
		t.Errorf("the ledger says %v", got)
	}
}

func TestAWedgedSidecarAnswersNothing(t *testing.T) {
	r := newRig(t)
	n, c := r.up()
	events := follow(t, c)
	unwedge := n.Wedge()
	n.Hold("while nobody is told")
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Status(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wedged sidecar answered: %v", err)
	}
	select {
	case event := <-events:
		t.Errorf("a wedged sidecar told of %+v", event)
	default:
	}
	unwedge()
	if event := <-events; event.Kind != api.EventHold {
		t.Errorf("afterwards it told of %+v", event)
	}
	if !status(t, c).Held {
		t.Error("what happened meanwhile is lost")
	}
}

func TestABlackHoleAndRefusals(t *testing.T) {
	r := newRig(t)
	n, c := r.up()
	undo := n.BlackHole()
	if _, err := c.Status(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a black hole answered: %v", err)
	}
	undo()
	status(t, c)
	accept := n.Refuse(http.StatusForbidden, "Forbidden")
	if _, err := c.Status(t.Context()); client.Reason(err) != "Forbidden" {
		t.Errorf("it answered: %v", err)
	}
	accept()
	status(t, c)
}

func TestARestartWaitsUntilItIsSafe(t *testing.T) {
	r := newRig(t)
	n, c := r.up()
	do(t, c, tasks.TypeMarkReady, `{}`)
	events := follow(t, c)
	n.SetSeid(func(s *api.Seid) { s.SafeToStop, s.UnsafeBecause = false, "StateSync" })
	if event := <-events; event.Kind != api.EventSeid || !strings.Contains(string(event.Data), "StateSync") {
		t.Errorf("the event is %+v", event)
	}
	id := uuid.New()
	submit(t, c, id, tasks.TypeRestartSeid, `{}`)
	_, err := n.WaitCall(t.Context(), tasks.TypeRestartSeid)
	must(t, err)
	if got, err := c.Get(t.Context(), id); err != nil || got.Status != api.TaskRunning {
		t.Errorf("it did not wait: %+v, %v", got, err)
	}
	n.SetSeid(nil)
	if got := wait(t, c, id); got.Status != api.TaskCompleted {
		t.Errorf("it is %+v", got)
	}
}

func TestAnUpgradeHaltsUntilThereIsAnotherImage(t *testing.T) {
	r := newRig(t)
	n, c := r.up()
	do(t, c, tasks.TypeMarkReady, `{}`)
	n.SetUpgrade(api.Upgrade{Name: "v2", Height: 10, Halted: true})
	if got := status(t, c); !got.Upgrade.Halted || got.Seid.State != api.SeidParked || got.Seid.RPC {
		t.Errorf("a halted node is %+v", got)
	}
	if got := do(t, c, tasks.TypeRestartSeid, `{}`); got.Reason != tasks.ReasonUpgradeNeeded {
		t.Errorf("the same seid goes on: %+v", got)
	}
	set := &appsv1.StatefulSet{}
	must(t, r.person.Get(t.Context(), r.key("a"), set))
	set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	set.Spec.Template.Spec.Containers[0].Image = "seid:2"
	must(t, r.person.Update(t.Context(), set))
	cluster.Eventually(t, r.person, r.key("a"), "the new template", func(s *appsv1.StatefulSet) bool {
		return s.Status.ObservedGeneration == set.Generation
	})
	if got := status(t, r.replacePod()); got.Upgrade.Halted || got.Seid.State != api.SeidRunning {
		t.Errorf("the new image is %+v", got)
	}
}
