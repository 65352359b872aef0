package admission

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// shipped are the objects of a directory of config.
func shipped(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "config", dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there is nothing in config/%s: %v", dir, err)
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := cluster.Objects(bytes.NewReader(content))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, objects...)
	}
	return all
}

// TestShippedManifests: the API server takes everything that is shipped, and knows every
// field of it.
func TestShippedManifests(t *testing.T) {
	c := cluster.Get(t)
	strict := client.NewDryRunClient(client.WithFieldValidation(c.Admin(t), "Strict"))
	// The examples name a namespace that people put the name of theirs in the place of.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sei-nodes"}}
	if err := c.Admin(t).Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"access", "operator"} {
		for _, object := range shipped(t, dir) {
			err := strict.Create(t.Context(), object)
			if err != nil && !apierrors.IsAlreadyExists(err) {
				t.Errorf("config/%s: %s %s: %v", dir, object.GetKind(), object.GetName(), err)
			}
		}
	}
}

// TestShippedSettings: what is shipped can be read, has access control on, and gives the
// operator a token that is of no use elsewhere.
func TestShippedSettings(t *testing.T) {
	for _, object := range shipped(t, "operator") {
		switch object.GetKind() {
		case "ConfigMap":
			text, _, _ := unstructured.NestedString(object.Object, "data", "platform.yaml")
			settings, err := platform.Parse("platform.yaml", []byte(text))
			if err != nil || !settings.AccessControl.Enabled {
				t.Errorf("access control is not on: %v", err)
			}
		}
	}
}

// TestNetworkPolicies checks their shape: the lab's network enforces none.
func TestNetworkPolicies(t *testing.T) {
	open := map[int]int{} // how many kinds of callers a port is open to; 0: to everybody
	for _, object := range shipped(t, "access") {
		if object.GetKind() != "NetworkPolicy" || object.GetName() != "sei-nodes" {
			continue
		}
		policy := &networkingv1.NetworkPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy); err != nil {
			t.Fatal(err)
		}
		checkSelection(t, policy)
		for _, rule := range policy.Spec.Ingress {
			checkRule(t, rule)
			for _, port := range rule.Ports {
				open[port.Port.IntValue()] = len(rule.From)
			}
		}
	}
	want := map[int]int{26656: 0, 8443: 2, 26657: 2, 1317: 2, 9090: 2, 8545: 2, 8546: 2, 26660: 1}
	for port, callers := range want {
		if got, found := open[port]; !found || got != callers {
			t.Errorf("port %d is open to %d kinds of callers, %v", port, got, found)
		}
	}
	if len(open) != len(want) {
		t.Errorf("open are %v", open)
	}
}

// checkSelection: the policy is about who connects to nodes, and about nothing else.
func checkSelection(t *testing.T, policy *networkingv1.NetworkPolicy) {
	t.Helper()
	selects := policy.Spec.PodSelector.MatchExpressions
	if len(selects) != 1 || selects[0].Key != v1alpha1.LabelNode || selects[0].Operator != metav1.LabelSelectorOpExists {
		t.Errorf("it is about other pods than those of nodes: %v", policy.Spec.PodSelector)
	}
	if len(policy.Spec.PolicyTypes) != 1 || policy.Spec.PolicyTypes[0] != networkingv1.PolicyTypeIngress {
		t.Errorf("it is about %v", policy.Spec.PolicyTypes)
	}
}

// checkRule: nothing is open by an empty list or selector.
func checkRule(t *testing.T, rule networkingv1.NetworkPolicyIngressRule) {
	t.Helper()
	if len(rule.Ports) == 0 {
		t.Error("a rule opens every port")
	}
	for _, from := range rule.From {
		if from.NamespaceSelector != nil && len(from.NamespaceSelector.MatchLabels) == 0 {
			t.Error("a rule lets in every namespace")
		}
	}
}

