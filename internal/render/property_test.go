package render

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/platform"
)

// maybe is a value or nothing.
func maybe[T any](t *rapid.T, name string, value func() *T) *T {
	if rapid.Bool().Draw(t, "has "+name) {
		return value()
	}
	return nil
}

func word(t *rapid.T, name string) string {
	return rapid.StringMatching(`[a-z][a-z0-9]{0,8}`).Draw(t, name)
}

func words(t *rapid.T, name string) map[string]string {
	return rapid.MapOfN(rapid.StringMatching(`[a-z]{1,6}`), rapid.StringMatching(`([a-z0-9]{1,6})?`), 0, 4).Draw(t, name)
}

func amounts(t *rapid.T, name string) corev1.ResourceList {
	var list corev1.ResourceList
	for _, kind := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if rapid.Bool().Draw(t, name+string(kind)) {
			if list == nil {
				list = corev1.ResourceList{}
			}
			unit := rapid.SampledFrom([]string{"", "m", "Mi", "Gi"}).Draw(t, name+" unit")
			list[kind] = resource.MustParse(fmt.Sprintf("%d%s", rapid.IntRange(1, 5000).Draw(t, name+" amount"), unit))
		}
	}
	return list
}

func amountsOf(t *rapid.T, name string) func() *corev1.ResourceRequirements {
	return func() *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Requests: amounts(t, name+" requests"), Limits: amounts(t, name+" limits")}
	}
}

// anySettings are settings that a file can lead to.
func anySettings(t *rapid.T) platform.Settings {
	all := settings()
	all.AccessControl.Enabled = rapid.Bool().Draw(t, "access control")
	if rapid.Bool().Draw(t, "proxy image") {
		all.AccessControl.ProxyImage = "registry.example.com/proxy:v1"
	}
	for mode, of := range all.Modes {
		of.NodeSelector = map[string]string{"mode": string(mode)}
		of.Tolerations = tolerations(t, "of the mode")
		all.Modes[mode] = of
	}
	return all
}

func tolerations(t *rapid.T, name string) []corev1.Toleration {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) corev1.Toleration {
		return corev1.Toleration{Key: word(t, "taint"), Operator: corev1.TolerationOpExists}
	}), 0, 3).Draw(t, name)
}

// anyNode is a node that admission accepts.
func anyNode(t *rapid.T) *v1alpha1.SeiNode {
	node := newNode(rapid.SampledFrom(modes).Draw(t, "mode"))
	node.Name = word(t, "name")
	node.UID = types.UID(word(t, "uid"))
	spec := &node.Spec
	spec.ChainID = word(t, "chain")
	spec.Image = word(t, "image")
	snapshot := maybe(t, "snapshot", func() *v1alpha1.SnapshotSource {
		return &v1alpha1.SnapshotSource{StateSync: &v1alpha1.StateSyncSource{}}
	})
	generation := maybe(t, "snapshot generation", func() *v1alpha1.SnapshotGeneration {
		return &v1alpha1.SnapshotGeneration{Interval: rapid.Int64Range(1, 9999).Draw(t, "interval"), KeepRecent: 2}
	})
	switch {
	case spec.FullNode != nil:
		spec.FullNode.Snapshot, spec.FullNode.SnapshotGeneration = snapshot, generation
	case spec.Archive != nil:
		spec.Archive.SnapshotGeneration = generation
	case spec.Replayer != nil:
		spec.Replayer.Snapshot = snapshot
	case spec.Validator != nil:
		spec.Validator.Snapshot = snapshot
		if rapid.Bool().Draw(t, "keys of its own") {
			spec.Validator.SigningKey, spec.Validator.NodeKey = nil, nil
		}
		if rapid.Bool().Draw(t, "no keyring") {
			spec.Validator.OperatorKeyring = nil
		}
	}
	anyConfiguration(t, spec)
	anyPod(t, spec)
	return node
}

func anyConfiguration(t *rapid.T, spec *v1alpha1.SeiNodeSpec) {
	spec.Overrides = rapid.MapOfN(rapid.StringMatching(`(config|app)\.[a-z]{1,6}`), rapid.String(), 0, 3).Draw(t, "overrides")
	spec.Paused = rapid.Bool().Draw(t, "paused")
	if rapid.Bool().Draw(t, "has external address") {
		spec.ExternalAddress = word(t, "host") + ":26656"
	}
	spec.Genesis = maybe(t, "genesis", func() *v1alpha1.GenesisSource {
		if rapid.Bool().Draw(t, "genesis from a URL") {
			return &v1alpha1.GenesisSource{URL: &v1alpha1.GenesisURL{URL: "https://example.com/genesis.json", SHA256: strings.Repeat("0", 64)}}
		}
		return &v1alpha1.GenesisSource{ConfigMap: &v1alpha1.ConfigMapEntry{Name: word(t, "genesis"), Key: "genesis.json"}}
	})
	spec.DataVolume = maybe(t, "data volume", func() *v1alpha1.DataVolumeSpec {
		if rapid.Bool().Draw(t, "import") {
			return &v1alpha1.DataVolumeSpec{Import: &v1alpha1.VolumeImport{PVCName: word(t, "claim")}}
		}
		return &v1alpha1.DataVolumeSpec{
			Size:             maybe(t, "size", func() *resource.Quantity { return new(resource.MustParse("5Gi")) }),
			StorageClassName: word(t, "class"), DeletionPolicy: v1alpha1.DeletionPolicyRetain,
		}
	})
}

