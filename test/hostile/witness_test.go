package hostile_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/test/rig"
)

// witness sees every state of every pod, claim and Secret of the cluster, from when it
// is called to the end. One goroutine writes them down; nothing is sampled. What it
// saw is judged in the order of resource versions, which is the order in which it
// happened, whatever the kind.
type witness struct {
	t      testing.TB
	person client.WithWatch

	mu    sync.Mutex
	grown chan struct{} // closed when something was seen
	seen  []sight
	last  map[types.UID]uint64 // the newest version of each object
	gone  map[types.UID]bool
	asked map[types.UID]bool // claims whose deletion was asked for
	lost  error              // why something may have been missed
}

// sight is one state of an object, or its end.
type sight struct {
	version uint64
	gone    bool
	object  client.Object
}

func kindsSeen() []client.ObjectList {
	return []client.ObjectList{&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.SecretList{}}
}

// callWitness calls a witness, who looks until the test ends.
func callWitness(tb testing.TB, person client.WithWatch) *witness {
	tb.Helper()
	w := &witness{
		t: tb, person: person, grown: make(chan struct{}),
		last: map[types.UID]uint64{}, gone: map[types.UID]bool{}, asked: map[types.UID]bool{},
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var views []*view
	for _, list := range kindsSeen() {
		v := &view{list: list}
		if err := person.List(ctx, list); err != nil {
			tb.Fatalf("reading %T: %v", list, err)
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			if object.GetDeletionTimestamp() != nil {
				w.askedFor(object.GetUID()) // before the witness came
			}
			w.saw(watch.Added, object)
			return nil
		})
		v.version = list.GetResourceVersion()
		if err := v.open(ctx, person); err != nil {
			tb.Fatalf("watching %T: %v", list, err)
		}
		views = append(views, v)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.look(ctx, views)
	}()
	tb.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

// view is the watch of one kind. When a server ends it, it is begun anew right behind
// the last state that was seen, so nothing is missed in between.
type view struct {
	list    client.ObjectList
	version string
	watcher watch.Interface
}

func (v *view) open(ctx context.Context, c client.WithWatch) error {
	watcher, err := c.Watch(ctx, v.list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: v.version, AllowWatchBookmarks: true}})
	if err == nil {
		v.watcher = watcher
	}
	return err
}

// look is the one goroutine.
func (w *witness) look(ctx context.Context, views []*view) {
	defer func() {
		for _, v := range views {
			v.watcher.Stop()
		}
	}()
	pods, claims, secrets := views[0], views[1], views[2]
	for {
		var v *view
		var event watch.Event
		var open bool
		select {
		case event, open = <-pods.watcher.ResultChan():
			v = pods
		case event, open = <-claims.watcher.ResultChan():
			v = claims
		case event, open = <-secrets.watcher.ResultChan():
			v = secrets
		case <-ctx.Done():
			return
		}
		if ctx.Err() != nil {
			return
		}
		if err := w.take(ctx, v, event, open); err != nil {
			w.mu.Lock()
			w.lost = fmt.Errorf("the watch of %T was lost: %w", v.list, err)
			w.mu.Unlock()
			return
		}
	}
}

func (w *witness) take(ctx context.Context, v *view, event watch.Event, open bool) error {
	if !open {
		return v.open(ctx, w.person)
	}
	object, ok := event.Object.(client.Object)
	if !ok {
		return apierrors.FromObject(event.Object)
	}
	v.version = object.GetResourceVersion()
	if event.Type != watch.Bookmark {
		w.saw(event.Type, object)
	}
	return nil
}

func (w *witness) saw(kind watch.EventType, object client.Object) {
	object.SetManagedFields(nil) // nobody reads them, and there are many
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.lost = fmt.Errorf("the order of things is not known: %w", err)
	}
	w.seen = append(w.seen, sight{version: version, gone: kind == watch.Deleted, object: object})
	w.last[object.GetUID()], w.gone[object.GetUID()] = version, kind == watch.Deleted
	close(w.grown)
	w.grown = make(chan struct{})
}

// askedFor is told when somebody asks for a claim to be deleted.
func (w *witness) askedFor(claim types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[claim] = true
}

// patience only ends a test that would wait for ever.
const patience = time.Minute

// verdict is what was seen that must never happen, up to now.
func (w *witness) verdict() []string {
	w.t.Helper()
	w.catchUp()
	w.mu.Lock()
	seen, asked, lost := slices.Clone(w.seen), maps.Clone(w.asked), w.lost
	w.mu.Unlock()
	if lost != nil {
		return []string{lost.Error()}
	}
	slices.SortStableFunc(seen, func(a, b sight) int { return cmp.Compare(a.version, b.version) })
	j := newJudge(asked)
	for _, s := range seen {
		j.hears(s)
	}
	return j.violations
}

