package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AuditEvent is one request to the API server: a watch that has begun, or anything
// else that was answered.
type AuditEvent struct {
	// Time is when the request came.
	Time                         time.Time
	User, UserAgent, Verb        string
	Group, Resource, Subresource string
	Namespace, Name              string
	Code                         int
	// Forbidden: no role allowed it. An admission plugin may say no as well.
	Forbidden bool
}

// Write tells whether the request was to change something.
func (e AuditEvent) Write() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
}

// Read tells whether the request read objects from the API server, instead of following
// their changes. Asking which kinds there are reads none.
func (e AuditEvent) Read() bool { return e.Resource != "" && (e.Verb == "get" || e.Verb == "list") }

// Audit returns what a user asked of the API server since a moment, in the order of the
// answers. Every request that was answered before the call is in it.
func (c *Cluster) Audit(tb testing.TB, user string, since time.Time) []AuditEvent {
	tb.Helper()
	marker := c.mark(tb)
	// The file is all there is; it tells nobody when it grows.
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(patience); ; {
		events, complete, err := readAudit(c.auditLog, user, since, marker)
		if err != nil {
			tb.Fatalf("reading the audit log: %v", err)
		}
		if complete {
			return events
		}
		if time.Now().After(end) {
			tb.Fatalf("a request did not come to the audit log %s within %s", c.auditLog, patience)
		}
		<-look.C
	}
}

// mark makes a request that nobody else makes, and returns what it asked for. The line
// of a request is written just after its answer, so what was answered before this one
// was sent is in the log once this one is.
func (c *Cluster) mark(tb testing.TB) string {
	tb.Helper()
	marker := "audit-" + uuid.NewString()
	err := mustClient(tb, c.admin).Get(tb.Context(), client.ObjectKey{Namespace: "default", Name: marker}, &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) {
		tb.Fatalf("marking the audit log: %v", err)
	}
	return marker
}

// readAudit reads the log and what was rotated out of it, whose names sort before it.
func readAudit(path, user string, since time.Time, marker string) (events []AuditEvent, complete bool, err error) {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "audit*.log"))
	if err != nil {
		return nil, false, err
	}
	slices.Sort(files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, false, err
		}
		lines := bufio.NewScanner(bytes.NewReader(content))
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			line := lines.Bytes()
			complete = complete || bytes.Contains(line, []byte(marker))
			if !bytes.Contains(line, []byte(user)) {
				continue // Most lines are those of the control plane itself.
			}
			event, counts, err := parseAudit(line)
			if err != nil {
				continue // The last line, not written to its end yet.
			}
			if counts && event.User == user && !event.Time.Before(since) {
				events = append(events, event)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, false, fmt.Errorf("%s: %w", file, err)
		}
	}
	return events, complete, nil
}

// parseAudit reads a line, and tells whether it counts: a watch does when it begins,
// all else when it is answered.
func parseAudit(line []byte) (AuditEvent, bool, error) {
	var raw struct {
		Stage            string    `json:"stage"`
		Verb             string    `json:"verb"`
		UserAgent        string    `json:"userAgent"`
		Received         time.Time `json:"requestReceivedTimestamp"`
		User             named     `json:"user"`
		ImpersonatedUser *named    `json:"impersonatedUser"`
		Object           struct {
			APIGroup    string `json:"apiGroup"`
			Resource    string `json:"resource"`
			Subresource string `json:"subresource"`
			Namespace   string `json:"namespace"`
			Name        string `json:"name"`
		} `json:"objectRef"`
		Status struct {
			Code int `json:"code"`
		} `json:"responseStatus"`
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return AuditEvent{}, false, err
	}
	event := AuditEvent{
		Time: raw.Received, User: raw.User.Name, UserAgent: raw.UserAgent, Verb: raw.Verb,
		Group: raw.Object.APIGroup, Resource: raw.Object.Resource, Subresource: raw.Object.Subresource,
		Namespace: raw.Object.Namespace, Name: raw.Object.Name, Code: raw.Status.Code,
		Forbidden: raw.Annotations["authorization.k8s.io/decision"] == "forbid",
	}
	if raw.ImpersonatedUser != nil {
		event.User = raw.ImpersonatedUser.Name
	}
	began, answered := raw.Stage == "ResponseStarted", raw.Stage == "ResponseComplete"
	refused := answered && event.Code >= 400
	return event, event.Verb == "watch" && (began || refused) || event.Verb != "watch" && answered, nil
}

type named struct {
	Name string `json:"username"`
}
