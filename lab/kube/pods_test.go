package kube

import (
	"context"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podSpec is a node as we run it: an init container, a native sidecar, and seid.
func podSpec(image string) corev1.PodSpec {
	always := corev1.ContainerRestartPolicyAlways
	return corev1.PodSpec{
		InitContainers: []corev1.Container{
			{Name: "init", Image: "init:v1"},
			{Name: "sidecar", Image: "sidecar:v1", RestartPolicy: &always},
		},
		Containers: []corev1.Container{{Name: "seid", Image: image}},
	}
}

func createPod(t *testing.T, ns, name string, spec corev1.PodSpec, annotations map[string]string) *corev1.Pod {
	t.Helper()
	pod, err := client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       spec,
	}, metav1.CreateOptions{})
	must(t, err)
	return pod
}

func waitPod(t *testing.T, ns, name, what string, good func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	return eventually(t, name+" "+what, func(ctx context.Context) (*corev1.Pod, error) {
		return client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
	}, good)
}

func waitGonePod(t *testing.T, ns, name string) {
	t.Helper()
	eventually(t, name+" gone", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}, func(gone bool) bool { return gone })
}

func patchPod(t *testing.T, ns, patch string) {
	t.Helper()
	_, err := client.CoreV1().Pods(ns).Patch(t.Context(), "pod", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func ready(pod *corev1.Pod) bool {
	return condition(pod, corev1.PodReady).Status == corev1.ConditionTrue
}

func status(pod *corev1.Pod, name string) corev1.ContainerStatus {
	for _, s := range append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...) {
		if s.Name == name {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

func waitingFor(pod *corev1.Pod, name string) string {
	if w := status(pod, name).State.Waiting; w != nil {
		return w.Reason
	}
	return ""
}

// fence returns when the stand-in kubelets have started and removed a pod that was
// created after everything before it. What they would do by then, they have done.
func fence(t *testing.T, ns string) {
	t.Helper()
	createPod(t, ns, "fence", podSpec("seid:v1"), nil)
	waitPod(t, ns, "fence", "ready", ready)
	must(t, client.CoreV1().Pods(ns).Delete(t.Context(), "fence", metav1.DeleteOptions{}))
	waitGonePod(t, ns, "fence")
}

func TestPodRuns(t *testing.T) {
	ns := namespace(t)
	createPod(t, ns, "pod", podSpec("registry.example/seid:v1"), nil)
	pod := waitPod(t, ns, "pod", "ready", ready)
	if pod.Status.Phase != corev1.PodRunning || pod.Status.StartTime == nil || pod.Status.ObservedGeneration != pod.Generation {
		t.Errorf("status: %+v", pod.Status)
	}
	if done := status(pod, "init"); done.State.Terminated == nil || done.State.Terminated.ExitCode != 0 || !done.Ready {
		t.Errorf("init: %+v", done)
	}
	for _, name := range []string{"sidecar", "seid"} {
		s := status(pod, name)
		if s.State.Running == nil || !s.Ready || s.Started == nil || !*s.Started || !strings.HasPrefix(s.ContainerID, "containerd://") {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if s := status(pod, "seid"); s.Image != "registry.example/seid:v1" || !strings.HasPrefix(s.ImageID, "registry.example/seid@sha256:") {
		t.Errorf("seid: %+v", s)
	}
}

func TestImageThatCannotBePulled(t *testing.T) {
	with := func(change func(*corev1.PodSpec)) corev1.PodSpec {
		spec := podSpec("seid:v1")
		change(&spec)
		return spec
	}
	for name, test := range map[string]struct {
		spec        corev1.PodSpec
		fails       string
		sidecarRuns bool
		initialized corev1.ConditionStatus
	}{
		"main":    {with(func(s *corev1.PodSpec) { s.Containers[0].Image = "seid:pull-fails" }), "seid", true, corev1.ConditionTrue},
		"init":    {with(func(s *corev1.PodSpec) { s.InitContainers[0].Image = "init:pull-fails" }), "init", false, corev1.ConditionFalse},
		"sidecar": {with(func(s *corev1.PodSpec) { s.InitContainers[1].Image = "sidecar:pull-fails" }), "sidecar", false, corev1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			ns := namespace(t)
			createPod(t, ns, "pod", test.spec, nil)
			pod := waitPod(t, ns, "pod", "cannot be pulled", func(p *corev1.Pod) bool { return waitingFor(p, test.fails) == "ImagePullBackOff" })
			if pod.Status.Phase != corev1.PodPending || ready(pod) {
				t.Errorf("phase %s, ready %t", pod.Status.Phase, ready(pod))
			}
			if message := status(pod, test.fails).State.Waiting.Message; !strings.Contains(message, "ErrImagePull") || !strings.Contains(message, ":pull-fails") {
				t.Errorf("message %q", message)
			}
			if runs := status(pod, "sidecar").State.Running != nil; runs != test.sidecarRuns {
				t.Errorf("sidecar: %+v", status(pod, "sidecar"))
			}
			if test.fails != "seid" && waitingFor(pod, "seid") != "PodInitializing" {
				t.Errorf("seid: %+v", status(pod, "seid"))
			}
			if got := condition(pod, corev1.PodInitialized).Status; got != test.initialized {
				t.Errorf("initialized: %s", got)
			}
			// A corrected image is pulled.
			list := "containers"
			if test.fails != "seid" {
				list = "initContainers"
			}
			patchPod(t, ns, `{"spec":{"`+list+`":[{"name":"`+test.fails+`","image":"good:v2"}]}}`)
			pod = waitPod(t, ns, "pod", "ready", ready)
			if s := status(pod, test.fails); s.Image != "good:v2" || s.RestartCount != 0 {
				t.Errorf("%s: %+v", test.fails, s)
			}
		})
	}
}

func TestContainerThatCrashes(t *testing.T) {
	for tag, want := range map[string]corev1.ContainerStateTerminated{
		"crash-loops": {ExitCode: 1, Reason: "Error"},
		"oom-killed":  {ExitCode: 137, Reason: "OOMKilled"},
	} {
		t.Run(tag, func(t *testing.T) {
			ns := namespace(t)
			createPod(t, ns, "pod", podSpec("seid:"+tag), nil)
			pod := waitPod(t, ns, "pod", "crashes again", func(p *corev1.Pod) bool {
				return waitingFor(p, "seid") == "CrashLoopBackOff" && status(p, "seid").RestartCount >= 2
			})
			last := status(pod, "seid").LastTerminationState.Terminated
			if last == nil || last.ExitCode != want.ExitCode || last.Reason != want.Reason {
				t.Errorf("last: %+v", last)
			}
			if pod.Status.Phase != corev1.PodRunning || ready(pod) || !status(pod, "sidecar").Ready {
				t.Errorf("status: %+v", pod.Status)
			}
			restarts := status(pod, "seid").RestartCount
			patchPod(t, ns, `{"spec":{"containers":[{"name":"seid","image":"seid:v2"}]}}`)
			pod = waitPod(t, ns, "pod", "ready", ready)
			if s := status(pod, "seid"); s.RestartCount <= restarts || s.LastTerminationState.Terminated == nil {
				t.Errorf("seid: %+v", s)
			}
		})
	}
}

func TestSlowTerminationEndsWhenTheTestSaysSo(t *testing.T) {
	ns := namespace(t)
	createPod(t, ns, "pod", podSpec("seid:v1"), map[string]string{"lab.sei.io/termination": "slow"})
	waitPod(t, ns, "pod", "ready", ready)
	grace := int64(1)
	must(t, client.CoreV1().Pods(ns).Delete(t.Context(), "pod", metav1.DeleteOptions{GracePeriodSeconds: &grace}))
	fence(t, ns)
	pod, err := client.CoreV1().Pods(ns).Get(t.Context(), "pod", metav1.GetOptions{})
	must(t, err)
	if pod.DeletionTimestamp == nil || status(pod, "seid").State.Running == nil {
		t.Errorf("status: %+v", pod.Status)
	}
	patchPod(t, ns, `{"metadata":{"annotations":{"lab.sei.io/termination":null}}}`)
	waitGonePod(t, ns, "pod")
}

func TestPodThatIsNotReadyBecomesReady(t *testing.T) {
	ns := namespace(t)
	createPod(t, ns, "pod", podSpec("seid:v1"), map[string]string{"lab.sei.io/readiness": "never"})
	runs := func(p *corev1.Pod) bool { return status(p, "seid").State.Running != nil }
	pod := waitPod(t, ns, "pod", "runs", runs)
	unready := func() {
		t.Helper()
		if c := condition(pod, corev1.PodReady); c.Status != corev1.ConditionFalse || c.Reason != "ContainersNotReady" || !strings.Contains(c.Message, "[seid]") {
			t.Errorf("ready: %+v", c)
		}
		if pod.Status.Phase != corev1.PodRunning || !status(pod, "sidecar").Ready || status(pod, "seid").Ready {
			t.Errorf("status: %+v", pod.Status)
		}
	}
	unready()
	patchPod(t, ns, `{"metadata":{"annotations":{"lab.sei.io/readiness":null}}}`)
	pod = waitPod(t, ns, "pod", "ready", ready)
	if c := condition(pod, corev1.PodReady); c.Reason != "" || c.Message != "" {
		t.Errorf("ready: %+v", c)
	}
	patchPod(t, ns, `{"metadata":{"annotations":{"lab.sei.io/readiness":"never"}}}`)
	pod = waitPod(t, ns, "pod", "unready", func(p *corev1.Pod) bool { return !ready(p) })
	unready()
	if s := status(pod, "seid"); s.RestartCount != 0 {
		t.Errorf("restarted: %+v", s)
	}
}

func TestChangedImageRestartsTheContainer(t *testing.T) {
	ns := namespace(t)
	createPod(t, ns, "pod", podSpec("seid:v1"), nil)
	before := waitPod(t, ns, "pod", "ready", ready)
	patchPod(t, ns, `{"spec":{"containers":[{"name":"seid","image":"seid:v2"}]}}`)
	after := waitPod(t, ns, "pod", "runs v2", func(p *corev1.Pod) bool { return status(p, "seid").Image == "seid:v2" && ready(p) })
	was, is := status(before, "seid"), status(after, "seid")
	if is.RestartCount != 1 || is.ContainerID == was.ContainerID || is.ImageID == was.ImageID || is.LastTerminationState.Terminated == nil {
		t.Errorf("was %+v, is %+v", was, is)
	}
	if got := status(after, "sidecar"); got.RestartCount != 0 || got.ContainerID != status(before, "sidecar").ContainerID {
		t.Errorf("sidecar: %+v", got)
	}
	if after.Status.PodIP != before.Status.PodIP {
		t.Errorf("address %s, was %s", after.Status.PodIP, before.Status.PodIP)
	}
}

func TestJobs(t *testing.T) {
	ns := namespace(t)
	once := int32(0)
	for image, want := range map[string]batchv1.JobConditionType{"work:v1": batchv1.JobComplete, "work:crash-loops": batchv1.JobFailed} {
		job, err := client.BatchV1().Jobs(ns).Create(t.Context(), &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "job-"},
			Spec: batchv1.JobSpec{
				BackoffLimit: &once,
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers:    []corev1.Container{{Name: "work", Image: image}},
				}},
			},
		}, metav1.CreateOptions{})
		must(t, err)
		eventually(t, string(want), func(ctx context.Context) (*batchv1.Job, error) {
			return client.BatchV1().Jobs(ns).Get(ctx, job.Name, metav1.GetOptions{})
		}, func(j *batchv1.Job) bool {
			for _, c := range j.Status.Conditions {
				if c.Type == want && c.Status == corev1.ConditionTrue {
					return true
				}
			}
			return false
		})
	}
}
