package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// waits is a container that waits.
func waits(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: "seid", Image: "registry.example.com/seid:v7",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}
}

// after is a container that waits after it ended.
func after(status corev1.ContainerStatus, reason string, code int32) corev1.ContainerStatus {
	status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code}
	return status
}

func withContainers(statuses ...corev1.ContainerStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses = statuses }
}

func withInitContainers(statuses ...corev1.ContainerStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.InitContainerStatuses = statuses }
}

func withConditions(conditions ...corev1.PodCondition) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Conditions = conditions }
}

func endsAt(when time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(when)) }
}

func TestWhatKeepsAPodFromRunning(t *testing.T) {
	t.Parallel()
	unschedulable := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no room",
	}
	scheduled, gated, otherwise := unschedulable, unschedulable, unschedulable
	scheduled.Status, gated.Reason, otherwise.Type = corev1.ConditionTrue, corev1.PodReasonSchedulingGated, corev1.ContainersReady
	tests := map[string]struct {
		pod  edit
		want v1alpha1.ConditionReason
		says []string
	}{
		"there is no pod":         {pod: noPod},
		"nothing":                 {pod: hasPod()},
		"it is ending":            {pod: hasPod(endsAt(now.Add(-time.Second)))},
		"it ends a while ago now": {pod: hasPod(endsAt(now.Add(-30*time.Second + 1)))},
		"it was to be gone half a minute ago": {
			pod:  hasPod(endsAt(now.Add(-30*time.Second)), withConditions(unschedulable)),
			want: v1alpha1.ReasonPodUnreachable, says: []string{"machine-1", "node-0"},
		},
		"no machine takes it": {
			pod:  hasPod(withConditions(scheduled, unschedulable), withContainers(waits("ErrImagePull", ""))),
			want: v1alpha1.ReasonUnschedulable, says: []string{"node-0", "no room"},
		},
		"a machine took it":                    {pod: hasPod(withConditions(scheduled))},
		"it waits for a scheduling gate":       {pod: hasPod(withConditions(gated))},
		"another condition has such a reason":  {pod: hasPod(withConditions(otherwise))},
		"a container runs":                     {pod: hasPod(withContainers(corev1.ContainerStatus{Name: "seid"}))},
		"a container is only just being made":  {pod: hasPod(withContainers(waits("ContainerCreating", "")))},
		"a container waits for its forerunner": {pod: hasPod(withContainers(waits("PodInitializing", "")))},
		"one of several containers": {
			pod:  hasPod(withContainers(corev1.ContainerStatus{Name: "proxy"}, waits("ImagePullBackOff", ""))),
			want: v1alpha1.ReasonImagePullBackOff,
		},
		"an init container before the others": {
			pod:  hasPod(withInitContainers(waits("ErrImagePull", "")), withContainers(waits("CrashLoopBackOff", ""))),
			want: v1alpha1.ReasonImagePullBackOff,
		},
		"memory": {
			pod:  hasPod(withContainers(after(waits("CrashLoopBackOff", ""), "OOMKilled", 137))),
			want: v1alpha1.ReasonOOMKilled, says: []string{"seid", "node-0", "memory"},
		},
		"a crash": {
			pod:  hasPod(withContainers(after(waits("CrashLoopBackOff", "back-off 5m"), "Error", 2))),
			want: v1alpha1.ReasonCrashLoopBackOff, says: []string{"seid", "node-0", "exit code 2"},
		},
		"a container that nobody says anything of": {
			pod:  hasPod(withContainers(waits("RunContainerError", ""))),
			want: v1alpha1.ReasonCrashLoopBackOff, says: []string{"stay up: RunContainerError."},
		},
		"a container that never started": {
			pod:  hasPod(withContainers(waits("CreateContainerConfigError", `secret "identity" not found`))),
			want: v1alpha1.ReasonCrashLoopBackOff, says: []string{"seid", "node-0", `secret "identity" not found`},
		},
	}
	for _, reason := range []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"} {
		tests["an image: "+reason] = struct {
			pod  edit
			want v1alpha1.ConditionReason
			says []string
		}{
			pod:  hasPod(withContainers(after(waits(reason, ""), "OOMKilled", 137))),
			want: v1alpha1.ReasonImagePullBackOff, says: []string{"registry.example.com/seid:v7", "seid", "node-0"},
		}
	}
	for _, reason := range []string{"CrashLoopBackOff", "RunContainerError", "CreateContainerError", "CreateContainerConfigError"} {
		tests["a container: "+reason] = struct {
			pod  edit
			want v1alpha1.ConditionReason
			says []string
		}{pod: hasPod(withContainers(waits(reason, "why"))), want: v1alpha1.ReasonCrashLoopBackOff, says: []string{"why"}}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := fresh(test.pod)
			reason, message := PodTrouble(in.Seen.Pod, in.Seen.Now)
			if reason != test.want {
				t.Fatalf("the reason is %q (%s), want %q", reason, message, test.want)
			}
			if reason == "" && message == "" {
				return
			}
			saysAll(t, message, test.says)
		})
	}
}

