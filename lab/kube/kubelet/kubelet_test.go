package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRemovable(t *testing.T) {
	now := metav1.Now()
	none, some := int64(0), int64(30)
	stopped := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: Stopped, Status: corev1.ConditionTrue}}
	for name, test := range map[string]struct {
		deleted    *metav1.Time
		grace      *int64
		conditions []corev1.PodCondition
		want       bool
	}{
		"alive":                         {nil, nil, nil, false},
		"stopped but not deleted":       {nil, nil, stopped, false},
		"deleted, still running":        {&now, &some, stopped[:1], false},
		"deleted and stopped":           {&now, &some, stopped, true},
		"removed, a finalizer holds it": {&now, &none, stopped, false},
	} {
		pod := &corev1.Pod{}
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, pod.Status.Conditions = test.deleted, test.grace, test.conditions
		if got := removable(pod); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
