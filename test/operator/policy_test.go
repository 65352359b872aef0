package operator_test

import (
	"context"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// sharesProcesses is a policy that has the pods of every StatefulSet of the namespace
// share processes with their machine, with every write. It returns when that is so.
func (r *rig) sharesProcesses() {
	r.t.Helper()
	meta := metav1.ObjectMeta{Name: r.namespace + "-processes"}
	equivalent := admissionv1.Equivalent
	policy := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.MutatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			MatchPolicy:       &equivalent,
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: r.namespace}},
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"statefulsets"}},
			}}},
		},
		ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
		Mutations: []admissionv1.Mutation{{
			PatchType: admissionv1.PatchTypeApplyConfiguration,
			ApplyConfiguration: &admissionv1.ApplyConfiguration{
				Expression: `Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{hostPID: true}}}}`,
			},
		}},
	}}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: meta.Name}}
	admin := r.cluster.Admin(r.t)
	for _, object := range []client.Object{policy, binding} {
		if err := admin.Create(r.t.Context(), object); err != nil {
			r.t.Fatalf("making the policy: %v", err)
		}
		r.t.Cleanup(func() {
			if err := admin.Delete(context.WithoutCancel(r.t.Context()), object); err != nil {
				r.t.Errorf("removing the policy: %v", err)
			}
		})
	}
	each(r.t, "the policy to be in force", func() bool {
		labels := map[string]string{"a": "b"}
		trial := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "trial"},
			Spec: appsv1.StatefulSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "seid", Image: image}}},
				},
			},
		}
		if err := r.person.Create(r.t.Context(), trial, client.DryRunAll); err != nil {
			r.t.Fatal(err)
		}
		return trial.Spec.Template.Spec.HostPID
	})
}

// A policy is stronger than we are: it adds the same to whatever we write. The node
// says what its pods start with, and that is all.
func TestAPolicyIsToldOfAndNotFought(t *testing.T) {
	t.Parallel()
	w := &writes{}
	r := newRig(t, w.record)
	r.sharesProcesses()
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	told := r.until("alpha", "the node to tell", has(v1alpha1.ConditionNodeUpdateInProgress, metav1.ConditionFalse, v1alpha1.ReasonForeignTemplate))
	r.settled("alpha")
	set := &appsv1.StatefulSet{}
	r.get("alpha", set)
	if !set.Spec.Template.Spec.HostPID {
		t.Error("the policy did not work")
	}
	if applied, patched := w.of("apply", "StatefulSet"), w.of("patch", "StatefulSet"); len(applied) != 1 || len(patched) != 0 {
		t.Errorf("it wrote the StatefulSet: %v", w.all())
	}
	if after := r.ready("alpha"); after.Status.LastPlan.StartTime != told.Status.LastPlan.StartTime || after.Status.LastPlan.Type != v1alpha1.PlanBootstrap {
		t.Errorf("another plan was made: %+v", after.Status.LastPlan)
	}
}
