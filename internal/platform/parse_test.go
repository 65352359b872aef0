package platform

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBadFileSaysWhatToWrite(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ content, want string }{
		"not YAML": {
			"images:\n\tsidecar: a\n",
			"platform.yaml:2: this is not valid YAML: found character that cannot start any token",
		},
		"a list instead of settings": {
			"- images\n",
			"platform.yaml:1: it is a list, but must have fields: write accessControl, images, modes, stateSync, updates",
		},
		"two documents": {
			"images: {}\n---\nmodes: {}\n",
			"platform.yaml:2: there is a second document: write all settings into one",
		},
		"an unknown field": {
			"image:\n  sidecar: a\n",
			"platform.yaml:1: image: there is no such field: write one of accessControl, images, modes, stateSync, updates",
		},
		"an unknown mode": {
			"modes:\n  fullnode: {}\n",
			"platform.yaml:2: modes.fullnode: there is no such field: write one of archive, fullNode, replayer, seed, validator",
		},
		"a field deep down": {
			"modes:\n  archive:\n    storage:\n      class: fast\n",
			"platform.yaml:4: modes.archive.storage.class: there is no such field: write one of className, size",
		},
		"a field twice": {
			"images: {}\nimages: {}\n",
			"platform.yaml:2: images: it is there twice: remove one of them",
		},
		"a scalar instead of fields": {
			"modes:\n  seed: small\n",
			"platform.yaml:2: modes.seed: it is text, but must have fields: write nodeSelector, resources, storage, tolerations",
		},
		"an image that is a number": {
			"images:\n  sidecar: 1\n",
			"platform.yaml:2: images.sidecar: it is a number, but must be text: write for example ghcr.io/sei-operator/sei-sidecar:v1.0.0",
		},
		"an image with white space": {
			"images:\n  sidecar: \"a b\"\n",
			"platform.yaml:2: images.sidecar: \"a b\" contains white space: write an image reference, for example ghcr.io/sei-operator/sei-sidecar:v1.0.0",
		},
		"an empty image": {
			"accessControl:\n  proxyImage: \"\"\n",
			"platform.yaml:2: accessControl.proxyImage: it is empty: write an image reference, for example ghcr.io/sei-operator/sei-sidecar:v1.0.0, or leave it out",
		},
		"a file that is somewhere": {
			"accessControl:\n  caFile: ca.crt\n",
			"platform.yaml:2: accessControl.caFile: \"ca.crt\" is no absolute path: write for example /etc/sei/authorities/ca.crt",
		},
		"a flag that is text": {
			"accessControl:\n  enabled: \"yes\"\n",
			"platform.yaml:2: accessControl.enabled: it is text: write true or false",
		},
		"a bad quantity": {
			"modes:\n  archive:\n    storage:\n      size: 40 TB\n",
			"platform.yaml:4: modes.archive.storage.size: \"40 TB\" is no quantity: write a number and its unit, for example 16 or 128Gi",
		},
		"a quantity of zero": {
			"modes:\n  archive:\n    storage:\n      size: 0\n",
			"platform.yaml:4: modes.archive.storage.size: \"0\" is not greater than zero: write for example 16 or 128Gi",
		},
		"a negative quantity": {
			"modes: {seed: {resources: {requests: {cpu: -1}}}}\n",
			"platform.yaml:1: modes.seed.resources.requests.cpu: \"-1\" is not greater than zero: write for example 16 or 128Gi",
		},
		"a quantity that is a list": {
			"modes: {seed: {resources: {requests: {cpu: [1]}}}}\n",
			"platform.yaml:1: modes.seed.resources.requests.cpu: it is a list: write a quantity, for example 16 or 128Gi",
		},
		"an unknown resource": {
			"modes: {seed: {resources: {limits: {memroy: 1Gi}}}}\n",
			"platform.yaml:1: modes.seed.resources.limits.memroy: there is no such resource: write cpu, memory, ephemeral-storage, or the full name of another one such as example.com/device",
		},
		"a limit below the default request": {
			"modes:\n  seed:\n    resources:\n      limits:\n        memory: 1Gi\n",
			"platform.yaml:5: modes.seed.resources.limits.memory: the request for memory is 2Gi and above the limit, 1Gi: write both, in resources.requests and in resources.limits",
		},
		"a bad class": {
			"modes: {seed: {storage: {className: Fast SSD}}}\n",
			"platform.yaml:1: modes.seed.storage.className: \"Fast SSD\" is no name of a StorageClass: use lower-case letters, digits, '-' and '.'; leave it out for the default class of the cluster",
		},
		"a selector that is a number": {
			"modes: {seed: {nodeSelector: {rack: 7}}}\n",
			"platform.yaml:1: modes.seed.nodeSelector.rack: it is a number, but must be text: write for example nvme, or \"1\" in quotes",
		},
		"a selector that is no label": {
			"modes: {seed: {nodeSelector: {a/b/c: x}}}\n",
			"platform.yaml:1: modes.seed.nodeSelector.a/b/c: \"a/b/c\" is no key of a label: write for example example.com/disk",
		},
		"a selector with a bad value": {
			"modes: {seed: {nodeSelector: {rack: a b}}}\n",
			"platform.yaml:1: modes.seed.nodeSelector.rack: \"a b\" is no value of a label: use at most 63 letters, digits, '-', '_' and '.'",
		},
		"tolerations that are no list": {
			"modes: {seed: {tolerations: {key: a}}}\n",
			"platform.yaml:1: modes.seed.tolerations: it is a mapping, but must be a list: write for example [{key: example.com/sei, operator: Exists}]",
		},
		"a toleration with a bad operator": {
			"modes: {seed: {tolerations: [{key: a, operator: exists}]}}\n",
			"platform.yaml:1: modes.seed.tolerations[0].operator: \"exists\" is not known: write one of [Exists Equal]",
		},
		"a toleration with a bad effect": {
			"modes: {seed: {tolerations: [{key: a, effect: Never}]}}\n",
			"platform.yaml:1: modes.seed.tolerations[0].effect: \"Never\" is not known: write one of [NoSchedule PreferNoSchedule NoExecute]",
		},
		"a toleration of nothing": {
			"modes: {seed: {tolerations: [{}]}}\n",
			"platform.yaml:1: modes.seed.tolerations[0]: it has no key: write one, or operator: Exists to tolerate every taint",
		},
		"an empty toleration": {
			"modes: {seed: {tolerations: [~]}}\n",
			"platform.yaml:1: modes.seed.tolerations[0]: it is empty: write for example [{key: example.com/sei, operator: Exists}], or remove it",
		},
		"a toleration with a bad key": {
			"modes: {seed: {tolerations: [{key: a b}]}}\n",
			"platform.yaml:1: modes.seed.tolerations[0]: \"a b\" is no key of a taint: write for example example.com/sei",
		},
		"a toleration with a bad value": {
			"modes: {seed: {tolerations: [{key: a, value: b c}]}}\n",
			"platform.yaml:1: modes.seed.tolerations[0]: \"b c\" is no value of a taint: use at most 63 letters, digits, '-', '_' and '.'",
		},
		"a toleration with a value nobody looks at": {
			"modes: {seed: {tolerations: [{key: a, operator: Exists, value: b}]}}\n",
			"platform.yaml:1: modes.seed.tolerations[0]: it has a value, which operator: Exists does not look at: remove the value, or write operator: Equal",
		},
		"a toleration with seconds nobody counts": {
			"modes: {seed: {tolerations: [{key: a, tolerationSeconds: 5}]}}\n",
			"platform.yaml:1: modes.seed.tolerations[0]: it has tolerationSeconds, which only effect: NoExecute looks at: write that effect, or remove tolerationSeconds",
		},
		"seconds that are text": {
			"modes: {seed: {tolerations: [{key: a, tolerationSeconds: 5m}]}}\n",
			"platform.yaml:1: modes.seed.tolerations[0].tolerationSeconds: it is text: write a number of seconds, for example 300",
		},
		"a budget of none": {
			"updates: {maxConcurrent: 0}\n",
			"platform.yaml:1: updates.maxConcurrent: write a number of at least 1, for example 1",
		},
		"one witness": {
			"stateSync:\n  witnesses:\n    pacific-1:\n    - rpc.example.com:26657\n",
			"platform.yaml:4: stateSync.witnesses.pacific-1: state sync needs two RPC servers or more: write another one",
		},
		"one witness twice": {
			"stateSync: {witnesses: {pacific-1: [\"a:1\", \"a:1\"]}}\n",
			"platform.yaml:1: stateSync.witnesses.pacific-1[1]: a:1 is there twice, but one server is no second witness: write another one",
		},
		"a witness without a port": {
			"stateSync: {witnesses: {pacific-1: [\"a:1\", rpc.example.com]}}\n",
			"platform.yaml:1: stateSync.witnesses.pacific-1[1]: \"rpc.example.com\" is no RPC server: write host:port or http(s)://host:port without a path, for example rpc-1.example.com:26657",
		},
		"a witness with a port that cannot be": {
			"stateSync: {witnesses: {pacific-1: [\"a:1\", \"a:70000\"]}}\n",
			"platform.yaml:1: stateSync.witnesses.pacific-1[1]: \"a:70000\" is no RPC server: write host:port or http(s)://host:port without a path, for example rpc-1.example.com:26657",
		},
		"a chain id that is none": {
			"stateSync: {witnesses: {Pacific: [\"a:1\", \"b:1\"]}}\n",
			"platform.yaml:1: stateSync.witnesses.Pacific: \"Pacific\" is no chain id: write for example pacific-1",
		},
		"an alias to something wrong": {
			"images:\n  sidecar: &image \"a b\"\naccessControl:\n  proxyImage: *image\n",
			"platform.yaml:2: images.sidecar: \"a b\" contains white space: write an image reference, for example ghcr.io/sei-operator/sei-sidecar:v1.0.0\n" +
				"platform.yaml:4: accessControl.proxyImage: \"a b\" contains white space: write an image reference, for example ghcr.io/sei-operator/sei-sidecar:v1.0.0",
		},
		"everything at once, in the order of the file": {
			"imagess: {}\naccessControl:\n  enabled: 1\nmodes:\n  seed:\n    storage: {size: x}\n",
			"platform.yaml:1: imagess: there is no such field: write one of accessControl, images, modes, stateSync, updates\n" +
				"platform.yaml:3: accessControl.enabled: it is a number: write true or false\n" +
				"platform.yaml:6: modes.seed.storage.size: \"x\" is no quantity: write a number and its unit, for example 16 or 128Gi",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings, err := Parse("platform.yaml", []byte(test.content))
			if err == nil {
				t.Fatalf("it was accepted: %+v", settings)
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(Settings{}, settings); diff != "" {
				t.Errorf("there are settings beside the error: %s", diff)
			}
		})
	}
}

// FuzzParse: whatever is in the file, there is an answer.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "a: &a [*a]", "<<: {images: 1}", "? [a]\n: b", "modes: {seed: {tolerations: [{key: 1}]}}", "&a {images: *a}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(_ *testing.T, content []byte) { _, _ = Parse("platform.yaml", content) })
}
