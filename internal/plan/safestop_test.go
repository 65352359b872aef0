package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// unsafe says that seid must not be stopped at this moment.
func unsafe(why string) edit {
	return sidecar(func(s *Sidecar) { s.Status.Seid.SafeToStop, s.Status.Seid.UnsafeBecause = false, why })
}

// lostAgo says that the sidecar answered until this long ago.
func lostAgo(ago time.Duration) edit {
	return sidecar(func(s *Sidecar) { *s = Sidecar{Lost: now.Add(-ago)} })
}

// supervisorGone says that the sidecar answers, and that seid's parent has not for this
// long: its container waits for its next start, for example.
func supervisorGone(ago time.Duration) edit {
	return sidecar(func(s *Sidecar) { s.Status.Seid = api.Seid{State: api.SeidUnknown, Since: now.Add(-ago)} })
}

// seidContainer says what the kubelet told of seid's container.
func seidContainer(state corev1.ContainerState) edit {
	return onPod(func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "another", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: render.ContainerSeid, State: state},
		}
	})
}

var (
	crashLoops = seidContainer(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})
	hasEnded   = seidContainer(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2}})
	hasStarted = seidContainer(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
)

func skipsSafeStop(value string) edit { return annotated(v1alpha1.AnnotationSkipSafeStop, value) }

// wantsStop says since when a stop is wanted.
func wantsStop(ago time.Duration) edit {
	return func(in *Input) { in.Node.Status.StopRequestedTime = new(metav1.NewTime(now.Add(-ago))) }
}

func TestSafeStop(t *testing.T) {
	t.Parallel()
	waits := func(left time.Duration, says ...string) wantGate {
		return wantGate{reason: v1alpha1.ReasonWaitingForSafeStop, after: left, says: says}
	}
	for name, test := range map[string]struct {
		in     Input
		ago    time.Duration
		gate   wantGate
		forced bool
	}{
		"it is safe":                         {in: running()},
		"it is safe, and nobody cares":       {in: running(skipsSafeStop("true"))},
		"nobody knows":                       {in: running(unsafe("x"), sidecar(func(s *Sidecar) { s.Connected = false }))},
		"it was heard of a moment ago":       {in: running(lostAgo(time.Second)), gate: waits(59*time.Second, "does not answer yet")},
		"it was heard of a while ago":        {in: running(lostAgo(time.Minute))},
		"it was heard of, almost in time":    {in: running(lostAgo(time.Minute - 1)), gate: waits(1)},
		"nobody has listened yet":            {in: running(sidecar(func(s *Sidecar) { *s = Sidecar{New: true} })), gate: waits(time.Minute)},
		"nobody has listened, nobody cares":  {in: running(sidecar(func(s *Sidecar) { *s = Sidecar{New: true} }), skipsSafeStop("true"))},
		"there is no pod":                    {in: running(unsafe("x"), func(in *Input) { in.Seen.Pod = nil })},
		"the pod is ending already":          {in: running(unsafe("x"), onPod(endingPod))},
		"it is not safe":                     {in: running(unsafe("state sync")), gate: waits(30*time.Minute, "(state sync)", "30m0s", "sei.io/skip-safe-stop=true")},
		"it is not safe, nobody says why":    {in: running(unsafe("")), gate: waits(30*time.Minute, "does not say why")},
		"it is not safe, and nobody cares":   {in: running(unsafe("x"), skipsSafeStop("true")), forced: true},
		"it is not safe, and somebody cares": {in: running(unsafe("x"), skipsSafeStop("false")), gate: waits(30 * time.Minute)},
		"it has not been safe for a while":   {in: running(unsafe("x")), ago: 30*time.Minute - 1, gate: waits(1)},
		"it has not been safe for too long":  {in: running(unsafe("x")), ago: 30 * time.Minute, forced: true},

		"it crash-loops, and waits for its next start":                {in: running(supervisorGone(0), crashLoops)},
		"it crashed just now":                                         {in: running(supervisorGone(0), hasEnded)},
		"it crashed, and the whole pod with it":                       {in: running(lostAgo(time.Second), crashLoops)},
		"it crash-loops, and the operator has just started":           {in: running(sidecar(func(s *Sidecar) { *s = Sidecar{New: true} }), crashLoops)},
		"it crash-loops, and has started again":                       {in: running(unsafe("Booting"), hasStarted), gate: waits(30*time.Minute, "(Booting)")},
		"it has started again, the kubelet is late":                   {in: running(unsafe("Booting"), crashLoops), gate: waits(30*time.Minute, "(Booting)")},
		"its parent is silent in a container that runs":               {in: running(supervisorGone(10*time.Second), hasStarted), gate: waits(50*time.Second, "supervisor", "does not answer")},
		"its parent is silent, the kubelet says nothing":              {in: running(supervisorGone(10 * time.Second)), gate: waits(50 * time.Second)},
		"its parent has been silent for too long":                     {in: running(supervisorGone(time.Minute), hasStarted)},
		"its parent is silent, and the annotation skips the wait":     {in: running(supervisorGone(0), hasStarted, skipsSafeStop("true"))},
		"its parent has been silent since tomorrow, by another clock": {in: running(supervisorGone(-24*time.Hour), hasStarted), ago: time.Minute},
		"an older sidecar does not say since when": {
			in: running(hasStarted, sidecar(func(s *Sidecar) { s.Status.Seid = api.Seid{State: api.SeidUnknown} })), ago: 20 * time.Second, gate: waits(40 * time.Second),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate, forced := SafeStop(test.in, now.Add(-test.ago))
			test.gate.check(t, gate)
			if forced != test.forced {
				t.Errorf("forced is %t", forced)
			}
		})
	}
}

func TestAPauseAndADeletionWaitForASafeMoment(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in   Input
		want int32
		gate wantGate
	}{
		"a pause": {
			in: running(paused, unsafe("x")), want: 1, gate: wantGate{reason: v1alpha1.ReasonWaitingForSafeStop, after: 30 * time.Minute},
		},
		"a pause that has waited": {
			in: running(paused, unsafe("x"), wantsStop(20*time.Minute)), want: 1,
			gate: wantGate{reason: v1alpha1.ReasonWaitingForSafeStop, after: 10 * time.Minute},
		},
		"a pause that has waited long enough": {
			in: running(paused, unsafe("x"), wantsStop(time.Hour)), gate: wantGate{reason: v1alpha1.ReasonPaused},
		},
		"a deletion": {
			in: running(deleted, unsafe("x")), want: 1, gate: wantGate{reason: v1alpha1.ReasonWaitingForSafeStop, after: 30 * time.Minute},
		},
		"a pause that stopped the pod stays one": {
			in: running(paused, unsafe("x"), hasSet(scaled(0))), gate: wantGate{reason: v1alpha1.ReasonPaused},
		},
		"a pause of a node that crash-loops":    {in: running(paused, supervisorGone(0), crashLoops), gate: wantGate{reason: v1alpha1.ReasonPaused}},
		"a deletion of a node that crash-loops": {in: running(deleted, supervisorGone(0), crashLoops), gate: wantGate{reason: v1alpha1.ReasonTerminating}},
		"neither":                               {in: running(unsafe("x")), want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replicas, gate := Replicas(test.in)
			if replicas != test.want {
				t.Errorf("%d replicas, want %d", replicas, test.want)
			}
			test.gate.check(t, gate)
		})
	}
}
