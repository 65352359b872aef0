package controller

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/nodetask"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

var kinds = []v1alpha1.SeiNodeTaskKind{
	v1alpha1.TaskKindRestartSeid, v1alpha1.TaskKindDiscoverPeers, v1alpha1.TaskKindMarkReady, v1alpha1.TaskKindHoldNode, v1alpha1.TaskKindReleaseHold,
	v1alpha1.TaskKindResyncNode, v1alpha1.TaskKindUpdateNodeImage, v1alpha1.TaskKindAwaitCondition, v1alpha1.TaskKindAwaitNodesAtHeight,
}

// TestOperatorMayDoOnNodesWhatItDoes compares the operator's role with the tasks that it
// has sidecars carry out: the access proxies of nodes ask for exactly these.
func TestOperatorMayDoOnNodesWhatItDoes(t *testing.T) {
	t.Parallel()
	sidecar := map[string]bool{}
	for _, definition := range tasks.Definitions(tasks.Dependencies{}) {
		sidecar[definition.Type] = true
	}
	want := map[string]bool{"get sidecar": true}
	// The tasks of plans have the names of the sidecar's, where they have one there.
	for _, task := range []string{
		plan.TaskConfigureGenesis, plan.TaskConfigApply, plan.TaskConfigureStateSync, plan.TaskMarkReady, plan.TaskRestartSeid,
	} {
		if !sidecar[task] {
			t.Errorf("no sidecar knows the task %s", task)
		}
		want["create "+task] = true
	}
	// A sidecar from before is asked for what config-apply does now.
	for _, action := range []string{"create " + tasks.TypeConfigValidate, "create " + tasks.TypeDiscoverPeers, "delete " + tasks.TypeDiscoverPeers} {
		want[action] = true
	}
	for _, name := range kinds {
		kind := nodetask.KindOf(&v1alpha1.SeiNodeTask{Spec: v1alpha1.SeiNodeTaskSpec{Kind: name}})
		for _, step := range kind.Steps {
			// A step of the operator's own may have sidecars wait for a height.
			if step.Cancel != nil {
				step.Task = tasks.TypeAwaitCondition
			}
			if step.Task != "" {
				want["create "+step.Task], want["delete "+step.Task] = true, true
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), grantedActions(t)); diff != "" {
		t.Errorf("the role (-needed +has):\n%s", diff)
	}
}

// grantedActions are what the operator may do on nodes, sorted.
func grantedActions(t *testing.T) []string {
	t.Helper()
	var granted []string
	for _, rule := range rulesOf(t, "../../config/rbac/role.yaml", "sei-operator") {
		for _, resource := range rule.Resources {
			action, found := strings.CutPrefix(resource, "seinodes/")
			if !found || action == "status" || action == "finalizers" || !slices.Contains(rule.APIGroups, v1alpha1.GroupVersion.Group) {
				continue
			}
			for _, verb := range rule.Verbs {
				granted = append(granted, verb+" "+action)
			}
		}
	}
	slices.Sort(granted)
	return granted
}

// TestAdminsMayDoEverythingOnNodes: no action is forgotten.
func TestAdminsMayDoEverythingOnNodes(t *testing.T) {
	t.Parallel()
	var want, got []string
	for _, definition := range tasks.Definitions(tasks.Dependencies{}) {
		want = append(want, definition.Type)
	}
	for _, rule := range rulesOf(t, "../../config/access/people.yaml", "sei-admin") {
		if slices.Equal(rule.Verbs, []string{"create", "delete"}) {
			for _, resource := range rule.Resources {
				got = append(got, strings.TrimPrefix(resource, "seinodes/"))
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sei-admin (-all +has):\n%s", diff)
	}
}

// rulesOf are the rules of a ClusterRole in a file.
func rulesOf(t *testing.T, file, name string) []rbacv1.PolicyRule {
	t.Helper()
	content, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		role := &rbacv1.ClusterRole{}
		if err := yaml.Unmarshal([]byte(document), role); err != nil {
			t.Fatal(err)
		}
		if role.Name == name {
			return role.Rules
		}
	}
	t.Fatalf("there is no ClusterRole %s in %s", name, file)
	return nil
}