// TestValidatorsAreNotDeletedByMistake plays the policy that is shipped.
func TestValidatorsAreNotDeletedByMistake(t *testing.T) {
	c := cluster.Get(t)
	admin, person, namespace := c.Admin(t), c.Person(t), c.Namespace(t)
	protect(t, c, namespace)

	validator := &v1alpha1.SeiNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "validator"},
		Spec:       v1alpha1.SeiNodeSpec{ChainID: "testnet-1", Image: "registry.example.com/seid:v1", Validator: &v1alpha1.ValidatorSpec{}},
	}
	full := &v1alpha1.SeiNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "full"},
		Spec:       v1alpha1.SeiNodeSpec{ChainID: "testnet-1", Image: "registry.example.com/seid:v1", FullNode: &v1alpha1.FullNodeSpec{}},
	}
	fleet := &v1alpha1.SeiNodeDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleet"},
		Spec: v1alpha1.SeiNodeDeploymentSpec{
			Replicas: new(int32(1)), DeletionPolicy: v1alpha1.DeletionPolicyDelete, Template: v1alpha1.SeiNodeTemplate{Spec: validator.Spec},
		},
	}
	kept := fleet.DeepCopy()
	kept.Name, kept.Spec.DeletionPolicy = "kept", v1alpha1.DeletionPolicyRetain
	other := validator.DeepCopy()
	other.Name, other.Annotations = "other", map[string]string{v1alpha1.AnnotationConfirmDeletion: "validator"}
	for _, object := range []client.Object{validator, full, fleet, kept, other, claim(namespace, "data-validator", "validator"), claim(namespace, "data-full", "fullNode")} {
		if err := person.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range []client.Object{validator, fleet, other, claim(namespace, "data-validator", "validator")} {
		for who, by := range map[string]client.Client{"a person": person, "an administrator": admin} {
			err := by.Delete(t.Context(), object)
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), v1alpha1.AnnotationConfirmDeletion+"="+object.GetName()) {
				t.Errorf("%s deletes %T %s: %v", who, object, object.GetName(), err)
			}
		}
	}
	if err := person.DeleteAllOf(t.Context(), &v1alpha1.SeiNode{}, client.InNamespace(namespace)); !apierrors.IsForbidden(err) {
		t.Errorf("all are deleted at once: %v", err)
	}
	for _, object := range []client.Object{kept, claim(namespace, "data-full", "fullNode")} {
		if err := person.Delete(t.Context(), object); err != nil {
			t.Errorf("%T %s is kept: %v", object, object.GetName(), err)
		}
	}
	// The operator does what the SeiNode's policy says.
	if err := c.Operator(t).Delete(t.Context(), claim(namespace, "data-validator", "validator")); err != nil {
		t.Errorf("the operator cannot delete a claim: %v", err)
	}
	for _, object := range []client.Object{validator, fleet, other} {
		before := object.DeepCopyObject().(client.Object)
		object.SetAnnotations(map[string]string{v1alpha1.AnnotationConfirmDeletion: object.GetName()})
		if err := person.Patch(t.Context(), object, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		if err := person.Delete(t.Context(), object); err != nil {
			t.Errorf("%T %s cannot be deleted although it is meant: %v", object, object.GetName(), err)
		}
	}
}

func claim(namespace, name, mode string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelMode: mode}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// protect installs the policy, waits until the API server goes by it, and takes it away
// at the end.
func protect(t *testing.T, c *cluster.Cluster, namespace string) {
	t.Helper()
	admin := c.Admin(t)
	for _, object := range shipped(t, "access") {
		if !strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") {
			continue
		}
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := admin.Delete(context.WithoutCancel(t.Context()), object); err != nil {
				t.Error(err)
			}
		})
	}
	// The API server tells nobody when it has taken a policy up.
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(time.Minute); ; <-look.C {
		probe := claim(namespace, "probe", "validator")
		if err := client.IgnoreAlreadyExists(admin.Create(t.Context(), probe)); err != nil {
			t.Fatal(err)
		}
		err := admin.Delete(t.Context(), probe, client.DryRunAll)
		if apierrors.IsForbidden(err) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the policy is not in force: %v", err)
		}
	}
}