func anyPod(t *rapid.T, spec *v1alpha1.SeiNodeSpec) {
	spec.Sidecar = maybe(t, "sidecar", func() *v1alpha1.SidecarSpec {
		return &v1alpha1.SidecarSpec{
			Image: rapid.StringMatching(`([a-z]{1,6})?`).Draw(t, "sidecar image"), Port: rapid.Int32Range(30000, 40000).Draw(t, "port"),
			Resources: maybe(t, "sidecar resources", amountsOf(t, "sidecar")),
		}
	})
	spec.Resources = maybe(t, "resources", amountsOf(t, "seid"))
	spec.Scheduling = maybe(t, "scheduling", func() *v1alpha1.SchedulingSpec {
		return &v1alpha1.SchedulingSpec{
			NodeSelector: words(t, "node selector"), Tolerations: tolerations(t, "tolerations"),
			Affinity: maybe(t, "affinity", func() *corev1.Affinity { return everything().Spec.Scheduling.Affinity }),
		}
	})
	spec.PodAnnotations = words(t, "annotations")
	for key, value := range words(t, "labels") {
		if spec.PodLabels == nil {
			spec.PodLabels = map[string]v1alpha1.LabelValue{}
		}
		spec.PodLabels[key] = v1alpha1.LabelValue(value)
	}
	spec.ExtraArgs = rapid.SliceOfN(rapid.StringMatching(`--[a-z]{1,6}(=[a-z]{1,6})?`), 0, 3).Draw(t, "arguments")
	spec.ExtraEnv = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) corev1.EnvVar {
		name := rapid.SampledFrom([]string{"TMPDIR", "GOMEMLIMIT", "SEI_LOG_FORMAT", "GOGC", "A", "B"}).Draw(t, "variable")
		if rapid.Bool().Draw(t, "from a Secret") {
			return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "other"}, Key: "k",
			}}}
		}
		return corev1.EnvVar{Name: name, Value: rapid.String().Draw(t, "value")}
	}), 0, 4, func(variable corev1.EnvVar) string { return variable.Name }).Draw(t, "environment")
}

// TestAnySpecRendersSafely: whatever admission accepts is rendered, passes the guards,
// leaves the spec alone, and is rendered the same way a second time.
func TestAnySpecRendersSafely(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		node, with := anyNode(t), anySettings(t)
		before := node.DeepCopy()
		first, err := Node(node, with)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, node); diff != "" {
			t.Fatalf("rendering changed the node: %s", diff)
		}
		second, err := Node(before, with)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatalf("rendered twice (-first +second):\n%s", diff)
		}
	})
}

// TestHashChangesExactlyWithTheTemplate: of any two nodes.
func TestHashChangesExactlyWithTheTemplate(t *testing.T) {
	t.Parallel()
	withoutHash := func(t *rapid.T, want Desired) string {
		template := want.StatefulSet.Spec.Template
		delete(template.Annotations, v1alpha1.AnnotationTemplateHash)
		text, err := json.Marshal(template)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	rapid.Check(t, func(t *rapid.T) {
		node, with := anyNode(t), anySettings(t)
		other := node.DeepCopy()
		if rapid.Bool().Draw(t, "edit the configuration") {
			anyConfiguration(t, &other.Spec)
		}
		if rapid.Bool().Draw(t, "edit the pod") {
			anyPod(t, &other.Spec)
		}
		a, errA := Node(node, with)
		b, errB := Node(other, with)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		sameHash := a.TemplateHash == b.TemplateHash
		if same := withoutHash(t, a) == withoutHash(t, b); same != sameHash {
			t.Fatalf("the same template: %v, the same hash: %v", same, sameHash)
		}
	})
}

// TestNothingIsLostOnTheWay: every field that is rendered is in the object that the
// API server stores. One that is not, an empty value for example, would differ from
// what the operator owns for ever, and be written at every reconcile.
func TestNothingIsLostOnTheWay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want, err := Node(anyNode(t), anySettings(t))
		if err != nil {
			t.Fatal(err)
		}
		if lost := lostBy[appsv1.StatefulSet](t, want.StatefulSet); lost != "" {
			t.Errorf("the StatefulSet loses %s", lost)
		}
		if lost := lostBy[corev1.Service](t, want.Service); lost != "" {
			t.Errorf("the Service loses %s", lost)
		}
	})
}

// lostBy is a field that is not in the stored object, or not as it was rendered.
func lostBy[Stored any](t *rapid.T, rendered any) string {
	stored, err := convert[Stored](rendered)
	if err != nil {
		t.Fatal(err)
	}
	from, err := convert[any](rendered)
	if err != nil {
		t.Fatal(err)
	}
	to, err := convert[any](stored)
	if err != nil {
		t.Fatal(err)
	}
	return missing("", *from, *to)
}

func missing(path string, from, to any) string {
	switch value := from.(type) {
	case map[string]any:
		other, ok := to.(map[string]any)
		if !ok {
			return path
		}
		for key := range value {
			if _, ok := other[key]; !ok {
				return path + "." + key
			}
			if lost := missing(path+"."+key, value[key], other[key]); lost != "" {
				return lost
			}
		}
	case []any:
		other, ok := to.([]any)
		if !ok || len(other) != len(value) {
			return path
		}
		for i := range value {
			if lost := missing(fmt.Sprintf("%s[%d]", path, i), value[i], other[i]); lost != "" {
				return lost
			}
		}
	default:
		if from != to {
			return path
		}
	}
	return ""
}
