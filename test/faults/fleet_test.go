package faults_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/test/faults"
)

const newSidecar = "registry.example.com/sidecar:v2"

// bringUpAll brings up nodes of one chain.
func bringUpAll(names ...string) func(*faults.Person) {
	return func(p *faults.Person) {
		for _, name := range names {
			p.Create(p.Of(name).FullNode())
		}
		for _, name := range names {
			p.Until("all nodes to be ready", p.Of(name).Ready)
		}
	}
}

// haveNewSidecar tells whether nodes have the new sidecar, and take no place in the
// budget any more.
func haveNewSidecar(names ...string) func(*faults.Person) bool {
	return func(p *faults.Person) bool {
		for _, name := range names {
			of := p.Of(name)
			status := of.SeiNode().Status
			if !of.Ready() || status.Slot != nil || status.CurrentSidecarImage != newSidecar {
				return false
			}
		}
		return true
	}
}

// deployment is a fleet of full nodes, of which one may be down.
func deployment(p *faults.Person, replicas int32) *v1alpha1.SeiNodeDeployment {
	return &v1alpha1.SeiNodeDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec: v1alpha1.SeiNodeDeploymentSpec{
			Replicas: &replicas,
			Template: v1alpha1.SeiNodeTemplate{Spec: p.FullNode().Spec},
		},
	}
}

// hasAll tells whether a fleet is ready and has so many nodes with this image.
func hasAll(p *faults.Person, replicas int, image string) bool {
	fleet := &v1alpha1.SeiNodeDeployment{}
	if !p.Get("fleet", fleet) {
		return false
	}
	c := meta.FindStatusCondition(fleet.Status.Conditions, string(v1alpha1.ConditionReady))
	if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != fleet.Generation || int(fleet.Status.Replicas) != replicas {
		return false
	}
	for i := range replicas {
		if of := p.Of(fmt.Sprintf("fleet-%d", i)); !of.Ready() || !of.Runs(image) {
			return false
		}
	}
	return true
}

func bringUpDeployment(p *faults.Person) {
	p.Create(deployment(p, 3))
	p.Until("the fleet to be ready", func() bool { return hasAll(p, 3, faults.Image) })
}

func editDeployment(change func(*v1alpha1.SeiNodeDeployment)) func(*faults.Person) {
	return func(p *faults.Person) { p.EditFleet("fleet", change) }
}

func TestAFleetIsBroughtUp(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name: "a fleet is brought up",
		Act:  func(p *faults.Person) { p.Create(deployment(p, 2)) },
		Done: func(p *faults.Person) bool { return hasAll(p, 2, faults.Image) },
		// Its nodes come up side by side.
		AnyOrder: true,
	})
}

func TestAFleetGetsAnotherTemplate(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "a fleet gets another template",
		Prepare: bringUpDeployment,
		Act:     editDeployment(func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Template.Spec.Image = otherImage }),
		Done:    func(p *faults.Person) bool { return hasAll(p, 3, otherImage) },
		Fleet:   true,
	})
}

func TestAFleetIsScaledDown(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "a fleet is scaled down",
		Prepare: bringUpDeployment,
		Act:     editDeployment(func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Replicas = new(int32(1)) }),
		Done: func(p *faults.Person) bool {
			return hasAll(p, 1, faults.Image) && !p.Get("fleet-1", &v1alpha1.SeiNode{}) && !p.Get("fleet-2", &v1alpha1.SeiNode{})
		},
	})
}

func wantNewSidecar(settings *platform.Settings) { settings.SidecarImage = newSidecar }

func TestANewVersionRollsAFleet(t *testing.T) {
	names := []string{"alpha", "beta", "gamma"}
	faults.Run(t, faults.Workload{
		Name:    "a new version rolls three nodes",
		Prepare: bringUpAll(names...),
		Act:     func(p *faults.Person) { p.Upgrade(wantNewSidecar) },
		Done:    haveNewSidecar(names...),
		Fleet:   true,
	})
}
