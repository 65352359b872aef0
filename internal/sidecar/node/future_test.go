package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/configure"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/signer"
	"github.com/sei-operator/sei-operator/internal/signing"
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
	n := New(Options{
		Home: home, Consent: may, Signer: signer.New(signer.Options{Home: home, Consent: may}),
		Config: configure.New(home, dir, ""), Clock: clocktesting.NewFakeClock(time.Unix(0, 0)),
	})
	for _, problem := range n.Node().Problems {
		if problem.Reason == ReasonConfigNotKnown && strings.Contains(problem.Message, "tuning") && strings.Contains(problem.Message, "older than the operator") {
			return
		}
	}
	t.Errorf("it is not told: %+v", n.Node().Problems)
}

// TestAnAcceptanceThatIsNotKeptIsTold: the node stays under the guard, and says why.
func TestAnAcceptanceThatIsNotKeptIsTold(t *testing.T) {
	t.Parallel()
	home, dir := seid.Home(t.TempDir()), t.TempDir()
	may, err := consent.Open(dir, "uid", nil)
	if err == nil {
		err = may.Approve("key", "id", 0)
	}
	if err == nil {
		err = may.Signed("key", 900)
	}
	// No file takes the place of a directory.
	approval, mounted := filepath.Join(dir, "approval.json"), filepath.Join(dir, "signing.json")
	err = errors.Join(err, os.Remove(approval), os.Mkdir(approval, 0o700),
		os.WriteFile(mounted, []byte(signing.Known{PublicKey: "key", Accepted: new(int64(0))}.Text()), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	key := signer.New(signer.Options{Home: home, Consent: may, Mounted: mounted})
	key.Approval(may.State())
	n := New(Options{Home: home, Consent: may, Signer: key, Config: configure.New(home, dir, ""), Clock: clocktesting.NewFakeClock(time.Unix(0, 0))})
	problems := n.Node().Problems
	if !slices.ContainsFunc(problems, func(p api.Problem) bool { return p.Reason == ReasonAcceptanceNotKept }) {
		t.Errorf("the problems are %+v", problems)
	}
}
