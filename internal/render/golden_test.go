package render

import (
	"bytes"
	"flag"
	"os" //nolint:depguard // the test reads and writes its files; what is rendered does not
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/platform"
)

var update = flag.Bool("update", false, "write what is rendered now into testdata")

// TestRenderedObjects pins what is rendered. A difference in a pod template replaces
// the pod of every node of the mode, one after the other, when the operator is
// updated: make sure that it is worth it, then run this test with -update.
func TestRenderedObjects(t *testing.T) {
	t.Parallel()
	type golden struct {
		node     *v1alpha1.SeiNode
		settings platform.Settings
	}
	all := map[string]golden{
		"validator_access_control": {newNode(v1alpha1.ModeValidator), withAccessControl()},
		"fullNode_everything":      {everything(), settings()},
	}
	for _, mode := range modes {
		all[string(mode)] = golden{newNode(mode), settings()}
	}
	for name, test := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := render(t, test.node, test.settings)
			document := want.Intent
			document.Serial, document.Peers = 7, []string{"0123456789012345678901234567890123456789@peer.example.com:26656"}
			objects := []any{want.StatefulSet, want.Service, NodeConfig(test.node, document, "")}
			if want.ProxyConfig != nil {
				objects = append(objects, want.ProxyConfig)
			}
			if want.DataVolume != nil {
				objects = append(objects, want.DataVolume)
			}
			var got bytes.Buffer
			for i, object := range objects {
				text, err := yaml.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				if i > 0 {
					got.WriteString("---\n")
				}
				got.Write(text)
			}
			compare(t, filepath.Join("testdata", name+".yaml"), got.Bytes())
		})
	}
}

func compare(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
