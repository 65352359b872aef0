package cluster

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MainWithRole is Main for a package whose tests, all together, have the operator do
// everything that it ever does. It fails when the operator was refused anything for lack
// of a right, and when it has a right that it did not use.
func MainWithRole(m *testing.M) {
	os.Exit(runThen(m, func(c *Cluster) error {
		if f := flag.Lookup("test.run"); f != nil && f.Value.String() != "" {
			return nil // what is not used now may be used by the others
		}
		return c.checkRole()
	}))
}

// unseen is what the role has and no request of the operator shows, and why.
var unseen = map[string]string{
	"get /services":                     "asked when one of that name comes to be at the very moment at which the operator makes it",
	"update sei.io/seinodes/finalizers": "asked by the admission plugin OwnerReferencesPermissionEnforcement, where it is on",
}

// ofSidecars tells whether a right is one that the access proxies of nodes ask about.
// Whether the role has those that are needed is tested beside the role.
func ofSidecars(right string) bool {
	return strings.Contains(right, " sei.io/seinodes/") && !strings.HasSuffix(right, "/status") && !strings.HasSuffix(right, "/finalizers")
}

func (c *Cluster) checkRole() error {
	root, err := RepositoryRoot()
	if err != nil {
		return err
	}
	granted, err := rightsIn(filepath.Join(root, "config", "rbac"))
	if err != nil {
		return err
	}
	events, err := asked(c.auditLog)
	if err != nil {
		return err
	}
	problems := []error{refusals(events)}
	used := map[string]bool{}
	for _, e := range events {
		for _, shown := range shows(e) {
			used[shown] = true
		}
	}
	for _, right := range slices.Sorted(maps.Keys(granted)) {
		if _, known := unseen[right]; !used[right] && !known && !ofSidecars(right) {
			problems = append(problems, fmt.Errorf("the operator's role allows what no test saw it do: %s", right))
		}
	}
	return errors.Join(problems...)
}

// Refusals reads from an audit log what the operator asked for and has no right to.
func Refusals(auditLog string) error {
	events, err := asked(auditLog)
	if err != nil {
		return err
	}
	if len(events) == 0 {
		return fmt.Errorf("the audit log %s does not know of an operator", auditLog)
	}
	return refusals(events)
}

// asked is what the operator asked for so far. What was asked last may not be in it yet.
// That is of no importance.
func asked(auditLog string) ([]AuditEvent, error) {
	events, _, err := readAudit(auditLog, OperatorUser, time.Time{}, "")
	return events, err
}

// refusals are what was refused and at no other time allowed: an API server that has just
// started refuses everything for as long as it has not read the roles.
func refusals(events []AuditEvent) error {
	allowed := map[string]bool{}
	for _, e := range events {
		if e.Code < http.StatusBadRequest {
			allowed[rightOf(e)] = true
		}
	}
	var problems []error
	for _, e := range events {
		if e.Forbidden && !allowed[rightOf(e)] {
			problems = append(problems, fmt.Errorf("the operator asked for what its role does not allow: %s (%s/%s)", rightOf(e), e.Namespace, e.Name))
		}
	}
	return errors.Join(problems...)
}

// shows are the rights that a request shows to be used. Server-side apply of what is not
// there needs the right to create it. A cache that follows a kind lists it as well, where
// the API server does not send what is there already.
func shows(e AuditEvent) []string {
	rights := []string{rightOf(e)}
	switch {
	case e.Verb == "patch" && e.Code == http.StatusCreated:
		e.Verb = "create"
		rights = append(rights, rightOf(e))
	case e.Verb == "watch":
		e.Verb = "list"
		rights = append(rights, rightOf(e))
	}
	return rights
}

func rightOf(e AuditEvent) string {
	right := e.Verb + " " + e.Group + "/" + e.Resource
	if e.Subresource != "" {
		right += "/" + e.Subresource
	}
	return right
}

// rightsIn are those that the manifests of a directory give to the operator.
func rightsIn(dir string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	granted := map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		objects, err := Objects(bytes.NewReader(content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, object := range objects {
			if kind := object.GetKind(); kind != "ClusterRole" && kind != "Role" {
				continue
			}
			role := &rbacv1.ClusterRole{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			for _, rule := range role.Rules {
				grant(granted, rule)
			}
		}
	}
	return granted, nil
}

func grant(granted map[string]bool, rule rbacv1.PolicyRule) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				granted[verb+" "+group+"/"+resource] = true
			}
		}
	}
}
