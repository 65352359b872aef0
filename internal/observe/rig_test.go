package observe

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
)

const operatorNamespace = "sei-operator"

// cluster is an API server, and a cache that may be behind it.
type cluster struct {
	*kube.Client

	// server is what there is, cache what the caches show of it: the same, unless a test
	// says otherwise.
	server, cache client.Client
	// reads counts how often the API server was asked for a Secret.
	reads map[string]int
	// broken is what the API server answers, and stale what the cache does; nil: as it
	// should.
	broken, stale error
}

// newCluster is a cluster with these objects.
func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	c := &cluster{server: fakeServer(t, objects...), reads: map[string]int{}}
	c.cache = c.server
	answer := func(from func() client.Client, problem *error, count bool) client.Client {
		return interceptor.NewClient(fakeServer(t), interceptor.Funcs{
			Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
				if _, secret := into.(*corev1.Secret); secret && count {
					c.reads[key.Name]++
				}
				if *problem != nil {
					return *problem
				}
				return from().Get(ctx, key, into, options...)
			},
			List: func(ctx context.Context, _ client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
				if *problem != nil {
					return *problem
				}
				return from().List(ctx, into, options...)
			},
		})
	}
	cached := answer(func() client.Client { return c.cache }, &c.stale, false)
	c.Client = kube.New(kube.Options{
		Cached: cached, Metadata: cached, Namespace: operatorNamespace,
		Live: answer(func() client.Client { return c.server }, &c.broken, true),
	})
	return c
}

// indexer hands the indexes of the operator to a fake server.
type indexer struct{ builder *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.builder.WithIndex(object, field, extract)
	return nil
}

func fakeServer(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme, err := kube.NewScheme()
	must(t, err)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.SeiNode{})
	must(t, kube.AddIndexes(t.Context(), indexer{builder}))
	return builder.WithObjects(objects...).Build()
}

// fallBehind makes the cache show these objects for ever.
func (c *cluster) fallBehind(t *testing.T, objects ...client.Object) {
	t.Helper()
	c.cache = fakeServer(t, objects...)
}

// put makes an object what it is given as, whatever was there.
func (c *cluster) put(t *testing.T, object client.Object) {
	t.Helper()
	c.remove(t, object)
	object.SetResourceVersion("")
	must(t, c.server.Create(t.Context(), object))
}

func (c *cluster) remove(t *testing.T, object client.Object) {
	t.Helper()
	must(t, client.IgnoreNotFound(c.server.Delete(t.Context(), object)))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// secret is a Secret of the namespace of all nodes.
func secret(name string, entries map[string]string) *corev1.Secret {
	made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "sei", Name: name, UID: types.UID(name)}, Data: map[string][]byte{}}
	for entry, content := range entries {
		made.Data[entry] = []byte(content)
	}
	return made
}

// ending makes an object that somebody deleted and that something keeps.
func ending[T client.Object](object T) T {
	object.SetDeletionTimestamp(new(metav1.Now()))
	object.SetFinalizers([]string{"example.com/keeps"})
	return object
}

// keyFile is a key file of Tendermint with a key made from a byte, and its public half.
func keyFile(b byte) (file, private, public string) {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = b
	key := ed25519.NewKeyFromSeed(seed)
	private, public = base64.StdEncoding.EncodeToString(key), base64.StdEncoding.EncodeToString(key[ed25519.SeedSize:])
	return fmt.Sprintf(`{"priv_key":{"type":"tendermint/PrivKeyEd25519","value":%q}}`, private), private, public
}

func keySource(name string) *v1alpha1.KeySource {
	return &v1alpha1.KeySource{Secret: &v1alpha1.KeySecret{SecretName: name}}
}

// node is a SeiNode.
func node(name string, uid types.UID, changes ...func(*v1alpha1.SeiNode)) *v1alpha1.SeiNode {
	made := &v1alpha1.SeiNode{ObjectMeta: metav1.ObjectMeta{Namespace: "sei", Name: name, UID: uid}, Spec: v1alpha1.SeiNodeSpec{ChainID: "pacific-1"}}
	for _, change := range changes {
		change(made)
	}
	return made
}

// validator gives a node all keys that it can have.
func validator(n *v1alpha1.SeiNode) {
	n.Spec.Validator = &v1alpha1.ValidatorSpec{
		SigningKey: keySource("signing"), NodeKey: keySource("identity"),
		OperatorKeyring: &v1alpha1.OperatorKeyring{Secret: &v1alpha1.KeyringSecret{
			SecretName: "keyring", KeyName: "admin",
			PassphraseSecretRef: v1alpha1.SecretEntry{SecretName: "passphrase", Key: "word"},
		}},
	}
}

func seed(n *v1alpha1.SeiNode) { n.Spec.Seed = &v1alpha1.SeedSpec{NodeKey: *keySource("identity")} }

// lease is a reservation.
func lease(name, holder, holderName string) *coordinationv1.Lease {
	made := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: operatorNamespace, Name: name, Annotations: map[string]string{},
		Labels: map[string]string{v1alpha1.LabelReservation: string(v1alpha1.ReservationNodeKey)},
	}}
	if holder != "" {
		made.Spec.HolderIdentity = &holder
	}
	if holderName != "" {
		made.Annotations[v1alpha1.AnnotationHolder] = holderName
	}
	return made
}
