package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/configure"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
)

// TestASidecarThatIsTooOldSaysSo: its node runs with a part of what is wanted.
func TestASidecarThatIsTooOldSaysSo(t *testing.T) {
	dir := t.TempDir()
	may, err := consent.Open(t.TempDir(), "uid", nil)
	if err != nil {
		t.Fatal(err)
	}
	record := `{"serial":2,"hash":"h","originals":{},"notKnown":["tuning"],"document":{"serial":2,"chainId":"a","mode":"seed","tuning":1}}`
	if err := os.WriteFile(filepath.Join(dir, "configuration.json"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	home := seid.Home(t.TempDir())
	n := New(Options{Home: home, Consent: may, Config: configure.New(home, dir, ""), Clock: clocktesting.NewFakeClock(time.Unix(0, 0))})
	for _, problem := range n.Node().Problems {
		if problem.Reason == ReasonConfigNotKnown && strings.Contains(problem.Message, "tuning") && strings.Contains(problem.Message, "older than the operator") {
			return
		}
	}
	t.Errorf("it is not told: %+v", n.Node().Problems)
}
