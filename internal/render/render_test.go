package render

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/internal/seid"
)

func TestNamesOfEverything(t *testing.T) {
	t.Parallel()
	node := newNode(v1alpha1.ModeFullNode)
	imported := change(node, func(spec *v1alpha1.SeiNodeSpec) {
		spec.DataVolume = &v1alpha1.DataVolumeSpec{Import: &v1alpha1.VolumeImport{PVCName: "old-data"}}
	})
	for name, test := range map[string]struct{ want, got string }{
		"StatefulSet":        {"node", StatefulSetName(node)},
		"Service":            {"node", ServiceName(node)},
		"pod":                {"node-0", PodName(node)},
		"claim":              {"data-node", ClaimName(node)},
		"imported claim":     {"old-data", ClaimName(imported)},
		"configuration":      {"node-config", NodeConfigName(node)},
		"proxyConfiguration": {"node-rbac-proxy", ProxyConfigName(node)},
	} {
		if test.want != test.got {
			t.Errorf("%s: %s, not %s", name, test.got, test.want)
		}
	}
}

func TestPortsAndEndpointsOfEveryMode(t *testing.T) {
	t.Parallel()
	all := v1alpha1.Endpoint{
		P2P:           "node.sei.svc:26656",
		TendermintRPC: "http://node.sei.svc:26657", TendermintREST: "http://node.sei.svc:1317",
		GRPC: "node.sei.svc:9090", EVMJSONRPC: "http://node.sei.svc:8545", EVMWS: "ws://node.sei.svc:8546",
	}
	few := v1alpha1.Endpoint{P2P: "node.sei.svc:26656"}
	for mode, test := range map[v1alpha1.Mode]struct {
		ports    string
		endpoint v1alpha1.Endpoint
	}{
		v1alpha1.ModeFullNode:  {"evm-rpc evm-ws grpc rest p2p rpc metrics api", all},
		v1alpha1.ModeArchive:   {"evm-rpc evm-ws grpc rest p2p rpc metrics api", all},
		v1alpha1.ModeReplayer:  {"evm-rpc evm-ws grpc rest p2p rpc metrics api", all},
		v1alpha1.ModeValidator: {"p2p metrics api", few},
		v1alpha1.ModeSeed:      {"p2p metrics api", few},
	} {
		want := render(t, newNode(mode), settings())
		var ports []string
		for _, port := range want.Service.Spec.Ports {
			ports = append(ports, *port.Name)
		}
		if got := strings.Join(ports, " "); got != test.ports {
			t.Errorf("%s serves %s, not %s", mode, got, test.ports)
		}
		if diff := cmp.Diff(test.endpoint, want.Endpoint); diff != "" {
			t.Errorf("%s (-want +got):\n%s", mode, diff)
		}
	}
}

func TestAPIPortFollowsAccessControl(t *testing.T) {
	t.Parallel()
	node := change(newNode(v1alpha1.ModeFullNode), func(spec *v1alpha1.SeiNodeSpec) {
		spec.Sidecar = &v1alpha1.SidecarSpec{Port: 7070}
	})
	for number, with := range map[int32]platform.Settings{7070: settings(), 8443: withAccessControl()} {
		want := render(t, node, with)
		ports := want.Service.Spec.Ports
		if got := *ports[len(ports)-1].Port; got != number {
			t.Errorf("the API is at %d, not %d", got, number)
		}
	}
	template := templateOf(t, render(t, node, withAccessControl()))
	sidecar := containerOf(t, &template, ContainerSidecar)
	if !strings.Contains(strings.Join(sidecar.Args, " "), "--listen 127.0.0.1:7070") || len(sidecar.Ports) > 0 {
		t.Errorf("the sidecar can be reached past the proxy: %v, %v", sidecar.Args, sidecar.Ports)
	}
}

func TestProxyOfAnotherImageIsAProxyByItself(t *testing.T) {
	t.Parallel()
	with := withAccessControl()
	with.AccessControl.ProxyImage = "registry.example.com/proxy:v1"
	template := templateOf(t, render(t, newNode(v1alpha1.ModeFullNode), with))
	proxy := containerOf(t, &template, ContainerProxy)
	if proxy.Image != "registry.example.com/proxy:v1" || len(proxy.Command) > 0 || proxy.Args[0] != "--secure-listen-address=0.0.0.0:8443" {
		t.Errorf("image %s, command %v, arguments %v", proxy.Image, proxy.Command, proxy.Args)
	}
}

