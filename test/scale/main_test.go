// Package scale_test measures the operator, as it is shipped, against a real control
// plane with KWOK pods and scripted sidecars. "make bench-controller" runs it, and
// docs/performance.md says what the figures ought to be and what they were.
//
// Beside most figures stands a baseline: a script that makes the same objects and as
// many status writes of the same size with no controller behind it, on the same
// control plane, in the same run.
package scale_test

import (
	"flag"
	"os"
	"testing"

	"github.com/sei-operator/sei-operator/test/cluster"
)

var (
	smallFleet = flag.Int("small", 200, "number of nodes of the small fleet")
	largeFleet = flag.Int("large", 500, "number of nodes of the large fleet; 1000 takes several minutes more")
)

// TestMain starts no control plane when there is nothing to measure: a plain "go test"
// is over at once.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run())
	}
	cluster.Main(m)
}
