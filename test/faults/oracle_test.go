package faults

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/controller/seinode"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/internal/scope"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

// reconciler is a reconciler that is a function.
type reconciler func(context.Context, reconcile.Request) (reconcile.Result, error)

func (f reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return f(ctx, request)
}

// afterARestart does something once in each life that finds a node which was there
// before it, until it succeeds.
func afterARestart(act func(ctx context.Context, tools scope.Tools, node *v1alpha1.SeiNode) error) wrap {
	return func(inner reconcile.Reconciler, tools scope.Tools) reconcile.Reconciler {
		first, pending := true, false
		return reconciler(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			node := &v1alpha1.SeiNode{}
			err := tools.Kube.Get(ctx, request.NamespacedName, node)
			if first {
				first, pending = false, err == nil && node.Status.Phase != ""
			}
			if pending && err == nil {
				pending = act(ctx, tools, node) != nil
			}
			return inner.Reconcile(ctx, request)
		})
	}
}

// asDryRun submits a task of some type, without params, under the id of the dry run that is
// planned.
func asDryRun(taskType string) func(ctx context.Context, tools scope.Tools, node *v1alpha1.SeiNode) error {
	return func(ctx context.Context, tools scope.Tools, node *v1alpha1.SeiNode) error {
		for i := 0; node.Status.Plan != nil && i < len(node.Status.Plan.Tasks); i++ {
			if node.Status.Plan.Tasks[i].Type == plan.TaskConfigValidate {
				return tools.Agents.Submit(ctx, keyOf(node), api.TaskRequest{ID: plan.TaskID(node.Status.Plan, i), Type: taskType, Params: []byte(`{}`)})
			}
		}
		return nil
	}
}

var (
	serviceDeleted = Workload{
		Name:    "Service deleted",
		Prepare: func(p *Person) { p.Bring(p.FullNode()) },
		Act:     func(p *Person) { p.Delete(Node, &corev1.Service{}) },
		Done:    func(p *Person) bool { return p.Get(Node, &corev1.Service{}) && p.Ready() },
	}
	rolled = Workload{
		Name: "a new version rolls two nodes",
		Prepare: func(p *Person) {
			for _, name := range []string{"alpha", "beta"} {
				p.Create(p.Of(name).FullNode())
				p.Until("the node to be ready", p.Of(name).Ready)
			}
		},
		Act: func(p *Person) {
			p.Upgrade(func(s *platform.Settings) { s.SidecarImage = "registry.example.com/sidecar:v2" })
		},
		Done:  func(p *Person) bool { return p.Ready() && p.Of("beta").Ready() },
		Fleet: true,
	}
	restarted = Workload{
		Name:    "RestartSeid",
		Prepare: func(p *Person) { p.Bring(p.FullNode()) },
		Act: func(p *Person) {
			p.Create(&v1alpha1.SeiNodeTask{
				ObjectMeta: metav1.ObjectMeta{Name: "restart"},
				Spec: v1alpha1.SeiNodeTaskSpec{
					Kind: v1alpha1.TaskKindRestartSeid, RestartSeid: &v1alpha1.RestartSeidPayload{},
					Target: v1alpha1.TaskTarget{NodeRef: v1alpha1.NodeReference{Name: Node}},
				},
			})
		},
		Done: func(p *Person) bool {
			task := &v1alpha1.SeiNodeTask{}
			return p.Get("restart", task) && task.Status.Finished() && len(task.Finalizers) == 0
		},
	}
	broughtUp = Workload{
		Name: "bootstrap",
		Act:  func(p *Person) { p.Create(p.FullNode()) },
		Done: (*Person).Ready,
	}
)

