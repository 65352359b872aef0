package task

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
)

// tasksOf is an API server that has SeiNodeTasks, or does not answer.
type tasksOf struct {
	client.Reader

	tasks []v1alpha1.SeiNodeTask
	err   error
}

func (t *tasksOf) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*v1alpha1.SeiNodeTaskList).Items = t.tasks
	return t.err
}

// No pod is replaced under a SeiNodeTask, also when the cache does not know of it yet,
// and that time does not count for the plan.
func TestATaskComesFirst(t *testing.T) {
	now := replacing(nil).Seen.Now
	running := v1alpha1.SeiNodeTask{
		ObjectMeta: metav1.ObjectMeta{Name: "restart"},
		Spec:       v1alpha1.SeiNodeTaskSpec{Kind: v1alpha1.TaskKindRestartSeid},
		Status:     v1alpha1.SeiNodeTaskStatus{Phase: v1alpha1.TaskPhaseRunning, ExecutionStartTime: new(metav1.NewTime(now))},
	}
	late := *running.DeepCopy()
	late.Status.ExecutionStartTime = new(metav1.NewTime(now.Add(-time.Hour)))
	hiccup := errors.New("hiccup")
	for name, test := range map[string]struct {
		seen    *plan.RunningTask
		live    *tasksOf
		waits   bool
		err     error
		deletes int
	}{
		"no task":                         {nil, &tasksOf{}, false, nil, 1},
		"a task in the cache":             {&plan.RunningTask{Name: "restart", Until: now.Add(time.Minute)}, &tasksOf{}, true, nil, 0},
		"a task that is in no cache yet":  {nil, &tasksOf{tasks: []v1alpha1.SeiNodeTask{running}}, true, nil, 0},
		"a task whose time is up":         {nil, &tasksOf{tasks: []v1alpha1.SeiNodeTask{late}}, false, nil, 1},
		"an API server that does nothing": {nil, &tasksOf{err: hiccup}, false, hiccup, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var writes []kube.Write
			s := replacing(&writes)
			s.Seen.Task = test.seen
			s.Kube = kube.New(kube.Options{Live: test.live, Around: func(_ context.Context, write kube.Write, _ func(context.Context) error) error {
				writes = append(writes, write)
				return nil
			}})
			err := Execute(t.Context(), s)
			task := s.Node.Status.Plan.Tasks[0]
			if !errors.Is(err, test.err) || len(writes) != test.deletes {
				t.Errorf("it wrote %v, %v", writes, err)
			}
			if stands := task.Status == v1alpha1.PlanTaskPending && task.StartTime == nil && strings.Contains(task.Message, "SeiNodeTask restart"); stands != test.waits {
				t.Errorf("the task is %+v", task)
			}
			if test.waits && s.Requeue() <= 0 {
				t.Error("nobody looks again when the time of the task is up")
			}
		})
	}
}
