package render

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/platform"
)

var modes = []v1alpha1.Mode{
	v1alpha1.ModeFullNode, v1alpha1.ModeValidator, v1alpha1.ModeArchive, v1alpha1.ModeSeed, v1alpha1.ModeReplayer,
}

// settings are those without a file, with an image that no release changes.
func settings() platform.Settings {
	all := platform.Default()
	all.SidecarImage = "registry.example.com/sidecar:v1"
	return all
}

func withAccessControl() platform.Settings {
	all := settings()
	all.AccessControl.Enabled = true
	return all
}

func key(secret string) *v1alpha1.KeySource {
	return &v1alpha1.KeySource{Secret: &v1alpha1.KeySecret{SecretName: secret}}
}

// newNode is a node of a mode with everything that the mode can have of keys.
func newNode(mode v1alpha1.Mode) *v1alpha1.SeiNode {
	node := &v1alpha1.SeiNode{
		ObjectMeta: metav1.ObjectMeta{Name: "node", Namespace: "sei", UID: "5e4f0b4c-6f0a-4a57-9a70-7f1f5c1f0001"},
		Spec:       v1alpha1.SeiNodeSpec{ChainID: "pacific-1", Image: "registry.example.com/seid:v6"},
	}
	switch mode {
	case v1alpha1.ModeValidator:
		node.Spec.Validator = &v1alpha1.ValidatorSpec{
			SigningKey: key("signing"),
			NodeKey:    key("identity"),
			OperatorKeyring: &v1alpha1.OperatorKeyring{Secret: &v1alpha1.KeyringSecret{
				SecretName: "keyring", KeyName: "node_admin",
				PassphraseSecretRef: v1alpha1.SecretEntry{SecretName: "passphrase", Key: "passphrase"},
			}},
		}
	case v1alpha1.ModeArchive:
		node.Spec.Archive = &v1alpha1.ArchiveSpec{}
	case v1alpha1.ModeSeed:
		node.Spec.Seed = &v1alpha1.SeedSpec{NodeKey: *key("identity")}
	case v1alpha1.ModeReplayer:
		node.Spec.Replayer = &v1alpha1.ReplayerSpec{}
	default:
		node.Spec.FullNode = &v1alpha1.FullNodeSpec{}
	}
	return node
}

// change is an edit of a node.
func change(node *v1alpha1.SeiNode, edit func(*v1alpha1.SeiNodeSpec)) *v1alpha1.SeiNode {
	edited := node.DeepCopy()
	edit(&edited.Spec)
	return edited
}

func render(t *testing.T, node *v1alpha1.SeiNode, with platform.Settings) Desired {
	t.Helper()
	want, err := Node(node, with)
	if err != nil {
		t.Fatal(err)
	}
	return want
}

// templateOf is the pod template as Kubernetes reads it.
func templateOf(t *testing.T, want Desired) corev1.PodTemplateSpec {
	t.Helper()
	template, err := convert[corev1.PodTemplateSpec](want.StatefulSet.Spec.Template)
	if err != nil {
		t.Fatal(err)
	}
	return *template
}

func containerOf(t *testing.T, template *corev1.PodTemplateSpec, name string) *corev1.Container {
	t.Helper()
	for _, all := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range all {
			if all[i].Name == name {
				return &all[i]
			}
		}
	}
	t.Fatalf("there is no container %s", name)
	return nil
}

func variables(container *corev1.Container) map[string]string {
	all := map[string]string{}
	for _, variable := range container.Env {
		all[variable.Name] = variable.Value
	}
	return all
}
