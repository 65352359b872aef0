package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// policed is a namespace of a cluster in which the shipped policies are installed.
type policed struct {
	t             *testing.T
	cluster       *cluster.Cluster
	admin, person client.WithWatch
	namespace     string
}

// newPoliced installs the policies, and takes them away at the end. The API server tells
// nobody when it has taken one up, so a test begins with something that is refused.
func newPoliced(t *testing.T) *policed {
	t.Helper()
	c := cluster.Get(t)
	p := &policed{t: t, cluster: c, admin: c.Admin(t), person: c.Person(t), namespace: c.Namespace(t)}
	for _, object := range shipped(t, "access") {
		if strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") {
			p.createAs(p.admin, object)
			t.Cleanup(func() {
				if err := p.admin.Delete(context.WithoutCancel(t.Context()), object); err != nil {
					t.Error(err)
				}
			})
		}
	}
	return p
}

func (p *policed) create(objects ...client.Object) { p.t.Helper(); p.createAs(p.person, objects...) }

func (p *policed) createAs(by client.Client, objects ...client.Object) {
	p.t.Helper()
	for _, object := range objects {
		if err := by.Create(p.t.Context(), object); err != nil {
			p.t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
		}
	}
}

// confirm puts the annotation on an object.
func (p *policed) confirm(object client.Object) {
	p.t.Helper()
	p.annotate(object, object.GetName())
}

// annotate sets the annotation to a value, or with nil takes it away.
func (p *policed) annotate(object client.Object, value any) {
	p.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationConfirmDeletion: value}}})
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.admin.Patch(context.WithoutCancel(p.t.Context()), object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		p.t.Fatal(err)
	}
}

// confirmation is what a refusal asks for.
func confirmation(name string) string { return v1alpha1.AnnotationConfirmDeletion + "=" + name + " " }

// refused waits until an attempt is refused with these words. attempt is a dry run: those
// before a policy, a role or an object is known to the API server may succeed.
func (p *policed) refused(what string, attempt func() error, says ...string) {
	p.t.Helper()
	p.until(what+" to be refused", attempt, func(err error) bool {
		for _, words := range says {
			if err == nil || !strings.Contains(err.Error(), words) {
				return false
			}
		}
		return apierrors.IsForbidden(err)
	})
}

// allowed waits until an attempt succeeds. It says something only after the policy that
// might refuse it is seen to work.
func (p *policed) allowed(what string, attempt func() error) {
	p.t.Helper()
	p.until(what+" to be allowed", attempt, func(err error) bool { return err == nil })
}

func (p *policed) until(what string, attempt func() error, ok func(error) bool) {
	p.t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(30 * time.Second); ; <-look.C {
		err := attempt()
		if ok(err) {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("waited for %s: %v", what, err)
		}
	}
}

// deleting is an attempt to delete an object.
func (p *policed) deleting(by client.Client, object client.Object) func() error {
	return func() error { return by.Delete(p.t.Context(), object, client.DryRunAll) }
}

// creating is an attempt to create an object.
func (p *policed) creating(by client.Client, object client.Object) func() error {
	return func() error {
		return by.Create(p.t.Context(), object.DeepCopyObject().(client.Object), client.DryRunAll)
	}
}

// as acts as a user.
func (p *policed) as(user string, groups ...string) client.Client {
	p.t.Helper()
	config := p.cluster.PersonConfig(p.t)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := client.New(config, client.Options{Scheme: p.person.Scheme()})
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// bind gives a user a role in the namespace.
func (p *policed) bind(user, role string) {
	p.t.Helper()
	p.createAs(p.admin, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, GenerateName: "test-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}

func (p *policed) node(name string, change ...func(*v1alpha1.SeiNode)) *v1alpha1.SeiNode {
	node := &v1alpha1.SeiNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name},
		Spec:       v1alpha1.SeiNodeSpec{ChainID: "testnet-1", Image: "registry.example.com/seid:v1"},
	}
	for _, f := range change {
		f(node)
	}
	return node
}

func validator(node *v1alpha1.SeiNode) { node.Spec.Validator = &v1alpha1.ValidatorSpec{} }
func full(node *v1alpha1.SeiNode)      { node.Spec.FullNode = &v1alpha1.FullNodeSpec{} }

func imports(claim string) func(*v1alpha1.SeiNode) {
	return func(node *v1alpha1.SeiNode) {
		node.Spec.DataVolume = &v1alpha1.DataVolumeSpec{Import: &v1alpha1.VolumeImport{PVCName: claim}}
	}
}

// fleet is a fleet, and the nodes that it has.
func (p *policed) fleet(name string, replicas int32, mode func(*v1alpha1.SeiNode)) (*v1alpha1.SeiNodeDeployment, []client.Object) {
	fleet := &v1alpha1.SeiNodeDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name},
		Spec:       v1alpha1.SeiNodeDeploymentSpec{Replicas: &replicas, Template: v1alpha1.SeiNodeTemplate{Spec: p.node("x", mode).Spec}},
	}
	var nodes []client.Object
	for ordinal := range int(replicas) {
		nodes = append(nodes, p.node(fmt.Sprintf("%s-%d", name, ordinal), mode, func(node *v1alpha1.SeiNode) {
			node.Labels = map[string]string{v1alpha1.LabelDeployment: name}
		}))
	}
	return fleet, nodes
}

func (p *policed) claim(name string, labels map[string]string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name, Labels: maps.Clone(labels)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// ofMode are the labels that the operator gives to the claims of nodes of a mode.
func ofMode(mode v1alpha1.Mode) map[string]string {
	return map[string]string{v1alpha1.LabelMode: string(mode)}
}