func TestAnOperatorThatDoesNotBehaveIsNoticed(t *testing.T) {
	for _, c := range []struct {
		name     string
		workload Workload
		broken   wrap
		dies     string // where it dies
		want     string
	}{
		{
			name: "after a restart it submits a task under an id that nobody knows", workload: serviceDeleted,
			broken: afterARestart(func(ctx context.Context, tools scope.Tools, node *v1alpha1.SeiNode) error {
				return tools.Agents.Submit(ctx, keyOf(node), api.TaskRequest{ID: uuid.New(), Type: plan.TaskConfigApply, Params: []byte(`{"dryRun":true}`)})
			}),
			dies: "dies after apply Service alpha #1",
			want: "config-apply was submitted and is in no plan",
		},
		{
			name: "after a restart it applies under the id of a dry run", workload: broughtUp,
			broken: afterARestart(asDryRun(plan.TaskConfigApply)),
			dies:   "dies after submit configure-genesis to alpha #1",
			want:   "config-apply was submitted and is in no plan",
		},
		{
			name: "after a restart it resets the data under the id of a dry run", workload: broughtUp,
			broken: afterARestart(asDryRun(tasks.TypeResetData)),
			dies:   "dies after submit configure-genesis to alpha #1",
			want:   "reset-data was submitted and is in no plan",
		},
		{
			name: "after a restart it deletes what it does not remember to have made", workload: serviceDeleted,
			broken: afterARestart(func(ctx context.Context, tools scope.Tools, node *v1alpha1.SeiNode) error {
				set := &appsv1.StatefulSet{}
				if err := tools.Kube.Get(ctx, keyOf(node), set); err != nil {
					return err
				}
				return tools.Kube.Delete(ctx, "StatefulSet", set)
			}),
			dies: "dies after apply Service alpha #1",
			want: `"delete StatefulSet alpha"`,
		},
		{
			name: "after a restart it begins its plan anew", workload: broughtUp,
			broken: afterARestart(func(ctx context.Context, tools scope.Tools, node *v1alpha1.SeiNode) error {
				if node.Status.Plan == nil {
					return nil
				}
				after := node.DeepCopy()
				after.Status.Plan = nil
				return tools.Kube.PatchStatus(ctx, node, after)
			}),
			dies: "dies after submit configure-genesis to alpha #1",
			want: `"Type": "configure-genesis"`,
		},
		{
			name: "after a restart it forgets who is being updated", workload: rolled,
			broken: afterARestart(func(ctx context.Context, tools scope.Tools, node *v1alpha1.SeiNode) error {
				if node.Status.Slot == nil {
					return errors.New("it is another node that is being updated")
				}
				after := node.DeepCopy()
				after.Status.Slot = nil
				return tools.Kube.PatchStatus(ctx, node, after)
			}),
			dies: "dies after delete Pod alpha-0 #1",
			want: "more nodes than the budget allows are updated at once",
		},
		{
			name: "after a restart it deletes the pod under a task", workload: restarted,
			broken: afterARestart(func(ctx context.Context, tools scope.Tools, node *v1alpha1.SeiNode) error {
				pod := &corev1.Pod{}
				if err := tools.Kube.Get(ctx, types.NamespacedName{Namespace: node.Namespace, Name: node.Name + "-0"}, pod); err != nil {
					return err
				}
				return tools.Kube.Delete(ctx, "Pod", pod)
			}),
			dies: "dies after submit restart-seid to alpha #1",
			want: "the pod alpha-0 is deleted under the task restart",
		},
		{
			name: "it has a greater budget than it says", workload: rolled,
			broken: func(inner reconcile.Reconciler, _ scope.Tools) reconcile.Reconciler {
				inner.(*seinode.Reconciler).Budget.Platform.MaxConcurrentUpdates = 2
				return inner
			},
			want: "more nodes have a place in the update budget than it has",
		},
		{
			name: "it does something on its way out", workload: serviceDeleted,
			broken: func(inner reconcile.Reconciler, tools scope.Tools) reconcile.Reconciler {
				return reconciler(func(ctx context.Context, request reconcile.Request) (result reconcile.Result, err error) {
					ended := false
					defer func() {
						if !ended {
							_ = tools.Kube.Delete(ctx, "Pod", &corev1.Pod{})
						}
					}()
					result, err = inner.Reconcile(ctx, request)
					ended = true
					return result, err
				})
			},
			dies: "dies after apply Service alpha #1",
			want: "an operator that is dead wants to delete Pod",
		},
		{
			name: "it counts on being woken by what it writes itself", workload: broughtUp,
			broken: func(inner reconcile.Reconciler, _ scope.Tools) reconcile.Reconciler {
				return reconciler(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
					result, err := inner.Reconcile(ctx, request)
					if result.RequeueAfter < atOnce {
						result.RequeueAfter = 0
					}
					return result, err
				})
			},
			want: "a person waited in vain",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found := explore(t, c.workload, c.broken, func(p point) bool { return p.String() == c.dies })
			if all := strings.Join(found.violations, "\n"); !strings.Contains(all, c.want) {
				t.Errorf("%q is not in what was found:\n%s", c.want, all)
			}
		})
	}
}

func TestADeathThatLeavesTheSameWorldIsLeftOut(t *testing.T) {
	points, same := pointsOf([]write{
		{kind: "a", before: "1", after: "2"}, {kind: "b", before: "2", after: "3"}, {kind: "a", before: "4", after: "5"}, {kind: "a"},
	})
	want := []point{
		{kind: "a", nth: 1},
		{kind: "a", nth: 1, after: true},
		{kind: "b", nth: 1, after: true},
		{kind: "a", nth: 2},
		{kind: "a", nth: 2, after: true},
		{kind: "a", nth: 3},
		{kind: "a", nth: 3, after: true},
	}
	if !slices.Equal(points, want) || same != 1 {
		t.Errorf("the points are %v, and %d are left out", points, same)
	}
}
