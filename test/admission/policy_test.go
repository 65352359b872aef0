package admission

import (
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// TestValidatorsAreNotDeletedByMistake: neither a validator, nor its claim, nor a fleet
// that would delete its validators. Deletions are real here, where others try.
func TestValidatorsAreNotDeletedByMistake(t *testing.T) {
	p := newPoliced(t)
	one, other := p.node("one", validator), p.node("other", validator)
	other.Annotations = map[string]string{v1alpha1.AnnotationConfirmDeletion: "one"}
	fleet, _ := p.fleet("fleet", 1, validator)
	fleet.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete
	kept, _ := p.fleet("kept", 1, validator)
	data, others := p.claim("data-one", ofMode(v1alpha1.ModeValidator)), p.claim("data-full", ofMode(v1alpha1.ModeFullNode))
	p.create(one, other, p.node("full", full), fleet, kept, data, others)

	for _, object := range []client.Object{one, other, fleet, data} {
		for who, by := range map[string]client.Client{"a person": p.person, "an administrator": p.admin} {
			p.refused(fmt.Sprintf("%s who deletes %T %s", who, object, object.GetName()), p.deleting(by, object), confirmation(object.GetName()))
		}
	}
	if err := p.person.DeleteAllOf(t.Context(), &v1alpha1.SeiNode{}, client.InNamespace(p.namespace)); !apierrors.IsForbidden(err) {
		t.Errorf("all are deleted at once: %v", err)
	}
	for _, object := range []client.Object{kept, others} {
		if err := p.person.Delete(t.Context(), object); err != nil {
			t.Errorf("%T %s is kept: %v", object, object.GetName(), err)
		}
	}
	for _, object := range []client.Object{one, other, fleet, data} {
		p.confirm(object)
		if err := p.person.Delete(t.Context(), object); err != nil {
			t.Errorf("%T %s cannot be deleted although it is meant: %v", object, object.GetName(), err)
		}
	}
}

// TestScalingDownTakesNoValidatorsByMistake, by whichever way the number is written.
func TestScalingDownTakesNoValidatorsByMistake(t *testing.T) {
	p := newPoliced(t)
	fleet, nodes := p.fleet("fleet", 2, validator)
	rpc, others := p.fleet("rpc", 2, full)
	p.create(fleet, rpc)
	p.create(append(nodes, others...)...)
	ways := map[string]func(*v1alpha1.SeiNodeDeployment, int) func() error{
		"an edit": func(of *v1alpha1.SeiNodeDeployment, to int) func() error {
			return func() error {
				patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, to))
				return p.person.Patch(t.Context(), of.DeepCopy(), patch, client.DryRunAll)
			}
		},
		"the scale sub-resource": func(of *v1alpha1.SeiNodeDeployment, to int) func() error {
			return func() error {
				scale := &autoscalingv1.Scale{
					ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name}, Spec: autoscalingv1.ScaleSpec{Replicas: int32(to)},
				}
				options := &client.SubResourceUpdateOptions{SubResourceBody: scale}
				options.DryRun = []string{metav1.DryRunAll}
				return p.person.SubResource("scale").Update(t.Context(), of.DeepCopy(), options)
			}
		},
	}
	for way, scaling := range ways {
		p.refused("one less by "+way, scaling(fleet, 1), confirmation("fleet-1"))
		p.refused("none by "+way, scaling(fleet, 0), v1alpha1.AnnotationConfirmDeletion)
		p.allowed("one more by "+way, scaling(fleet, 3))
		p.allowed("no more full nodes by "+way, scaling(rpc, 0))
	}
	p.confirm(nodes[1])
	for way, scaling := range ways {
		p.allowed("one less by "+way+", which is meant", scaling(fleet, 1))
		p.refused("none by "+way+", where one is meant", scaling(fleet, 0), confirmation("fleet-0"))
	}
	// Other edits remove nobody, also while a node that was too many is still there.
	_, before := p.fleet("fleet", 3, validator)
	p.create(before[2])
	p.confirm(nodes[0])
	p.refused("none, where two are meant", ways["an edit"](fleet, 0), confirmation("fleet-2"))
	edit := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"image":"registry.example.com/seid:v2"}}}}`))
	if err := p.person.Patch(t.Context(), fleet, edit); err != nil {
		t.Errorf("the image of a fleet cannot be edited: %v", err)
	}
	// The person was asked; the operator is not asked again.
	p.allowed("the operator, who deletes what was scaled down", p.deleting(p.cluster.Operator(t), before[2]))
}

// TestSmallerFleetsTakeNoValidatorsByMistake: the validators of a fleet that was deleted stay,
// and a new one of its name takes them back, or removes them if it is smaller.
func TestSmallerFleetsTakeNoValidatorsByMistake(t *testing.T) {
	p := newPoliced(t)
	same, nodes := p.fleet("fleet", 2, validator)
	smaller, _ := p.fleet("fleet", 1, validator)
	p.create(nodes...)
	p.refused("a smaller fleet", p.creating(p.person, smaller), confirmation("fleet-1"))
	p.allowed("a fleet of the same size", p.creating(p.person, same))
	p.confirm(nodes[1])
	p.allowed("a smaller fleet, which is meant", p.creating(p.person, smaller))
}

// TestNamespacesTakeNoValidatorsByMistake: what is in a namespace goes with it.
func TestNamespacesTakeNoValidatorsByMistake(t *testing.T) {
	p := newPoliced(t)
	one, other := p.node("one", validator), p.node("other", validator)
	p.create(one, other, p.node("full", full))
	with := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	p.refused("a namespace with validators", p.deleting(p.admin, with), v1alpha1.AnnotationConfirmDeletion)
	p.confirm(one)
	p.refused("a namespace with one validator that is not meant", p.deleting(p.admin, with), confirmation("other"))
	p.confirm(other)
	p.allowed("a namespace whose validators are meant", p.deleting(p.admin, with))

	without := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.cluster.Namespace(t)}}
	node := p.node("full", full)
	node.Namespace = without.Name
	p.create(node)
	p.allowed("a namespace without validators", p.deleting(p.admin, without))
}

// TestDefinitionsAreNotDeletedByMistake: all objects of a kind go with its definition, and
// no policy is asked about them.
func TestDefinitionsAreNotDeletedByMistake(t *testing.T) {
	p := newPoliced(t)
	for _, name := range []string{"seinodes.sei.io", "seinodedeployments.sei.io"} {
		definition := &unstructured.Unstructured{}
		definition.SetAPIVersion("apiextensions.k8s.io/v1")
		definition.SetKind("CustomResourceDefinition")
		definition.SetName(name)
		p.refused("the definition "+name, p.deleting(p.admin, definition), confirmation(name))
		p.confirm(definition)
		t.Cleanup(func() { p.annotate(definition, nil) })
		p.allowed("the definition "+name+", which is meant", p.deleting(p.admin, definition))
	}
}

// TestImportedClaimsAreNotDeletedByMistake: the operator writes nothing on them, so they
// are known by the validator that imports them.
func TestImportedClaimsAreNotDeletedByMistake(t *testing.T) {
	p := newPoliced(t)
	imported, ofFull, unused := p.claim("imported", nil), p.claim("of-full", nil), p.claim("unused", nil)
	p.create(imported, ofFull, unused, p.node("one", validator, imports("imported")), p.node("full", full, imports("of-full")))
	p.refused("the claim of a validator", p.deleting(p.person, imported), confirmation("imported"))
	p.refused("all claims at once", func() error {
		return p.person.DeleteAllOf(t.Context(), &corev1.PersistentVolumeClaim{}, client.InNamespace(p.namespace), client.DryRunAll)
	}, confirmation("imported"))
	for _, claim := range []client.Object{ofFull, unused} {
		p.allowed("the claim "+claim.GetName(), p.deleting(p.person, claim))
	}
	p.confirm(imported)
	p.allowed("a claim that is meant", p.deleting(p.person, imported))
}

// TestOnlyTheOperatorIsLetThrough: it is known by its name and its role, wherever it is
// installed. Whoever has only one of the two is a stranger.
func TestOnlyTheOperatorIsLetThrough(t *testing.T) {
	p := newPoliced(t)
	elsewhere, impostors := p.cluster.Namespace(t), p.cluster.Namespace(t)
	account := func(namespace, name, role string) client.Client {
		p.createAs(p.admin, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		})
		return p.as("system:serviceaccount:"+namespace+":"+name, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	node, claim := p.node("one", validator), p.claim("data-one", ofMode(v1alpha1.ModeValidator))
	p.create(node, claim)
	strangers := map[string]client.Client{
		"somebody who may do everything": account(elsewhere, "deployer", "cluster-admin"), "an administrator of the operator's name": account(impostors, "sei-operator", "admin"),
	}
	operators := map[string]client.Client{
		"the operator": p.cluster.Operator(t), "the operator of another namespace": account(elsewhere, "sei-operator", "sei-operator"),
	}
	for _, object := range []client.Object{node, claim} {
		for who, by := range strangers {
			p.refused(who, p.deleting(by, object), confirmation(object.GetName()))
		}
		for who, by := range operators {
			p.allowed(who, p.deleting(by, object))
		}
	}
}

// TestPoliciesAreUnderstood: the API server knows every field that they name.
func TestPoliciesAreUnderstood(t *testing.T) {
	p := newPoliced(t)
	for _, object := range shipped(t, "access") {
		if object.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		checked := cluster.Eventually(t, p.admin, client.ObjectKeyFromObject(object), "the policy to be checked", func(policy *admissionv1.ValidatingAdmissionPolicy) bool {
			return policy.Status.TypeChecking != nil
		})
		for _, warning := range checked.Status.TypeChecking.ExpressionWarnings {
			t.Errorf("%s: %s: %s", checked.Name, warning.FieldRef, warning.Warning)
		}
	}
}
