package cluster

import (
	"net/http"
	"testing"
)

func TestARefusalCountsWhenTheRightIsNeverThere(t *testing.T) {
	watch := AuditEvent{Verb: "watch", Resource: "pods", Code: http.StatusOK}
	refused := watch
	refused.Code, refused.Forbidden = http.StatusForbidden, true
	other := refused
	other.Verb = "delete"

	if err := refusals([]AuditEvent{watch, refused, watch}); err != nil {
		t.Errorf("refused by an API server that had not read the roles yet: %v", err)
	}
	err := refusals([]AuditEvent{watch, other})
	if want := "the operator asked for what its role does not allow: delete /pods (/)"; err == nil || err.Error() != want {
		t.Errorf("refused for lack of the right to delete: %v, want %q", err, want)
	}
}