// catchUp waits until the witness has seen what is there now.
func (w *witness) catchUp() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), patience)
	defer cancel()
	there := map[types.UID]uint64{}
	for _, list := range kindsSeen() {
		if err := w.person.List(ctx, list); err != nil {
			w.t.Fatalf("reading %T: %v", list, err)
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			there[object.GetUID()], _ = strconv.ParseUint(object.GetResourceVersion(), 10, 64)
			return nil
		})
	}
	for {
		w.mu.Lock()
		behind, grown := w.lost == nil && w.behind(there), w.grown
		w.mu.Unlock()
		if !behind {
			return
		}
		select {
		case <-grown:
		case <-ctx.Done():
			w.t.Fatal("the witness did not see what is there")
		}
	}
}

// behind tells whether something was there that was not seen yet; the caller holds
// the lock.
func (w *witness) behind(there map[types.UID]uint64) bool {
	for uid, version := range there {
		if w.last[uid] < version {
			return true
		}
	}
	for uid, gone := range w.gone {
		if _, is := there[uid]; !is && !gone {
			return true
		}
	}
	return false
}

// judge hears what was seen, in order.
type judge struct {
	asked      map[types.UID]bool
	live       map[types.UID]*livePod
	keys       map[string]string    // public keys by Secret
	claims     map[string]types.UID // the last of each name
	violations []string
}

// livePod is a pod from its creation to the end of its containers.
type livePod struct {
	name   string
	claims []string
	secret string // with the signing key; empty: none is mounted
	key    string // what was in it when the pod came, or when the Secret came later
}

func newJudge(asked map[types.UID]bool) *judge {
	return &judge{asked: asked, live: map[types.UID]*livePod{}, keys: map[string]string{}, claims: map[string]types.UID{}}
}

func (j *judge) violated(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(j.violations, text) {
		j.violations = append(j.violations, text)
	}
}

func nameOf(object client.Object) string { return object.GetNamespace() + "/" + object.GetName() }

func (j *judge) hears(s sight) {
	switch object := s.object.(type) {
	case *corev1.Secret:
		j.secret(object, s.gone)
	case *corev1.Pod:
		j.pod(object, s.gone)
	case *corev1.PersistentVolumeClaim:
		j.claim(object)
	}
}

func (j *judge) secret(secret *corev1.Secret, gone bool) {
	delete(j.keys, nameOf(secret))
	key, err := seid.ParseSigningKey(secret.Data[rig.SigningKeyEntry])
	if gone || err != nil {
		return
	}
	j.keys[nameOf(secret)] = key.PublicKey
	for _, pod := range j.live {
		if pod.secret == nameOf(secret) && pod.key == "" {
			pod.key = key.PublicKey
		}
	}
	j.onePodEach()
}

func (j *judge) pod(pod *corev1.Pod, gone bool) {
	if gone || !plan.PodAlive(pod) {
		delete(j.live, pod.UID)
		return
	}
	if j.live[pod.UID] != nil {
		return
	}
	p := &livePod{name: nameOf(pod)}
	for _, claim := range kube.ClaimsOf(pod) {
		p.claims = append(p.claims, pod.Namespace+"/"+claim)
	}
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].Secret; source != nil && mountsSigningKey(pod, pod.Spec.Volumes[i].Name) {
			p.secret = pod.Namespace + "/" + source.SecretName
			p.key = j.keys[p.secret]
		}
	}
	j.live[pod.UID] = p
	j.onePodEach()
}

func mountsSigningKey(pod *corev1.Pod, volume string) bool {
	for i := range pod.Spec.Containers {
		for _, mount := range pod.Spec.Containers[i].VolumeMounts {
			if mount.Name == volume && strings.HasSuffix(mount.MountPath, rig.SigningKeyEntry) {
				return true
			}
		}
	}
	return false
}

// onePodEach is the law: no claim and no signing key has two living pods.
func (j *judge) onePodEach() {
	users := map[string][]string{}
	for _, pod := range j.live {
		for _, claim := range pod.claims {
			users["the claim "+claim] = append(users["the claim "+claim], pod.name)
		}
		if pod.key != "" {
			users["the signing key "+pod.key] = append(users["the signing key "+pod.key], pod.name)
		}
	}
	for what, pods := range users {
		if len(pods) > 1 {
			slices.Sort(pods)
			j.violated("two living pods have %s: %s", what, strings.Join(pods, ", "))
		}
	}
}

// claim is kept unless its deletion was asked for, and so is its uid.
func (j *judge) claim(claim *corev1.PersistentVolumeClaim) {
	if claim.DeletionTimestamp != nil && !j.asked[claim.UID] {
		j.violated("the claim %s was deleted, and nobody asked for that", nameOf(claim))
	}
	if before, known := j.claims[nameOf(claim)]; known && before != claim.UID && !j.asked[before] {
		j.violated("the claim %s is another one, and nobody asked for that", nameOf(claim))
	}
	j.claims[nameOf(claim)] = claim.UID
}
