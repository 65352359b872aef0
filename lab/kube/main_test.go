package kube

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sei-operator/sei-operator/lab/build"
)

// The cluster all tests of this package share; each test has its own namespace.
var (
	cluster *Cluster
	client  kubernetes.Interface
	config  *rest.Config
)

func TestMain(m *testing.M) {
	code, err := withCluster(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(code)
}

func withCluster(m *testing.M) (code int, err error) {
	ctx := context.Background() //nolint:forbidigo // there is no test yet that would have one
	binaries, err := controlPlane(ctx)
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "lab-kube-")
	if err != nil {
		return 1, err
	}
	cluster, err = Start(ctx, dir, binaries, Options{})
	if err != nil {
		return 1, err
	}
	defer func() {
		if stopped := cluster.Stop(); err == nil {
			err = stopped
		}
		if code == 0 && err == nil {
			err = os.RemoveAll(dir)
		} else {
			fmt.Fprintln(os.Stderr, "logs of the cluster:", cluster.Info.Logs)
		}
	}()
	// As a user of the cluster gets it.
	if config, err = clientcmd.BuildConfigFromFlags("", cluster.Info.Kubeconfig); err != nil {
		return 1, err
	}
	config.QPS = -1
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return 1, err
	}
	defer httpClient.CloseIdleConnections()
	defer http.DefaultClient.CloseIdleConnections()
	if client, err = kubernetes.NewForConfigAndClient(config, httpClient); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func controlPlane(ctx context.Context) (*build.ControlPlane, error) {
	root, err := build.CacheRoot()
	if err != nil {
		return nil, err
	}
	source, err := build.Source()
	if err != nil {
		return nil, err
	}
	return (&build.Builder{Root: root, Source: source, Out: os.Stderr}).ControlPlane(ctx)
}

// patience is for a machine that does ten other things.
const patience = 2 * time.Minute

// eventually looks at something until it is as it should be.
func eventually[T any](t *testing.T, what string, get func(context.Context) (T, error), good func(T) bool) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		got, err := get(ctx)
		if err == nil && good(got) {
			return got
		}
		select {
		case <-ctx.Done():
			t.Fatalf("never happened: %s\nerror: %v\nlast: %+v", what, err, got)
		case <-ticker.C:
		}
	}
}

// namespace makes a namespace for one test, ready for pods.
func namespace(t *testing.T) string {
	t.Helper()
	ns, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = client.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), ns.Name, metav1.DeleteOptions{})
	})
	eventually(t, "default ServiceAccount", func(ctx context.Context) (*corev1.ServiceAccount, error) {
		return client.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
	}, func(*corev1.ServiceAccount) bool { return true })
	return ns.Name
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