// TestKeysAreOnlyWhereTheyAreNeeded lists the mounts of each Secret.
func TestKeysAreOnlyWhereTheyAreNeeded(t *testing.T) {
	t.Parallel()
	for mode, want := range map[v1alpha1.Mode]map[string]string{
		v1alpha1.ModeFullNode: {},
		v1alpha1.ModeArchive:  {},
		v1alpha1.ModeReplayer: {},
		v1alpha1.ModeSeed:     {"identity": "sei-sidecar seid"},
		v1alpha1.ModeValidator: {
			"signing": "seid", "identity": "sei-sidecar seid", "keyring": "sei-sidecar",
		},
	} {
		want["node-access"] = "rbac-proxy"
		template := templateOf(t, render(t, newNode(mode), withAccessControl()))
		got := map[string]string{}
		for _, container := range everyContainer(template) {
			for _, mounted := range container.VolumeMounts {
				for _, secret := range secretsIn(volumeNamed(template, mounted.Name)) {
					got[secret.name] = strings.TrimSpace(got[secret.name] + " " + container.Name)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", mode, diff)
		}
	}
}

func TestValidatorWithoutSecretsMakesItsOwnKeys(t *testing.T) {
	t.Parallel()
	node := change(newNode(v1alpha1.ModeValidator), func(spec *v1alpha1.SeiNodeSpec) {
		spec.Validator = &v1alpha1.ValidatorSpec{}
	})
	template := templateOf(t, render(t, node, settings()))
	if args := containerOf(t, &template, containerInit).Args; len(args) != 1 {
		t.Errorf("the keys of seid init are thrown away: %v", args)
	}
}

func TestMemoryLimitOfGo(t *testing.T) {
	t.Parallel()
	limited := func(memory string) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}}
	}
	for name, test := range map[string]struct {
		edit func(*v1alpha1.SeiNodeSpec)
		want string
	}{
		"of the mode":          {func(*v1alpha1.SeiNodeSpec) {}, "247390116246"},
		"of the spec":          {func(s *v1alpha1.SeiNodeSpec) { s.Resources = limited("1000") }, "900"},
		"none without a limit": {func(s *v1alpha1.SeiNodeSpec) { s.Resources = &corev1.ResourceRequirements{} }, ""},
		"somebody's own": {func(s *v1alpha1.SeiNodeSpec) {
			s.ExtraEnv = []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: "1GiB"}}
		}, "1GiB"},
	} {
		template := templateOf(t, render(t, change(newNode(v1alpha1.ModeFullNode), test.edit), settings()))
		if got := variables(containerOf(t, &template, ContainerSeid))["GOMEMLIMIT"]; got != test.want {
			t.Errorf("%s: %q, not %q", name, got, test.want)
		}
	}
}

func TestSchedulingIsTheSpecsOverThePlatforms(t *testing.T) {
	t.Parallel()
	with := settings()
	mode := with.Modes[v1alpha1.ModeFullNode]
	mode.NodeSelector = map[string]string{"disk": "slow", "zone": "a"}
	mode.Tolerations = []corev1.Toleration{{Key: "first", Operator: corev1.TolerationOpExists}}
	with.Modes[v1alpha1.ModeFullNode] = mode
	node := change(newNode(v1alpha1.ModeFullNode), func(spec *v1alpha1.SeiNodeSpec) {
		spec.Scheduling = &v1alpha1.SchedulingSpec{
			NodeSelector: map[string]string{"disk": "fast"},
			Tolerations:  []corev1.Toleration{{Key: "second", Operator: corev1.TolerationOpExists}},
		}
	})
	template := templateOf(t, render(t, node, with))
	if diff := cmp.Diff(map[string]string{"disk": "fast", "zone": "a"}, template.Spec.NodeSelector); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := template.Spec.Tolerations; len(got) != 2 || got[0].Key != "first" || got[1].Key != "second" {
		t.Errorf("the tolerations are %v", got)
	}
	if with.Modes[v1alpha1.ModeFullNode].NodeSelector["disk"] != "slow" {
		t.Error("rendering changed the platform's settings")
	}
}

