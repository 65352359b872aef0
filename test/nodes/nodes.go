// Package nodes plays the sidecars of pods that have no containers.
//
// A pod of the tests' control plane has an address on the loopback network and
// nothing behind it. A Fleet puts a sidecar there: the real API, the real engine with
// the real rules for ids and params, real approvals and holds, and the real rules for
// seid's configuration. What is missing is seid itself and its files. So a test of the
// operator meets the refusals that a node would give, and says with a Node what else
// goes wrong.
//
// What a sidecar remembers belongs to the volume, as in reality: it survives the pod,
// and a pod of another SeiNode on the same claim finds what was left there.
package nodes

import (
	"context"
	"slices"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// Options say which pods a fleet plays.
type Options struct {
	// Namespace limits the fleet to the pods of one namespace; empty: all of them.
	// Two fleets must not play the same pods.
	Namespace string
}

// Fleet plays the sidecars of the pods of a cluster. It is safe for concurrent use.
type Fleet struct {
	t       testing.TB
	kube    kubernetes.Interface
	dir     string
	ctx     context.Context //nolint:containedctx // a fleet lives as long as its test, and its sidecars are started by events
	running sync.WaitGroup

	mu      sync.Mutex
	nodes   map[types.NamespacedName]*Node
	volumes map[types.UID]*volume
	lives   map[types.NamespacedName]*life
	signers map[string]*process // by public key
	chain   *chain
	calls   []Call
	// refusals are those of the access proxies.
	refusals   []string
	gatekeeper *gatekeeper
}

// Call is one HTTP request that a sidecar has read.
type Call struct {
	Namespace, Name string // of the SeiNode whose pod was called
	Method, Path    string
	NodeUID         types.UID // the SeiNode that the caller meant; empty if it named none
}

// Start plays the sidecar of every pod with the label sei.io/node, until the test ends.
func Start(tb testing.TB, c *cluster.Cluster, o Options) *Fleet {
	tb.Helper()
	config := c.PersonConfig(tb)
	config.UserAgent = "sei-test-fleet"
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		tb.Fatalf("making the fleet's client: %v", err)
	}
	f := &Fleet{
		t: tb, kube: kube, dir: tb.TempDir(), ctx: tb.Context(),
		nodes:   map[types.NamespacedName]*Node{},
		volumes: map[types.UID]*volume{},
		lives:   map[types.NamespacedName]*life{},
		signers: map[string]*process{},
		chain:   newChain(),
		gatekeeper: &gatekeeper{
			admin: c.Admin(tb), callers: map[string]authenticationv1.UserInfo{}, allowed: map[string]bool{},
		},
	}
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(o.Namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = v1alpha1.LabelNode }))
	pods := factory.Core().V1().Pods().Informer()
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { f.saw(object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { f.saw(object.(*corev1.Pod)) },
		DeleteFunc: f.lost,
	}); err != nil {
		tb.Fatalf("watching pods: %v", err)
	}
	factory.Start(f.ctx.Done())
	// The test's context ends just before.
	tb.Cleanup(func() {
		factory.Shutdown()
		f.running.Wait()
	})
	factory.WaitForCacheSync(f.ctx.Done())
	return f
}

// Node is the handle of one node's sidecar. It may be taken before there is a pod.
func (f *Fleet) Node(namespace, name string) *Node {
	return f.node(types.NamespacedName{Namespace: namespace, Name: name})
}

func (f *Fleet) node(key types.NamespacedName) *Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[key]
	if n == nil {
		n = newNode(f, key)
		f.nodes[key] = n
	}
	return n
}

// Ledger returns all runs of tasks on a volume, in the order they began.
func (f *Fleet) Ledger(claim types.UID) []Entry { return f.volume(claim).entries() }

func (f *Fleet) volume(claim types.UID) *volume {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.volumes[claim]
	if v == nil {
		v = newVolume(f.dir, claim)
		f.volumes[claim] = v
	}
	return v
}

// Calls returns all requests so far, in the order they came.
func (f *Fleet) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func (f *Fleet) called(call Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
}

// saw is told of pods by one goroutine, in the order of their changes.
func (f *Fleet) saw(pod *corev1.Pod) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	f.mu.Lock()
	old := f.lives[key]
	f.mu.Unlock()
	if old != nil && (old.pod.uid != pod.UID || finished) {
		f.end(key)
		old = nil
	}
	if old != nil || finished || pod.Status.PodIP == "" || pod.DeletionTimestamp != nil || !sidecarRuns(pod) {
		return
	}
	facts, err := factsOf(pod)
	if err != nil {
		f.t.Errorf("the pod %s cannot have a sidecar: %v", key, err)
		return
	}
	if facts != nil {
		f.begin(key, *facts)
	}
}

func (f *Fleet) lost(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if pod, ok := object.(*corev1.Pod); ok {
		f.end(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
}

func (f *Fleet) begin(key types.NamespacedName, pod podFacts) {
	n := f.node(pod.node)
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, running := range f.lives {
		// What no operator may ever do, whatever the test is about.
		if other.Namespace == key.Namespace && running.pod.claim == pod.claim {
			f.t.Errorf("the pods %s and %s run at once on the claim %s", other, key.Name, pod.claim)
		}
	}
	l := newLife(f.ctx, n, pod)
	f.lives[key] = l
	f.running.Go(l.run)
}

func (f *Fleet) end(key types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.lives[key]; l != nil {
		l.end()
		delete(f.lives, key)
	}
}

// signs is told when a seid begins to run with a signing key. Two at once is what no
// operator may ever bring about, whatever the test is about.
func (f *Fleet) signs(p *process, key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if key == "" {
		return
	}
	if other := f.signers[key]; other != nil && other != p {
		f.t.Errorf("%s and %s sign at once with the key %s", other.sidecar.node.key, p.sidecar.node.key, key)
	}
	f.signers[key] = p
}

func (f *Fleet) signsNoMore(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, signer := range f.signers {
		if signer == p {
			delete(f.signers, key)
		}
	}
}
