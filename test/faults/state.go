package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/nodes"
)

// state is what all runs of a workload have to agree on in the end, as text. Names
// that differ from run to run by nature are replaced by others that say what they
// stand for, so that it still shows what refers to what.
func (r *run) state() string {
	found := r.read(r.world.person)
	all := map[string]any{}
	for _, list := range found.lists() {
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			what := thingOf(object).kind + " " + nameOf(thingOf(object).kind, object.GetName())
			if holder := object.GetAnnotations()[v1alpha1.AnnotationHolder]; holder != "" {
				what += " of " + holder
			}
			all[what] = cleaned(object)
			return nil
		})
	}
	r.mu.Lock()
	made, claims := map[string]int{}, map[string]any{}
	names := []string{r.namespace, "NAMESPACE"}
	for key, uids := range r.history.uids {
		made[key.kind+" "+nameOf(key.kind, key.name)] += len(uids)
		for i, uid := range uids {
			names = append(names, string(uid), fmt.Sprintf("UID(%s %s %d)", key.kind, key.name, i+1))
			if key.kind == "PersistentVolumeClaim" {
				claims[key.name] = ran(r.sidecars.Ledger(uid), r.workload.AnyOrder)
			}
		}
	}
	destroyed := []string{}
	for _, w := range r.writes {
		if w.destroys && (w.how == wasDone || w.how == wasAfter) {
			destroyed = append(destroyed, w.kind)
		}
	}
	r.mu.Unlock()
	slices.Sort(destroyed) // which node of several comes first does not matter
	text, err := json.MarshalIndent(map[string]any{
		"objects": all, "objects that there ever were": made, "tasks on the volume": claims, "deleted by the operator": destroyed,
	}, "", " ")
	if err != nil {
		r.fails("putting the end state down: %v", err)
	}
	return renamed(strings.NewReplacer(names...).Replace(string(text)))
}

// task is what is compared of a run of a task. Its id follows from that of the plan,
// which follows from the moment at which it was made.
type task struct {
	Type    string
	Run     int
	Outcome string
	Params  json.RawMessage
}

func ran(ledger []nodes.Entry, anyOrder bool) []task {
	var all []task
	for _, e := range ledger {
		all = append(all, task{Type: e.Type, Run: e.Run, Outcome: e.Outcome, Params: e.Params})
	}
	if anyOrder {
		slices.SortStableFunc(all, func(a, b task) int { return strings.Compare(a.Type, b.Type) })
	}
	return all
}

// checkLedgers sees to it that no task was run again that was done, whatever the
// undisturbed run did.
func (r *run) checkLedgers() {
	r.mu.Lock()
	var claims []types.UID
	for key, uids := range r.history.uids {
		if key.kind == "PersistentVolumeClaim" {
			claims = append(claims, uids...)
		}
	}
	r.mu.Unlock()
	for _, claim := range claims {
		done := map[uuid.UUID]bool{}
		for _, entry := range r.sidecars.Ledger(claim) {
			if done[entry.ID] {
				r.violated("the task %s was done and ran again under the same id", entry.Type)
			}
			done[entry.ID] = done[entry.ID] || entry.Outcome == nodes.Done
		}
	}
}

// cleaned is an object without what differs from run to run by nature.
func cleaned(object client.Object) map[string]any {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return map[string]any{"cannot be read": err.Error()}
	}
	// What of the status is compared, where not all of it is: the rest is Kubernetes' own.
	if keep, some := map[string][]string{
		"StatefulSet": {"replicas", "readyReplicas"}, "Service": {}, "Pod": {"phase"}, "PersistentVolumeClaim": {"phase"},
	}[thingOf(object).kind]; some {
		status, _ := content["status"].(map[string]any)
		maps.DeleteFunc(status, func(key string, _ any) bool { return !slices.Contains(keep, key) })
	}
	if metadata, ok := content["metadata"].(map[string]any); ok {
		for _, key := range []string{"uid", "resourceVersion", "generation", "managedFields", "creationTimestamp", "generateName"} {
			delete(metadata, key)
		}
		if labels, ok := metadata["labels"].(map[string]any); ok {
			maps.DeleteFunc(labels, func(key string, _ any) bool {
				// The uid of the node is in the one, the machine in the others.
				return key == "controller-revision-hash" || strings.HasPrefix(key, "topology.kubernetes.io/")
			})
		}
	}
	if spec, ok := content["spec"].(map[string]any); ok {
		switch service := object.(type) {
		case *corev1.Pod:
			delete(spec, "nodeName")
		case *corev1.Service:
			if service.Spec.ClusterIP != corev1.ClusterIPNone {
				delete(spec, "clusterIP")
				delete(spec, "clusterIPs")
			}
		}
	}
	return content
}

var (
	moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	// Ids of tasks on nodes follow from the uids of SeiNodeTasks.
	id    = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	token = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`)
	// A validator signs whenever somebody looks at it.
	height = regexp.MustCompile(`(\\"(?:height|tip)\\": ?)[1-9]\d*`)
	// Hashes differ from run to run because the uid of the node is in what is hashed.
	hash = regexp.MustCompile(`\b([0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{16})\b`)
)

// renamed gives hashes names by the order in which they appear.
func renamed(text string) string {
	text = moment.ReplaceAllString(text, "TIME")
	text = id.ReplaceAllString(text, "ID")
	text = token.ReplaceAllString(text, "kube-api-access")
	text = height.ReplaceAllString(text, "${1}HEIGHT")
	known := map[string]string{}
	return hash.ReplaceAllStringFunc(text, func(found string) string {
		if known[found] == "" {
			known[found] = fmt.Sprintf("HASH(%d)", len(known)+1)
		}
		return known[found]
	})
}