func TestHowLongAPodMayLookForAMachine(t *testing.T) {
	t.Parallel()
	looks := func(since time.Duration) edit {
		return hasPod(withConditions(corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no room",
			LastTransitionTime: metav1.NewTime(now.Add(-since)),
		}))
	}
	for name, test := range map[string]struct {
		pod  edit
		want time.Duration
		// trouble: it is told.
		trouble bool
	}{
		"there is no pod":        {pod: noPod},
		"it found one":           {pod: hasPod()},
		"it has only just begun": {pod: looks(time.Second), want: 9 * time.Second},
		"it is almost time":      {pod: looks(10*time.Second - 1), want: 1},
		"it is time":             {pod: looks(10 * time.Second), trouble: true},
		"it looks for long":      {pod: looks(time.Hour), trouble: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := fresh(test.pod).Seen.Pod
			if got := UnschedulableIn(pod, now); got != test.want {
				t.Errorf("it takes %s, want %s", got, test.want)
			}
			if reason, _ := PodTrouble(pod, now); (reason == v1alpha1.ReasonUnschedulable) != test.trouble {
				t.Errorf("the trouble is %q", reason)
			}
		})
	}
}

func TestHowLongAPodMayTakeToEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pod  edit
		want time.Duration
	}{
		"there is no pod":         {pod: noPod},
		"it does not end":         {pod: hasPod()},
		"it has time left to end": {pod: hasPod(endsAt(now.Add(time.Minute))), want: 90 * time.Second},
		"it is overdue":           {pod: hasPod(endsAt(now.Add(-10 * time.Second))), want: 20 * time.Second},
		"it is out of reach":      {pod: hasPod(endsAt(now.Add(-30 * time.Second)))},
		"it is long out of reach": {pod: hasPod(endsAt(now.Add(-time.Hour)))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := UnreachableIn(fresh(test.pod).Seen.Pod, now); got != test.want {
				t.Errorf("it takes %s, want %s", got, test.want)
			}
		})
	}
}

func TestImageThatRuns(t *testing.T) {
	t.Parallel()
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, test := range map[string]struct {
		pod  edit
		name string
		want string
	}{
		"nothing has started":        {pod: hasPod(), name: "seid"},
		"another container runs":     {pod: hasPod(withContainers(corev1.ContainerStatus{Name: "x", State: runs})), name: "seid"},
		"another sidecar runs":       {pod: hasPod(withInitContainers(corev1.ContainerStatus{Name: "x", State: runs})), name: "sei-sidecar"},
		"it has not started":         {pod: hasPod(withContainers(corev1.ContainerStatus{Name: "seid"})), name: "seid"},
		"the sidecar has not either": {pod: hasPod(withInitContainers(corev1.ContainerStatus{Name: "sei-sidecar"})), name: "sei-sidecar"},
		"it runs":                    {pod: hasPod(withContainers(corev1.ContainerStatus{Name: "seid", Image: "sha256:0", State: runs})), name: "seid", want: "registry.example.com/seid:v6"},
		"the sidecar runs":           {pod: hasPod(withInitContainers(corev1.ContainerStatus{Name: "sei-sidecar", State: runs})), name: "sei-sidecar", want: "registry.example.com/sidecar:v1"},
		"one that the pod lacks":     {pod: hasPod(withContainers(corev1.ContainerStatus{Name: "x", State: runs})), name: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := RunningImage(running(test.pod).Seen.Pod, test.name); got != test.want {
				t.Errorf("it runs %q, want %q", got, test.want)
			}
		})
	}
}

func TestAPodIsReadyWhenTheKubeletSaysSo(t *testing.T) {
	t.Parallel()
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	notReady := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse}
	other := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}
	for name, test := range map[string]struct {
		pod  edit
		want bool
	}{
		"there is no pod":       {pod: noPod},
		"it says ready":         {pod: hasPod(withConditions(other, ready)), want: true},
		"it says not ready":     {pod: hasPod(withConditions(other, notReady))},
		"it says nothing of it": {pod: hasPod(withConditions(other))},
		"it is ending":          {pod: hasPod(withConditions(ready), endingPod)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := PodReady(fresh(test.pod).Seen.Pod); got != test.want {
				t.Errorf("ready is %t", got)
			}
		})
	}
}

func TestAPodHoldsItsVolumeUntilItWasSeenToEnd(t *testing.T) {
	t.Parallel()
	for phase, want := range map[corev1.PodPhase]bool{
		corev1.PodPending: true, corev1.PodRunning: true, corev1.PodUnknown: true, "": true,
		corev1.PodSucceeded: false, corev1.PodFailed: false,
	} {
		pod := newPod(&Input{})
		pod.Status.Phase = phase
		if got := PodAlive(pod); got != want {
			t.Errorf("a pod in phase %q: alive is %t", phase, got)
		}
	}
}
