package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// people is the group that a test's person is in.
const people = "sei-operator-test:people"

// The users that the operator and the person are for the API server.
const (
	OperatorUser = "system:serviceaccount:sei-system:sei-operator"
	PersonUser   = "somebody"
)

// newCluster makes the two identities that tests act with. Beside what the lab
// installs, and what a test asks Admin for, it is the only thing done as cluster-admin.
func newCluster(ctx context.Context, info labInfo) (*Cluster, error) {
	admin, err := loadKubeconfig(info.Kubeconfig)
	if err != nil {
		return nil, err
	}
	asAdmin, err := newClient(admin)
	if err != nil {
		return nil, err
	}
	operator, err := operatorConfig(ctx, admin, asAdmin)
	if err != nil {
		return nil, err
	}
	person, err := personConfig(ctx, admin, asAdmin)
	if err != nil {
		return nil, err
	}
	return &Cluster{
		Kubectl: info.Kubectl, PodNetwork: info.PodNetwork, dir: info.Dir, auditLog: info.AuditLog, components: info.Components,
		admin: admin, operator: operator, person: person,
	}, nil
}

// Operator acts as the operator does: with its ServiceAccount and the shipped role.
func (c *Cluster) Operator(tb testing.TB) client.WithWatch {
	tb.Helper()
	return mustClient(tb, c.operator)
}

// Person acts as somebody who administers the namespaces of a cluster does.
func (c *Cluster) Person(tb testing.TB) client.WithWatch {
	tb.Helper()
	return mustClient(tb, c.person)
}

// Admin acts as who sets rules for the whole cluster, such as policies. For everything
// else there is Person.
func (c *Cluster) Admin(tb testing.TB) client.WithWatch {
	tb.Helper()
	return mustClient(tb, c.admin)
}

// OperatorConfig is the operator's connection, for a test that makes its own client
// or manager of it. It is a copy: change it at will.
func (c *Cluster) OperatorConfig(tb testing.TB) *rest.Config {
	tb.Helper()
	return rest.CopyConfig(c.operator)
}

// PersonConfig is the person's connection, a copy too.
func (c *Cluster) PersonConfig(tb testing.TB) *rest.Config {
	tb.Helper()
	return rest.CopyConfig(c.person)
}

// PersonKubeconfig is the path of a kubeconfig to act as the person with.
func (c *Cluster) PersonKubeconfig(tb testing.TB) string {
	tb.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: c.person.Host, CertificateAuthorityData: c.person.CAData}
	config.AuthInfos["person"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: c.person.CertData, ClientKeyData: c.person.KeyData, Token: c.person.BearerToken,
		Impersonate: c.person.Impersonate.UserName, ImpersonateGroups: c.person.Impersonate.Groups,
	}
	config.Contexts["person"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "person"}
	config.CurrentContext = "person"
	path := filepath.Join(tb.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		tb.Fatalf("writing a kubeconfig: %v", err)
	}
	return path
}

// Reclaim says what becomes of a volume when its claim is gone. Volumes belong to no
// namespace, so this is done as those do who look after the cluster's storage.
func (c *Cluster) Reclaim(tb testing.TB, volume string, policy corev1.PersistentVolumeReclaimPolicy) {
	tb.Helper()
	admin, found := mustClient(tb, c.admin), &corev1.PersistentVolume{}
	if err := admin.Get(tb.Context(), client.ObjectKey{Name: volume}, found); err != nil {
		tb.Fatalf("reading the volume %s: %v", volume, err)
	}
	before := found.DeepCopy()
	found.Spec.PersistentVolumeReclaimPolicy = policy
	if err := admin.Patch(tb.Context(), found, client.MergeFrom(before)); err != nil {
		tb.Fatalf("changing the volume %s: %v", volume, err)
	}
}

// Namespace makes a namespace for one test.
func (c *Cluster) Namespace(tb testing.TB) string {
	tb.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := mustClient(tb, c.admin).Create(tb.Context(), namespace); err != nil {
		tb.Fatalf("making a namespace for the test: %v", err)
	}
	return namespace.Name
}

// AllowTaskKind has the API server take a further kind of SeiNodeTask, as the CRDs of a
// newer version would. It stays so for all tests of the cluster.
func (c *Cluster) AllowTaskKind(tb testing.TB, kind string) {
	tb.Helper()
	patch := fmt.Sprintf(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/kind/enum/-","value":%q}]`, kind)
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	definition.SetName("seinodetasks.sei.io")
	if err := mustClient(tb, c.admin).Patch(tb.Context(), definition, client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
		tb.Fatalf("letting the API server take the kind %s: %v", kind, err)
	}
}

func mustClient(tb testing.TB, config *rest.Config) client.WithWatch {
	tb.Helper()
	c, err := newClient(config)
	if err != nil {
		tb.Fatalf("making a client: %v", err)
	}
	return c
}

func newClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// Objects reads the Kubernetes objects of a YAML stream.
func Objects(reader io.Reader) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(reader, 4096)
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}

// operatorConfig asks for a token of the operator's ServiceAccount, as the
// kubelet does for the operator's pod.
func operatorConfig(ctx context.Context, admin *rest.Config, c client.Client) (*rest.Config, error) {
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = "sei-system", "sei-operator"
	request := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("asking for a token of the operator's ServiceAccount: %w", err)
	}
	config := rest.AnonymousClientConfig(admin)
	config.QPS = -1
	config.BearerToken = request.Status.Token
	return config, nil
}

// personConfig gives a group the cluster's ordinary admin role and impersonates
// a member of it: the API server authorises the request as that person's.
func personConfig(ctx context.Context, admin *rest.Config, c client.Client) (*rest.Config, error) {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test-people"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: people}},
	}
	if err := c.Create(ctx, binding); err != nil {
		return nil, fmt.Errorf("giving the test's person a role: %w", err)
	}
	config := rest.CopyConfig(admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: PersonUser, Groups: []string{people, "system:authenticated"}}
	return config, nil
}
