package platform

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// noEnvironment is an environment in which nothing is set.
func noEnvironment(string) string { return "" }

func load(t *testing.T, content string, environment func(string) string) (Settings, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "platform.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path, environment)
}

func TestDefaultsOfEveryMode(t *testing.T) {
	t.Parallel()
	settings := Default()
	if want := "ghcr.io/sei-operator/sei-sidecar:dev"; settings.SidecarImage != want {
		t.Errorf("the sidecar's image is %s, not %s", settings.SidecarImage, want)
	}
	if settings.AccessControl != (AccessControl{}) || settings.Witnesses != nil {
		t.Errorf("something is on by default: %+v, %v", settings.AccessControl, settings.Witnesses)
	}
	for mode, want := range map[v1alpha1.Mode][3]string{
		v1alpha1.ModeFullNode:  {"32", "256Gi", "2000Gi"},
		v1alpha1.ModeValidator: {"16", "128Gi", "2000Gi"},
		v1alpha1.ModeArchive:   {"64", "512Gi", "40Ti"},
		v1alpha1.ModeSeed:      {"1", "2Gi", "20Gi"},
		v1alpha1.ModeReplayer:  {"32", "256Gi", "2000Gi"},
	} {
		got := settings.Modes[mode]
		memory := resource.MustParse(want[1])
		expected := ModeSettings{
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(want[0]), corev1.ResourceMemory: memory},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: memory},
			},
			Storage: Storage{Size: resource.MustParse(want[2])},
		}
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", mode, diff)
		}
	}
	if len(settings.Modes) != 5 {
		t.Errorf("there are %d modes", len(settings.Modes))
	}
}

func TestNothingGivenMeansTheDefaults(t *testing.T) {
	t.Parallel()
	without, err := Load("", noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), without); diff != "" {
		t.Errorf("without a file (-want +got):\n%s", diff)
	}
	for _, content := range []string{
		"", "\n", "# nothing but a comment\n", "---\n", "{}\n",
		"images:\naccessControl:\nmodes:\nstateSync:\n",
		"images: {}\naccessControl: {}\nmodes: {archive: {storage: {}, resources: {requests: {}, limits: }}}\nstateSync: {witnesses: {}}\n",
	} {
		got, err := load(t, content, noEnvironment)
		if err != nil {
			t.Errorf("%q: %v", content, err)
		} else if diff := cmp.Diff(Default(), got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", content, diff)
		}
	}
}

func TestSettingsAreNotShared(t *testing.T) {
	t.Parallel()
	Default().Modes[v1alpha1.ModeSeed].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("99")
	if cpu := Default().Modes[v1alpha1.ModeSeed].Resources.Requests[corev1.ResourceCPU]; cpu.String() != "1" {
		t.Errorf("a change of one value changed the next: %s", &cpu)
	}
}

func TestFileIsMergedOverTheDefaultsFieldByField(t *testing.T) {
	t.Parallel()
	got, err := load(t, `
images:
  sidecar: registry.example.com/sidecar:v1
accessControl:
  enabled: true
  proxyImage: registry.example.com/proxy:v2
  caFile: /etc/sei/authorities/ca.crt
modes:
  archive:
    resources:
      requests: {cpu: 8}
    storage:
      className: slow
    nodeSelector:
      example.com/disk: large
    tolerations:
    - {key: example.com/sei, operator: Exists, effect: NoExecute, tolerationSeconds: 60}
    - {key: example.com/kind, value: "1"}
  seed:
    resources: &small
      requests: {memory: 1Gi}
      limits: {memory: 1Gi, ephemeral-storage: 1.5Gi, example.com/device: 2}
    storage: {size: 10Gi}
  replayer:
    resources: *small
stateSync:
  witnesses:
    pacific-1: ["rpc-1.example.com:26657", "https://rpc-2.example.com:443", "[::1]:26657"]
`, noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.SidecarImage = "registry.example.com/sidecar:v1"
	want.AccessControl = AccessControl{Enabled: true, ProxyImage: "registry.example.com/proxy:v2", CAFile: "/etc/sei/authorities/ca.crt"}
	archive := want.Modes[v1alpha1.ModeArchive]
	archive.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("8")
	archive.Storage.ClassName = "slow"
	archive.NodeSelector = map[string]string{"example.com/disk": "large"}
	archive.Tolerations = []corev1.Toleration{
		{Key: "example.com/sei", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(60))},
		{Key: "example.com/kind", Value: "1"},
	}
	want.Modes[v1alpha1.ModeArchive] = archive
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeSeed, v1alpha1.ModeReplayer} {
		resources := want.Modes[mode].Resources
		resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Gi")
		resources.Limits[corev1.ResourceMemory] = resource.MustParse("1Gi")
		resources.Limits[corev1.ResourceEphemeralStorage] = resource.MustParse("1.5Gi")
		resources.Limits["example.com/device"] = resource.MustParse("2")
	}
	seed := want.Modes[v1alpha1.ModeSeed]
	seed.Storage.Size = resource.MustParse("10Gi")
	want.Modes[v1alpha1.ModeSeed] = seed
	want.Witnesses = map[string][]string{"pacific-1": {"rpc-1.example.com:26657", "https://rpc-2.example.com:443", "[::1]:26657"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEnvironmentWinsOverTheFile(t *testing.T) {
	t.Parallel()
	pinned := func(name string) string {
		if name == "SEI_SIDECAR_IMAGE" {
			return "registry.example.com/pinned:v3"
		}
		return ""
	}
	for name, content := range map[string]string{"over the file": "images: {sidecar: registry.example.com/sidecar:v1}", "over the default": ""} {
		got, err := load(t, content, pinned)
		if err != nil || got.SidecarImage != "registry.example.com/pinned:v3" {
			t.Errorf("%s: %s, %v", name, got.SidecarImage, err)
		}
	}
	got, err := load(t, "images: {sidecar: registry.example.com/sidecar:v1}", noEnvironment)
	if err != nil || got.SidecarImage != "registry.example.com/sidecar:v1" {
		t.Errorf("without the variable: %s, %v", got.SidecarImage, err)
	}
	_, err = Load("", func(string) string { return "two images" })
	if err == nil || !strings.Contains(err.Error(), `SEI_SIDECAR_IMAGE: "two images" contains white space`) {
		t.Errorf("a bad variable: %v", err)
	}
}

func TestFileThatIsNotThere(t *testing.T) {
	t.Parallel()
	_, err := Load(filepath.Join(t.TempDir(), "platform.yaml"), noEnvironment)
	if err == nil || !strings.Contains(err.Error(), "the platform's settings cannot be read") {
		t.Errorf("%v", err)
	}
}
