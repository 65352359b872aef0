package scale_test

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// made is when objects of a kind came to be, by uid.
type made struct {
	*board
	at map[string]map[types.UID]time.Time
}

// followMade follows the objects of a kind.
func followMade[T client.Object](r *rig, list client.ObjectList) (*made, func()) {
	m := &made{board: newBoard(), at: map[string]map[types.UID]time.Time{}}
	stop := follow(r.b, r.person, list, r.namespace, func(at time.Time, event watch.EventType, object T) {
		if event != watch.Added {
			return
		}
		m.change(func() {
			if m.at[object.GetName()] == nil {
				m.at[object.GetName()] = map[types.UID]time.Time{}
			}
			m.at[object.GetName()][object.GetUID()] = at
		})
	})
	return m, stop
}

// another is one that was made with this name beside the given one; the caller holds
// the lock.
func (m *made) another(name string, uid types.UID) (types.UID, time.Time) {
	for other, at := range m.at[name] {
		if other != uid {
			return other, at
		}
	}
	return "", time.Time{}
}

// derived is a kind of object that a node is made of.
type derived struct {
	resource string
	list     client.ObjectList
	empty    func() client.Object
	name     func(*v1alpha1.SeiNode) string
}

var (
	statefulSets = derived{"statefulsets", &appsv1.StatefulSetList{}, func() client.Object { return &appsv1.StatefulSet{} }, render.StatefulSetName}
	services     = derived{"services", &corev1.ServiceList{}, func() client.Object { return &corev1.Service{} }, render.ServiceName}
	configMaps   = derived{"configmaps", &corev1.ConfigMapList{}, func() client.Object { return &corev1.ConfigMap{} }, render.NodeConfigName}
)

// deletionPause lets the control plane finish what the last deletion brought about.
const deletionPause = 300 * time.Millisecond

// deleted deletes one object after the other, each of another node, and reports how
// long it took from the answer to the delete until a new one was there.
func (r *rig) deleted(kind derived, all []string) []time.Duration {
	b := r.b
	b.Helper()
	seen, stop := followMade[client.Object](r, kind.list)
	defer stop()
	audited := time.Now()
	var took []time.Duration
	for _, name := range all {
		// The fleet is at rest when something is deleted.
		r.pause(deletionPause)
		node := r.seen.untilNode(b, name, "to be settled", isSettled)
		claim := r.claimOf(node)
		object := kind.empty()
		key := types.NamespacedName{Namespace: r.namespace, Name: kind.name(node)}
		if err := r.person.Get(b.Context(), key, object); err != nil {
			b.Fatal(err)
		}
		if err := r.person.Delete(b.Context(), object); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		var at time.Time
		var uid types.UID
		seen.wait(b, "the new object of "+name, func() bool {
			uid, at = seen.another(key.Name, object.GetUID())
			return uid != ""
		})
		took = append(took, max(0, at.Sub(began)))
		if kind.resource == statefulSets.resource {
			// Its pod ends and another comes; only then is the next one's turn.
			r.seen.untilNode(b, name, "to be settled with its new StatefulSet", func(n *v1alpha1.SeiNode) bool {
				return isSettled(n) && n.Status.StatefulSet != nil && n.Status.StatefulSet.UID == uid
			})
		}
		if after := r.claimOf(node); after != claim {
			b.Errorf("the claim of %s was %s and is %s", name, claim, after)
		}
	}
	r.exactlyOnce(kind, len(all), audited)
	return took
}

// exactlyOnce tells whether each was made once, and none deleted by the operator.
func (r *rig) exactlyOnce(kind derived, deletions int, audited time.Time) {
	r.b.Helper()
	per := map[string]int{}
	applies, deletes := 0, 0
	for _, request := range r.cluster.Audit(r.b, cluster.OperatorUser, audited) {
		switch {
		case request.Namespace != r.namespace || request.Resource != kind.resource || !request.Write():
		case request.Verb == "delete":
			deletes++
		default:
			applies++
			per[request.Name]++
		}
	}
	twice := 0
	for _, n := range per {
		if n > 1 {
			twice++
		}
	}
	r.b.ReportMetric(float64(applies)/float64(deletions), kind.resource+"-applies/deletion")
	r.b.ReportMetric(float64(deletes), kind.resource+"-deletes")
	say(r.b, "%s of %s: %s by the operator, %d of them more than one for an object, and %s; volumes unchanged",
		count(deletions, "deletion"), kind.resource, count(applies, "write"), twice, count(deletes, "delete"))
}

func (r *rig) claimOf(node *v1alpha1.SeiNode) types.UID {
	claim := &corev1.PersistentVolumeClaim{}
	if err := r.person.Get(r.b.Context(), types.NamespacedName{Namespace: r.namespace, Name: render.ClaimName(node)}, claim); err != nil {
		r.b.Fatalf("reading the claim of %s: %v", node.Name, err)
	}
	return claim.UID
}

// backAfterKill kills the operator, deletes StatefulSets, starts another operator, and
// returns how long after its start all of them were back.
func (r *rig) backAfterKill(p *program, killed *running, all []string) (took time.Duration, fresh *running) {
	b := r.b
	b.Helper()
	seen, stop := followMade[*appsv1.StatefulSet](r, &appsv1.StatefulSetList{})
	defer stop()
	killed.kill()
	old := map[string]types.UID{}
	for _, name := range all {
		set := &appsv1.StatefulSet{}
		if err := r.person.Get(b.Context(), r.key(name), set); err != nil {
			b.Fatal(err)
		}
		if err := r.person.Delete(b.Context(), set); err != nil {
			b.Fatal(err)
		}
		old[name] = set.UID
	}
	began := readLoad(b)
	fresh = p.start()
	var last time.Time
	seen.wait(b, "all StatefulSets to be back", func() bool {
		last = time.Time{}
		for _, name := range all {
			uid, at := seen.another(name, old[name])
			if uid == "" {
				return false
			}
			if at.After(last) {
				last = at
			}
		}
		return true
	})
	began.explain(b, fmt.Sprintf("the start over a fleet with %d StatefulSets missing", len(all)))
	return last.Sub(fresh.began), fresh
}
