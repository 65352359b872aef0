package render

import (
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/platform"
)

// TestWhatAnEditCosts: a template that changed replaces the pod, a configuration
// that changed restarts seid in place, a spec that changed takes no place in the
// budget of what the operator causes. Nothing else happens.
func TestWhatAnEditCosts(t *testing.T) {
	t.Parallel()
	const spec, template, config = "spec ", "template ", "config "
	for name, test := range map[string]struct {
		edit func(*v1alpha1.SeiNodeSpec)
		want string
	}{
		"nothing":          {func(*v1alpha1.SeiNodeSpec) {}, ""},
		"paused":           {func(s *v1alpha1.SeiNodeSpec) { s.Paused = true }, ""},
		"a larger volume":  {func(s *v1alpha1.SeiNodeSpec) { s.DataVolume.Size = new(resource.MustParse("9Ti")) }, ""},
		"a given size":     {func(s *v1alpha1.SeiNodeSpec) { s.DataVolume.Size = nil }, ""},
		"another policy":   {func(s *v1alpha1.SeiNodeSpec) { s.DataVolume.DeletionPolicy = v1alpha1.DeletionPolicyRetain }, ""},
		"peers":            {func(s *v1alpha1.SeiNodeSpec) { s.Peers = nil }, spec},
		"witnesses":        {func(s *v1alpha1.SeiNodeSpec) { s.FullNode.Snapshot.RPCServers = []string{"a:1", "b:1"} }, spec},
		"overrides":        {func(s *v1alpha1.SeiNodeSpec) { s.Overrides = v1alpha1.Overrides{"config.p2p.pex": "false"} }, spec + config},
		"external address": {func(s *v1alpha1.SeiNodeSpec) { s.ExternalAddress = "" }, spec + config},
		"snapshots":        {func(s *v1alpha1.SeiNodeSpec) { s.FullNode.SnapshotGeneration.Interval++ }, spec + config},
		"no snapshots":     {func(s *v1alpha1.SeiNodeSpec) { s.FullNode.SnapshotGeneration = nil }, spec + config},
		"image":            {func(s *v1alpha1.SeiNodeSpec) { s.Image += "1" }, spec + template},
		"sidecar's image":  {func(s *v1alpha1.SeiNodeSpec) { s.Sidecar.Image += "1" }, spec + template},
		"sidecar's port":   {func(s *v1alpha1.SeiNodeSpec) { s.Sidecar.Port++ }, spec + template},
		"resources":        {func(s *v1alpha1.SeiNodeSpec) { s.Resources = nil }, spec + template},
		"scheduling":       {func(s *v1alpha1.SeiNodeSpec) { s.Scheduling.PriorityClassName = "" }, spec + template},
		"pod labels":       {func(s *v1alpha1.SeiNodeSpec) { s.PodLabels["team"] = "others" }, spec + template},
		"pod annotations":  {func(s *v1alpha1.SeiNodeSpec) { s.PodAnnotations["example.com/note"] = "" }, spec + template},
		"an annotation of ours": {func(s *v1alpha1.SeiNodeSpec) {
			s.PodAnnotations["karpenter.sh/do-not-disrupt"] = "other"
		}, spec},
		"arguments":         {func(s *v1alpha1.SeiNodeSpec) { s.ExtraArgs = nil }, spec + template},
		"environment":       {func(s *v1alpha1.SeiNodeSpec) { s.ExtraEnv = nil }, spec + template},
		"genesis ConfigMap": {func(s *v1alpha1.SeiNodeSpec) { s.Genesis = nil }, spec + template},
		"service account":   {func(s *v1alpha1.SeiNodeSpec) { s.ServiceAccountName = "" }, spec + template},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := render(t, everything(), settings())
			after := render(t, change(everything(), test.edit), settings())
			got := ""
			if before.SpecHash != after.SpecHash {
				got += spec
			}
			if before.TemplateHash != after.TemplateHash {
				got += template
			}
			if before.ConfigHash != after.ConfigHash {
				got += config
			}
			if got != test.want {
				t.Errorf("it changed %q, not %q", got, test.want)
			}
		})
	}
}

// TestVolumeThatIsGivenLater: the section itself is no edit of the node either.
func TestVolumeThatIsGivenLater(t *testing.T) {
	t.Parallel()
	node := newNode(v1alpha1.ModeArchive)
	given := change(node, func(spec *v1alpha1.SeiNodeSpec) {
		spec.DataVolume = &v1alpha1.DataVolumeSpec{DeletionPolicy: v1alpha1.DeletionPolicyDelete}
	})
	if render(t, node, settings()).SpecHash != render(t, given, settings()).SpecHash {
		t.Error("a deletion policy is an edit of the node")
	}
}