func TestOursWinsOnLabelsAndAnnotations(t *testing.T) {
	t.Parallel()
	node := change(newNode(v1alpha1.ModeSeed), func(spec *v1alpha1.SeiNodeSpec) {
		spec.PodLabels = map[string]v1alpha1.LabelValue{v1alpha1.LabelNode: "other", "team": "a"}
		spec.PodAnnotations = map[string]string{v1alpha1.AnnotationTemplateHash: "0", "karpenter.sh/do-not-disrupt": "false", "note": "b"}
	})
	want := render(t, node, settings())
	template := templateOf(t, want)
	if template.Labels[v1alpha1.LabelNode] != "node" || template.Labels["team"] != "a" {
		t.Errorf("labels: %v", template.Labels)
	}
	for key, value := range map[string]string{
		v1alpha1.AnnotationTemplateHash: want.TemplateHash, "karpenter.sh/do-not-disrupt": "true", "note": "b",
	} {
		if template.Annotations[key] != value {
			t.Errorf("the annotation %s is %q, not %q", key, template.Annotations[key], value)
		}
	}
}

func TestDataVolume(t *testing.T) {
	t.Parallel()
	with := settings()
	mode := with.Modes[v1alpha1.ModeSeed]
	mode.Storage.ClassName = "platform"
	with.Modes[v1alpha1.ModeSeed] = mode
	for name, test := range map[string]struct {
		volume      *v1alpha1.DataVolumeSpec
		settings    platform.Settings
		size, class string
	}{
		"of the mode, in the cluster's class": {nil, settings(), "20Gi", ""},
		"of the platform":                     {nil, with, "20Gi", "platform"},
		"of the spec": {
			&v1alpha1.DataVolumeSpec{Size: new(resource.MustParse("30Gi")), StorageClassName: "own"}, with, "30Gi", "own",
		},
	} {
		node := change(newNode(v1alpha1.ModeSeed), func(spec *v1alpha1.SeiNodeSpec) { spec.DataVolume = test.volume })
		claim := render(t, node, test.settings).DataVolume
		if got := claim.Spec.Resources.Requests[corev1.ResourceStorage]; got.String() != test.size {
			t.Errorf("%s: size %s", name, &got)
		}
		if got := claim.Spec.StorageClassName; (got == nil) != (test.class == "") || got != nil && *got != test.class {
			t.Errorf("%s: class %v", name, got)
		}
		if len(claim.OwnerReferences) > 0 {
			t.Errorf("%s: deleting the SeiNode would delete the data", name)
		}
	}
	imported := change(newNode(v1alpha1.ModeSeed), func(spec *v1alpha1.SeiNodeSpec) {
		spec.DataVolume = &v1alpha1.DataVolumeSpec{Import: &v1alpha1.VolumeImport{PVCName: "old-data"}}
	})
	want := render(t, imported, settings())
	template := templateOf(t, want)
	if want.DataVolume != nil || want.ClaimName != "old-data" ||
		volumeNamed(template, volumeData).PersistentVolumeClaim.ClaimName != "old-data" {
		t.Errorf("an imported claim: %+v, %s", want.DataVolume, want.ClaimName)
	}
}

func TestWitnesses(t *testing.T) {
	t.Parallel()
	with := settings()
	with.Witnesses = map[string][]string{"pacific-1": {"a:1", "b:1"}}
	sync := &v1alpha1.SnapshotSource{StateSync: &v1alpha1.StateSyncSource{}}
	own := &v1alpha1.SnapshotSource{StateSync: &v1alpha1.StateSyncSource{}, RPCServers: []string{"c:1", "d:1"}}
	for name, test := range map[string]struct {
		snapshot *v1alpha1.SnapshotSource
		settings platform.Settings
		want     []string
	}{
		"no state sync":        {nil, with, nil},
		"the spec's":           {own, with, []string{"c:1", "d:1"}},
		"the platform's":       {sync, with, []string{"a:1", "b:1"}},
		"nobody named any yet": {sync, settings(), []string{}},
	} {
		for _, mode := range []v1alpha1.Mode{v1alpha1.ModeFullNode, v1alpha1.ModeValidator, v1alpha1.ModeReplayer} {
			node := change(newNode(mode), func(spec *v1alpha1.SeiNodeSpec) {
				switch mode {
				case v1alpha1.ModeValidator:
					spec.Validator.Snapshot = test.snapshot
				case v1alpha1.ModeReplayer:
					spec.Replayer.Snapshot = test.snapshot
				default:
					spec.FullNode.Snapshot = test.snapshot
				}
			})
			if diff := cmp.Diff(test.want, render(t, node, test.settings).Witnesses); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", name, mode, diff)
			}
		}
	}
}

