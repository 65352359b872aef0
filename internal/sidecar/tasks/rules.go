package tasks

import "github.com/sei-operator/sei-operator/internal/sidecar/engine"

// Rules are the definitions of all types without what carries them out. They are for
// a stand-in of the sidecar, so that it takes and refuses exactly what this one does.
func Rules() []engine.Definition {
	definitions := newTasks(Dependencies{}).definitions()
	for i := range definitions {
		definitions[i].Run = nil
	}
	return definitions
}