// TestSameResourceInOtherWords: 1000m is 1, and replaces no pod.
func TestSameResourceInOtherWords(t *testing.T) {
	t.Parallel()
	with := func(cpu string) Desired {
		return render(t, change(newNode(v1alpha1.ModeSeed), func(spec *v1alpha1.SeiNodeSpec) {
			spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
		}), settings())
	}
	if with("1").TemplateHash != with("1000m").TemplateHash {
		t.Error("the same amount in other words replaces the pod")
	}
}

// TestWhatThePlatformCosts: of the platform's settings, only what is in a pod
// replaces it, and never the spec or the configuration of a node.
func TestWhatThePlatformCosts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		edit  func(*platform.Settings)
		rolls bool
	}{
		"sidecar's image": {func(s *platform.Settings) { s.SidecarImage += "1" }, true},
		"access control":  {func(s *platform.Settings) { s.AccessControl.Enabled = true }, true},
		"proxy image":     {func(s *platform.Settings) { s.AccessControl.ProxyImage = "unused" }, false},
		"witnesses":       {func(s *platform.Settings) { s.Witnesses = map[string][]string{"pacific-1": {"a:1", "b:1"}} }, false},
		"storage": {func(s *platform.Settings) {
			mode := s.Modes[v1alpha1.ModeFullNode]
			mode.Storage.Size, mode.Storage.ClassName = resource.MustParse("1Gi"), "slow"
			s.Modes[v1alpha1.ModeFullNode] = mode
		}, false},
		"resources of the mode": {func(s *platform.Settings) {
			s.Modes[v1alpha1.ModeFullNode].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
		}, true},
		"resources of another mode": {func(s *platform.Settings) {
			s.Modes[v1alpha1.ModeArchive].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
		}, false},
	} {
		node, with := newNode(v1alpha1.ModeFullNode), settings()
		before := render(t, node, settings())
		test.edit(&with)
		after := render(t, node, with)
		if rolls := before.TemplateHash != after.TemplateHash; rolls != test.rolls {
			t.Errorf("%s: replaces the pod: %v", name, rolls)
		}
		if before.SpecHash != after.SpecHash || before.ConfigHash != after.ConfigHash {
			t.Errorf("%s changed the spec or the configuration", name)
		}
	}
}

func TestHashIsStampedAndShort(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		want := render(t, newNode(mode), settings())
		template := templateOf(t, want)
		if template.Annotations[v1alpha1.AnnotationTemplateHash] != want.TemplateHash {
			t.Errorf("%s: the template does not carry its hash", mode)
		}
		if !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(want.TemplateHash) {
			t.Errorf("%s: %q is no hash", mode, want.TemplateHash)
		}
		if !regexp.MustCompile(`^1\.[0-9a-f]{16}\.[0-9a-f]{16}$`).MatchString(want.SpecHash) {
			t.Errorf("%s: %q is no hash", mode, want.SpecHash)
		}
	}
}

// What cannot change the pod or the configuration is no edit that rolls a node past
// the budget, and neither is another way to hash.
func TestWhatCountsAsAnEdit(t *testing.T) {
	t.Parallel()
	node := newNode(v1alpha1.ModeFullNode)
	node.Spec.FullNode.Snapshot = &v1alpha1.SnapshotSource{StateSync: &v1alpha1.StateSyncSource{}, RPCServers: []string{"a:1", "b:1"}}
	before := render(t, node, settings()).SpecHash
	for name, test := range map[string]struct {
		edit func(*v1alpha1.SeiNodeSpec)
		want bool
	}{
		"nothing": {func(*v1alpha1.SeiNodeSpec) {}, false},
		"a pause": {func(s *v1alpha1.SeiNodeSpec) { s.Paused = true }, false},
		"other peers": {func(s *v1alpha1.SeiNodeSpec) {
			s.Peers = []v1alpha1.PeerSource{{DNS: &v1alpha1.DNSPeers{Name: "seeds.example.com"}}}
		}, false},
		"other witnesses": {func(s *v1alpha1.SeiNodeSpec) {
			s.FullNode.Snapshot = &v1alpha1.SnapshotSource{StateSync: &v1alpha1.StateSyncSource{}, RPCServers: []string{"c:1", "d:1"}}
		}, false},
		"another image": {func(s *v1alpha1.SeiNodeSpec) { s.Image = "registry.example.com/seid:v9" }, true},
		"an override":   {func(s *v1alpha1.SeiNodeSpec) { s.Overrides = v1alpha1.Overrides{"app.x": "1"} }, true},
	} {
		edited := node.DeepCopy()
		test.edit(&edited.Spec)
		if got := Edited(before, render(t, edited, settings()).SpecHash); got != test.want {
			t.Errorf("%s counts as an edit: %t", name, got)
		}
	}
	if Edited("0.aa.bb", before) || Edited("c92f549e06f09d63", before) || Edited("", before) {
		t.Error("another way to hash counts as an edit")
	}
	if node.Spec.FullNode.Snapshot.StateSync == nil {
		t.Error("hashing changed the spec")
	}
}
