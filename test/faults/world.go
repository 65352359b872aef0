package faults

import (
	"sync"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crcluster "sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// world is what the runs of a workload share: the cache that operators read from. A
// fresh one for each life would hold the same, since a process that starts begins
// with a list of everything.
type world struct {
	cluster *cluster.Cluster
	cached  client.Client
	// metadata answers reads of the metadata of Secrets.
	metadata client.Reader
	live     client.Reader
	person   client.WithWatch

	mu   sync.Mutex
	runs map[string]*run // by namespace
}

// operatorNamespace is where the shipped role lets the operator have its Leases.
const operatorNamespace = "sei-system"

// watched are the kinds that wake the operator.
func watched() []client.Object {
	return []client.Object{
		&v1alpha1.SeiNode{}, &v1alpha1.SeiNodeTask{}, &v1alpha1.SeiNodeDeployment{}, &appsv1.StatefulSet{}, &corev1.Service{}, &corev1.ConfigMap{},
		&corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &coordinationv1.Lease{}, &policyv1.PodDisruptionBudget{}, secretMetadata(),
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := cluster.Get(t)
	w := &world{cluster: c, person: c.Person(t), runs: map[string]*run{}}
	scheme, err := kube.NewScheme()
	must(t, err)
	options, err := kube.CacheOptions(nil, operatorNamespace)
	must(t, err)
	operator, err := crcluster.New(w.cluster.OperatorConfig(t), func(o *crcluster.Options) {
		o.Scheme, o.Cache, o.Client, o.Logger = scheme, options, client.Options{Cache: kube.ClientCacheOptions()}, logr.Discard()
	})
	must(t, err)
	must(t, kube.AddIndexes(t.Context(), operator.GetFieldIndexer()))
	ended := make(chan error, 1)
	go func() { ended <- operator.Start(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Errorf("the cache ended with %v", err)
		}
	})
	for _, kind := range watched() {
		informer, err := operator.GetCache().GetInformer(t.Context(), kind)
		must(t, err)
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { w.saw(nil, object) },
			UpdateFunc: func(before, after any) { w.saw(before, after) },
			DeleteFunc: w.lost,
		})
		must(t, err)
	}
	if !operator.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the cache did not come up")
	}
	w.cached, w.metadata, w.live = operator.GetClient(), operator.GetCache(), operator.GetAPIReader()
	return w
}

func (w *world) saw(before, after any) {
	object, ok := after.(client.Object)
	if !ok {
		return
	}
	old, _ := before.(client.Object)
	if r := w.runOf(object); r != nil {
		r.saw(old, object)
	}
}

func (w *world) lost(object any) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if object, ok := object.(client.Object); ok {
		if r := w.runOf(object); r != nil {
			r.lost(object)
		}
	}
}

// runOf is the run that an object belongs to. Leases are all in one namespace, and say
// whose they are.
func (w *world) runOf(object client.Object) *run {
	namespace := object.GetNamespace()
	if lease, ok := object.(*coordinationv1.Lease); ok {
		namespace = namespaceOf(lease)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[namespace]
}

// enter has a run told of everything in its namespace, until the function is called.
func (w *world) enter(r *run) (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[r.namespace] = r
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.runs, r.namespace)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
