package operator_test

import (
	"context"
	"slices"
	"sync"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/operator"
)

// writes records what the operator writes.
type writes struct {
	mu   sync.Mutex
	list []kube.Write
	// before may refuse a write.
	before func(kube.Write) error
}

func (w *writes) around(ctx context.Context, write kube.Write, do func(context.Context) error) error {
	w.mu.Lock()
	w.list = append(w.list, write)
	before := w.before
	w.mu.Unlock()
	if before != nil {
		if err := before(write); err != nil {
			return err
		}
	}
	return do(ctx)
}

// record makes an operator record its writes.
func (w *writes) record(c *operator.Config) { c.AroundWrite = w.around }

// refuse has before asked about every write from now on.
func (w *writes) refuse(before func(kube.Write) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = before
}

// forget forgets what was written so far.
func (w *writes) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = nil
}

// all is everything written since.
func (w *writes) all() []kube.Write {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.list)
}

// of are those of one verb and kind.
func (w *writes) of(verb, kind string) (found []kube.Write) {
	for _, write := range w.all() {
		if write.Verb == verb && write.Kind == kind {
			found = append(found, write)
		}
	}
	return found
}

// events are the reasons of the events about a node, sorted.
func (r *rig) events(node string) []string {
	r.t.Helper()
	var list eventsv1.EventList
	if err := r.person.List(r.t.Context(), &list, client.InNamespace(r.namespace)); err != nil {
		r.t.Fatal(err)
	}
	var reasons []string
	for i := range list.Items {
		if list.Items[i].Regarding.Kind == "SeiNode" && list.Items[i].Regarding.Name == node {
			reasons = append(reasons, list.Items[i].Reason)
		}
	}
	slices.Sort(reasons)
	return reasons
}
