package operator_test

import (
	"context"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// The operator reads from a cache what it wrote a moment ago. With a plain cache every
// third read here is stale, and the first of them fails this test.
func TestTheCacheGivesBackWhatWasWritten(t *testing.T) {
	t.Parallel()
	c := cluster.Get(t)
	namespace := c.Namespace(t)
	scheme, err := kube.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	cached, err := kube.CacheOptions(nil, "sei-system")
	if err != nil {
		t.Fatal(err)
	}
	reached, err := ctrlcluster.New(c.OperatorConfig(t), func(o *ctrlcluster.Options) {
		o.Scheme, o.Cache, o.Client = scheme, cached, client.Options{Cache: kube.ClientCacheOptions()}
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- reached.Start(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	if !reached.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache is not filled")
	}

	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data", Labels: map[string]string{v1alpha1.LabelNode: "alpha"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")}},
		},
	}
	k := reached.GetClient()
	if err := k.Create(ctx, claim); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		before := claim.DeepCopy()
		claim.Annotations = map[string]string{"example.com/count": strconv.Itoa(i)}
		if err := k.Patch(ctx, claim, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		read := &corev1.PersistentVolumeClaim{}
		if err := k.Get(ctx, client.ObjectKeyFromObject(claim), read); err != nil {
			t.Fatal(err)
		}
		if got := read.Annotations["example.com/count"]; got != strconv.Itoa(i) {
			t.Fatalf("written was %d, read is %q", i, got)
		}
	}
}
