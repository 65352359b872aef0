package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// unsafe says that seid must not be stopped at this moment.
func unsafe(why string) edit {
	return sidecar(func(s *Sidecar) { s.Status.Seid.SafeToStop, s.Status.Seid.UnsafeBecause = false, why })
}

// lostAgo says that the sidecar answered until this long ago.
func lostAgo(ago time.Duration) edit {
	return sidecar(func(s *Sidecar) { *s = Sidecar{Lost: now.Add(-ago)} })
}

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
		"neither": {in: running(unsafe("x")), want: 1},
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
