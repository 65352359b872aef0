package faults_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
	"github.com/sei-operator/sei-operator/test/faults"
)

// task is a SeiNodeTask for the node of the workload.
func task(name string, spec v1alpha1.SeiNodeTaskSpec) *v1alpha1.SeiNodeTask {
	spec.Target = v1alpha1.TaskTarget{NodeRef: v1alpha1.NodeReference{Name: faults.Node}}
	return &v1alpha1.SeiNodeTask{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func restartTask() *v1alpha1.SeiNodeTask {
	return task("restart", v1alpha1.SeiNodeTaskSpec{Kind: v1alpha1.TaskKindRestartSeid, RestartSeid: &v1alpha1.RestartSeidPayload{}})
}

// ended tells whether a task ended in a phase and nothing keeps it any more.
func ended(p *faults.Person, name string, phase v1alpha1.SeiNodeTaskPhase) bool {
	task := &v1alpha1.SeiNodeTask{}
	return p.Get(name, task) && task.Status.Phase == phase && len(task.Finalizers) == 0
}

func complete(names ...string) func(*faults.Person) bool {
	return func(p *faults.Person) bool {
		for _, name := range names {
			if !ended(p, name, v1alpha1.TaskPhaseComplete) {
				return false
			}
		}
		return true
	}
}

func TestATaskIsCarriedOutOnce(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "RestartSeid",
		Prepare: bringUp,
		Act:     func(p *faults.Person) { p.Create(restartTask()) },
		Done:    complete("restart"),
	})
}

// Every step of a task is written down before it is sent, so each is carried out once.
func TestAResyncIsCarriedOutOnce(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "ResyncNode",
		Prepare: bringUp,
		Act: func(p *faults.Person) {
			p.Create(task("resync", v1alpha1.SeiNodeTaskSpec{Kind: v1alpha1.TaskKindResyncNode, ResyncNode: &v1alpha1.ResyncNodePayload{}}))
		},
		Done: func(p *faults.Person) bool { return complete("resync")(p) && p.Ready() },
	})
}

func TestATaskThatFailsFailsOnce(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "RestartSeid that fails",
		Prepare: bringUp,
		Act: func(p *faults.Person) {
			p.Sidecar().Fail(tasks.TypeRestartSeid, 1, tasks.ReasonStillRunning, "seid did not end", true)
			p.Create(restartTask())
		},
		Done: func(p *faults.Person) bool { return ended(p, "restart", v1alpha1.TaskPhaseFailed) },
	})
}

func TestATaskGivesTheNodeAnotherImage(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "UpdateNodeImage",
		Prepare: bringUp,
		Act: func(p *faults.Person) {
			p.Create(task("update", v1alpha1.SeiNodeTaskSpec{
				Kind: v1alpha1.TaskKindUpdateNodeImage, UpdateNodeImage: &v1alpha1.UpdateNodeImagePayload{Image: otherImage},
			}))
		},
		Done: func(p *faults.Person) bool { return complete("update")(p) && p.Runs(otherImage) && p.Ready() },
	})
}

func TestPeersAreDiscoveredOnce(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name: "DiscoverPeers",
		Prepare: func(p *faults.Person) {
			p.Bring(p.FullNode())
			p.Edit(func(node *v1alpha1.SeiNode) {
				node.Spec.Peers = []v1alpha1.PeerSource{{Static: &v1alpha1.StaticPeers{Addresses: []string{"0123456789abcdef0123456789abcdef01234567@peer.example.com:26656"}}}}
			})
			p.Until("the edit to be dealt with", p.Ready)
		},
		Act: func(p *faults.Person) {
			p.Create(task("peers", v1alpha1.SeiNodeTaskSpec{Kind: v1alpha1.TaskKindDiscoverPeers, DiscoverPeers: &v1alpha1.DiscoverPeersPayload{}}))
		},
		Done: complete("peers"),
	})
}

// A plan and a task that begin at the same moment: never both go, and never both wait.
func TestAPlanAndATaskAtTheSameMoment(t *testing.T) {
	for name, w := range map[string]faults.Workload{
		"the task first": {Act: func(p *faults.Person) {
			p.Create(restartTask())
			p.Edit(func(node *v1alpha1.SeiNode) { node.Spec.Image = otherImage })
		}, TasksFirst: true},
		"the plan first": {Act: func(p *faults.Person) {
			p.Edit(func(node *v1alpha1.SeiNode) { node.Spec.Image = otherImage })
			p.Create(restartTask())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			// Which of the two goes first depends on the moment at which the operator dies.
			w.AnyOrder = true
			w.Name, w.Prepare = "NodeUpdate and RestartSeid, "+name, bringUp
			w.Done = func(p *faults.Person) bool {
				return complete("restart")(p) && p.Runs(otherImage) && updated(v1alpha1.PlanNodeUpdate)(p)
			}
			faults.Run(t, w)
		})
	}
}

// An update that comes while a task works waits for it.
func TestAnUpdateComesInTheMiddleOfATask(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:     "NodeUpdate during a RestartSeid",
		Prepare:  bringUp,
		AnyOrder: true,
		Act: func(p *faults.Person) {
			restore := p.CutOff()
			p.Create(restartTask())
			p.Until("the task to run", func() bool {
				task := &v1alpha1.SeiNodeTask{}
				return p.Get("restart", task) && task.Status.Phase == v1alpha1.TaskPhaseRunning
			})
			p.Edit(func(node *v1alpha1.SeiNode) { node.Spec.Image = otherImage })
			p.Rest()
			restore()
		},
		Done: func(p *faults.Person) bool {
			return complete("restart")(p) && p.Runs(otherImage) && updated(v1alpha1.PlanNodeUpdate)(p)
		},
	})
}

func TestATaskThatRunsIsDeleted(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "RestartSeid deleted",
		Prepare: bringUp,
		Act: func(p *faults.Person) {
			restore := p.CutOff()
			p.Create(restartTask())
			p.Until("the task to run", func() bool {
				task := &v1alpha1.SeiNodeTask{}
				return p.Get("restart", task) && task.Status.Phase == v1alpha1.TaskPhaseRunning
			})
			p.Delete("restart", &v1alpha1.SeiNodeTask{})
			p.Rest()
			restore()
		},
		Done: func(p *faults.Person) bool { return !p.Get("restart", &v1alpha1.SeiNodeTask{}) && p.Ready() },
	})
}
