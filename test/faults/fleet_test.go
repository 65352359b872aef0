package faults_test

import (
	"testing"

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
