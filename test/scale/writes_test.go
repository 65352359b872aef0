package scale_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/test/cluster"
)

// writes is what the operator wrote, counted at the API server.
type writes struct {
	// objects includes those to the status; events are apart.
	objects, status, events int
	reads                   int
	// of counts them by what they were.
	of map[string]int
}

// countWrites counts what the operator asked of the API server in a namespace since.
func (r *rig) countWrites(since time.Time) writes {
	r.b.Helper()
	w := writes{of: map[string]int{}}
	for _, request := range r.cluster.Audit(r.b, cluster.OperatorUser, since) {
		switch {
		case request.Namespace != r.namespace || request.Resource == "leases":
			continue
		case request.Read():
			w.reads++
		case !request.Write():
			continue
		case request.Resource == "events":
			w.events++
		default:
			w.objects++
			if request.Subresource == "status" {
				w.status++
			}
		}
		w.of[kindOf(request)]++
	}
	return w
}

func kindOf(request cluster.AuditEvent) string {
	resource := request.Resource
	if request.Subresource != "" {
		resource += "/" + request.Subresource
	}
	return fmt.Sprintf("%s %s", request.Verb, resource)
}

func (w writes) String() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(w.of)) {
		parts = append(parts, fmt.Sprintf("%s: %d", kind, w.of[kind]))
	}
	return strings.Join(parts, ", ")
}

// reportPerNode reports what it cost to bring up one of so many nodes.
func (w writes) reportPerNode(b *testing.B, nodes int) {
	b.Helper()
	per := func(n int) float64 { return float64(n) / float64(nodes) }
	b.ReportMetric(per(w.objects), "writes/node")
	b.ReportMetric(per(w.status), "status-writes/node")
	b.ReportMetric(per(w.events), "events/node")
	say(b, "API writes per node, create to settled: %.2f, of which %.2f to the status; %.2f events; %.2f live reads (%s)",
		per(w.objects), per(w.status), per(w.events), per(w.reads), w)
}