// A validator that does not state-sync has witnesses too: where they are is known for its chain.
func TestRPCServers(t *testing.T) {
	t.Parallel()
	with := settings()
	with.Witnesses = map[string][]string{"pacific-1": {"b:1", "https://a:1"}, "atlantic-2": {"x:1", "y:1"}}
	for name, test := range map[string]struct {
		snapshot *v1alpha1.SnapshotSource
		settings platform.Settings
		want     []string
	}{
		"the platform's": {nil, with, []string{"http://b:1", "https://a:1"}},
		"nobody's":       {nil, settings(), nil},
		"both": {
			&v1alpha1.SnapshotSource{StateSync: &v1alpha1.StateSyncSource{}, RPCServers: []string{"c:1", "https://a:1"}}, with,
			[]string{"http://b:1", "http://c:1", "https://a:1"},
		},
	} {
		node := change(newNode(v1alpha1.ModeValidator), func(spec *v1alpha1.SeiNodeSpec) { spec.Validator.Snapshot = test.snapshot })
		if diff := cmp.Diff(test.want, render(t, node, test.settings).RPCServers); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDocumentComesBack(t *testing.T) {
	t.Parallel()
	node := everything()
	document := render(t, node, settings()).Intent
	document.Serial, document.Peers = 3, []string{"a@b:1"}
	live := &corev1.ConfigMap{Data: NodeConfig(node, document, "").Data}
	live.Namespace, live.Name = "sei", "node-config"
	got, err := Document(live)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(document, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := seid.Desired(got); err == nil {
		t.Error("a peer that is none was accepted: the test proves nothing")
	}
	for name, data := range map[string]map[string]string{
		"the ConfigMap sei/node-config has no entry config.json": {"other": "{}"},
		"the ConfigMap sei/node-config: the document":            {"config.json": "{"},
	} {
		live.Data = data
		if _, err := Document(live); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not say %q", err, name)
		}
	}
}

func TestSpecThatCannotBeRendered(t *testing.T) {
	t.Parallel()
	from := func(name, secret string) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: "k",
		}}}}
	}
	for says, edit := range map[string]func(*v1alpha1.SeiNode){
		"must not take KEY from the Secret signing":            func(n *v1alpha1.SeiNode) { n.Spec.ExtraEnv = from("KEY", "signing") },
		"must not take KEY from the Secret identity":           func(n *v1alpha1.SeiNode) { n.Spec.ExtraEnv = from("KEY", "identity") },
		"must not take KEY from the Secret keyring":            func(n *v1alpha1.SeiNode) { n.Spec.ExtraEnv = from("KEY", "keyring") },
		"must not take KEY from the Secret passphrase":         func(n *v1alpha1.SeiNode) { n.Spec.ExtraEnv = from("KEY", "passphrase") },
		"spec.extraEnv must not set SEI_HOME":                  func(n *v1alpha1.SeiNode) { n.Spec.ExtraEnv = []corev1.EnvVar{{Name: "SEI_HOME", Value: "/tmp"}} },
		"spec.extraEnv must not set SEI_NODE_MODE":             func(n *v1alpha1.SeiNode) { n.Spec.ExtraEnv = []corev1.EnvVar{{Name: "SEI_NODE_MODE", Value: "seed"}} },
		"spec.validator.signingKey has no source":              func(n *v1alpha1.SeiNode) { n.Spec.Validator.SigningKey.Secret = nil },
		"spec.validator.nodeKey has no source":                 func(n *v1alpha1.SeiNode) { n.Spec.Validator.NodeKey.Secret.SecretName = "" },
		"the signing key is mounted into the container sei-si": func(n *v1alpha1.SeiNode) { n.Spec.Validator.NodeKey = key("signing") },
		"resources.claims is not supported": func(n *v1alpha1.SeiNode) {
			n.Spec.Resources = &corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}
		},
		"it has no uid": func(n *v1alpha1.SeiNode) { n.UID = "" },
	} {
		node := newNode(v1alpha1.ModeValidator)
		edit(node)
		if _, err := Node(node, settings()); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "SeiNode sei/node") {
			t.Errorf("%v does not say %q", err, says)
		}
	}
}
