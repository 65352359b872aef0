//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func write(t *testing.T, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInstallThatCannotBe(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	noManifest := write(t, "notes.yaml", "remember: the milk\n")
	unknownKind := write(t, "unknown.yaml", "apiVersion: nobody.example/v1\nkind: Unheard\nmetadata: {name: of}\n")
	for name, test := range map[string]struct {
		path   string
		reason string
	}{
		"missing":      {missing, "no such file or directory"},
		"no manifest":  {noManifest, "apiVersion not set"},
		"unknown kind": {unknownKind, `no matches for kind "Unheard"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			command := lab(t, "kube", "run", "--dir", dir, "--install", test.path)
			if _, err := command.StdinPipe(); err != nil { // Which stays open.
				t.Fatal(err)
			}
			var stderr strings.Builder
			command.Stderr = &stderr
			stdout, err := command.Output()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("ended with %v", err)
			}
			if len(stdout) > 0 {
				t.Errorf("called itself ready: %s", stdout)
			}
			for _, part := range []string{"cannot install", test.path, test.reason} {
				if !strings.Contains(stderr.String(), part) {
					t.Errorf("missing %q in %s", part, stderr.String())
				}
			}
			for _, name := range []string{"state", "lock"} {
				if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s is left behind: %v", name, err)
				}
			}
			checkNobodyUses(t, dir)
		})
	}
}

// checkNobodyUses looks for the directory in every command line of the machine:
// all processes of a cluster have it in theirs.
func checkNobodyUses(t *testing.T, dir string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Fatalf("no processes: %v", err)
	}
	for _, path := range lines {
		// One that cannot be read has ended, or is not ours.
		if line, err := os.ReadFile(path); err == nil && strings.Contains(string(line), dir) {
			t.Errorf("%s still runs: %q", path, line)
		}
	}
}

const things = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
`

const objects = `
apiVersion: example.com/v1
kind: Thing
metadata: {name: owner, namespace: default}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: installed, namespace: default}
`

// TestInstalledKindsAreGarbageCollected: the controllers are started only when the
// kinds are there. Otherwise the garbage collector would not watch the owner, and
// not notice that it is gone.
func TestInstalledKindsAreGarbageCollected(t *testing.T) {
	r := start(t, t.TempDir(), "--install", write(t, "things.yaml", things), "--install", write(t, "objects.yaml", objects))
	config, err := clientcmd.BuildConfigFromFlags("", r.info.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	// Long, since it only ends a test that fails.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	const ownerPath = "/apis/example.com/v1/namespaces/default/things/owner"
	content, err := client.Discovery().RESTClient().Get().AbsPath(ownerPath).DoRaw(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var owner metav1.PartialObjectMetadata
	if err := json.Unmarshal(content, &owner); err != nil {
		t.Fatal(err)
	}
	configMaps := client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	if _, err := configMaps.Get(ctx, "installed", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	dependent, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:            "dependent",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Thing", Name: owner.Name, UID: owner.UID}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changes, err := configMaps.Watch(ctx, metav1.SingleObject(dependent.ObjectMeta))
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	if err := client.Discovery().RESTClient().Delete().AbsPath(ownerPath).Do(ctx).Error(); err != nil {
		t.Fatal(err)
	}
	gone := false
	for change := range changes.ResultChan() {
		if gone = change.Type == watch.Deleted; gone {
			break
		}
	}
	if !gone {
		t.Error("the dependent outlived its owner")
	}

	checkOrder(t, r.info.AuditLog, ownerPath)
	if err := r.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, r.stderr)
	}
}

// checkOrder wants the controllers to have asked for nothing before the object was
// installed. Collected it would be in any case, but much later if they had.
func checkOrder(t *testing.T, auditLog, object string) {
	t.Helper()
	log, err := os.Open(auditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	installed, asked := false, false
	for lines := json.NewDecoder(log); !asked; {
		var event struct {
			Verb       string `json:"verb"`
			RequestURI string `json:"requestURI"`
			User       struct {
				Username string `json:"username"`
			} `json:"user"`
		}
		if err := lines.Decode(&event); err != nil {
			t.Fatalf("the controllers asked for nothing: %v", err)
		}
		installed = installed || event.Verb == "patch" && strings.HasPrefix(event.RequestURI, object+"?")
		asked = event.User.Username == "system:kube-controller-manager"
	}
	if !installed {
		t.Errorf("the controllers were started before %s was installed", object)
	}
}
