package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fingerprint is the same for two moments of a run between which nothing happened: no
// object changed, no sidecar did anything, no person came in between, and the clock was
// not moved on. Only the undisturbed run is asked for it.
func (r *run) fingerprint() string {
	if r.point != nil || !r.isArmed() {
		return ""
	}
	var text strings.Builder
	fmt.Fprintln(&text, r.rests)
	found := r.read(r.world.live)
	for _, list := range found.lists() {
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			if object, ok := item.(client.Object); ok {
				fmt.Fprintln(&text, thingOf(object), versionOf(object))
			}
			return nil
		})
	}
	r.mu.Lock()
	uids := maps.Clone(r.history.uids)
	r.mu.Unlock()
	for key := range maps.Keys(uids) {
		if key.kind != "PersistentVolumeClaim" {
			delete(uids, key)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(uids), func(a, b thing) int { return strings.Compare(a.name, b.name) }) {
		for _, uid := range uids[key] {
			for _, entry := range r.sidecars.Ledger(uid) {
				fmt.Fprintln(&text, key.name, entry.ID, entry.Run, entry.Outcome)
			}
		}
	}
	return text.String()
}

func (r *run) isArmed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.armed
}
