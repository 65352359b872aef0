package likeness

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/sei-operator/sei-operator/lab/devchain/app"
	"github.com/sei-operator/sei-operator/lab/devchain/chain"
)

// schedule schedules an upgrade some blocks ahead.
func schedule(t *testing.T, n *chain.Node, name string, ahead int64) app.Plan {
	t.Helper()
	status, err := n.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan := app.Plan{Name: name, Height: status.Height + ahead, Info: `{"note":"test"}`}
	if err := n.Schedule(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	return plan
}

// The tenth fact: upgrade-info.json stays after a successful upgrade; a plan is visible
// before it. And how a node halts that needs an upgrade.
func TestFact10UpgradeInfoStays(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	configure(t, n, nil, map[string]string{"api.enable": "true"})
	p := start(t, n, v1)
	until(t, "REST is open", func(ctx context.Context) bool { return open(ctx, port(n, "1317")) })
	untilHeight(t, n, 1)
	plan := schedule(t, n, "v2", 15)
	sample := `cosmos_upgrade_plan_height{info="{\"note\":\"test\"}",name="v2"}`
	if _, there := metric(t.Context(), t, n, sample); !there {
		t.Error("the metrics do not show the plan")
	}
	if answer := fetch(t.Context(), t, "http://"+port(n, "1317")+"/cosmos/upgrade/v1beta1/current_plan"); !strings.Contains(answer, `"name":"v2"`) {
		t.Errorf("REST answers %s", answer)
	}
	needed := `UPGRADE "v2" NEEDED at height: ` + digits(plan.Height) + `: {"note":"test"}`
	ends(t, p, 2, "\n"+needed+"\n", "panic: "+needed, "[recovered, repanicked]", "CONSENSUS FAILURE!!!",
		`level=ERROR msg="UPGRADE \"v2\" NEEDED`, "upgrade panic detected, panicking to trigger upgrade")
	info, err := os.ReadFile(n.Home.UpgradeInfo())
	if want := `{"name":"v2","height":` + digits(plan.Height) + `,"info":"{\"note\":\"test\"}"}`; err != nil || string(info) != want {
		t.Errorf("%s, %v", info, err)
	}

	// The same binary again: the same, without RPC. That needs REST off, which would
	// only make it slower.
	configure(t, n, nil, servicesOff())
	const opensRPC = "Starting RPC HTTP server"
	if !strings.Contains(p.Output(), opensRPC) {
		t.Error("nobody would notice that RPC opens")
	}
	p = start(t, n, v1)
	ends(t, p, 2, "\n"+needed+"\n", "panic: "+needed)
	if strings.Contains(p.Output(), opensRPC) {
		t.Error("RPC opened")
	}

	// The new binary goes on.
	p = start(t, n, v2)
	untilHeight(t, n, plan.Height+2)
	if !strings.Contains(p.Output(), `msg="applying upgrade" name=v2 at="height: `+digits(plan.Height)+`"`) {
		t.Error("it did not carry the upgrade out")
	}
	if answer := fetch(t.Context(), t, n.RPC()+"/abci_info"); !strings.Contains(answer, `"app_version":"1"`) || !strings.Contains(answer, `"version":"v2"`) {
		t.Errorf("/abci_info: %s", answer)
	}
	if _, err := os.Stat(n.Home.UpgradeInfo()); err != nil {
		t.Error(err)
	}
	if _, there := metric(t.Context(), t, n, sample); !there {
		t.Error("the metrics of the process that carried the plan out do not show it any more")
	}
	signal(t, p, syscall.SIGKILL)
	ends(t, p, 137)

	// Back to the old one: it opens RPC, and ends at the first block.
	ends(t, start(t, n, v1), 2, "panic: Wrong app version 0, upgrade handler is missing for v2 upgrade plan")
	start(t, n, v2)
	untilHeight(t, n, plan.Height+5)
	if _, there := metric(t.Context(), t, n, sample); there {
		t.Error("the metrics of another process show the plan")
	}
}

// The metric of a plan's height has 32 bits: at real heights it is another one, a few blocks
// below or above. REST is exact. Plans that were replaced or cancelled stay in the metrics for
// two hours, or until the process ends; after that the next block shows what there is.
func TestThePlansOfTheMetrics(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	configure(t, n, nil, map[string]string{"api.enable": "true"})
	p := start(t, n, v1)
	until(t, "REST is open", func(ctx context.Context) bool { return open(ctx, port(n, "1317")) })
	untilHeight(t, n, 1)
	shows := func(name, want string) {
		t.Helper()
		if got, _ := metric(t.Context(), t, n, `cosmos_upgrade_plan_height{info="",name="`+name+`"}`); got != want {
			t.Errorf("the metrics show %s at %q, not at %q", name, got, want)
		}
	}
	for _, one := range []struct {
		plan app.Plan
		want string
	}{
		{app.Plan{Name: "v7", Height: 178123457}, "1.78123456e+08"},
		{app.Plan{Name: "v8", Height: 178123465}, "1.78123472e+08"},
		{app.Plan{Name: "v9", Height: 16777215}, "1.6777215e+07"},
	} {
		if err := n.Schedule(t.Context(), one.plan); err != nil {
			t.Fatal(err)
		}
		shows(one.plan.Name, one.want)
		answer := fetch(t.Context(), t, "http://"+port(n, "1317")+"/cosmos/upgrade/v1beta1/current_plan")
		if !strings.Contains(answer, `"height":"`+digits(one.plan.Height)+`"`) {
			t.Errorf("REST answers %s", answer)
		}
	}
	shows("v7", "1.78123456e+08")
	shows("", "")
	signal(t, p, syscall.SIGKILL)
	ends(t, p, 137)
	configure(t, n, nil, servicesOff())
	start(t, n, v1)
	status := untilHeight(t, n, 1)
	untilHeight(t, n, status.Height+2)
	shows("v7", "")
	shows("v8", "")
	shows("v9", "1.6777215e+07")
}

// A binary that is too new runs until the plan exists, and ends without a trace; the old
// one goes on.
func TestBinaryUpdatedBeforeTrigger(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	p := start(t, n, v2)
	untilHeight(t, n, 1)
	// The answer may not come any more: the node ends in the very next block.
	tx, err := app.PlanTx(app.Plan{Name: "v2", Height: 10000})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Send(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	ends(t, p, 2, `panic: BINARY UPDATED BEFORE TRIGGER! UPGRADE "v2" - in binary but not executed on chain`)
	if _, err := os.Stat(n.Home.UpgradeInfo()); err == nil {
		t.Error("there is an upgrade-info.json")
	}
	start(t, n, v1)
	status := untilHeight(t, n, 1)
	untilHeight(t, n, status.Height+2)
	// One plan takes the place of another.
	plan := schedule(t, n, "v2", 10)
	ends(t, n.Process(), 2, `UPGRADE "v2" NEEDED at height: `+digits(plan.Height))
}
