package seid

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseMetrics(t *testing.T) {
	page := `# HELP tendermint_consensus_state_syncing Whether state is synced.
# TYPE tendermint_consensus_state_syncing gauge
tendermint_consensus_state_syncing{chain_id="loop-1"} 1
tendermint_consensus_block_syncing{chain_id="loop-1"} 0
tendermint_consensus_latest_block_height{chain_id="loop-1"} 1.234567e+06 1700000000000
tendermint_p2p_peers{chain_id="loop-1"} 3
tendermint_p2p_peers_total{chain_id="loop-1"} 99
tendermint_consensus_validator_last_signed_height{chain_id="loop-1",validator_address="AB"} 1477
tendermint_consensus_validator_power{chain_id="loop-1",validator_address="AB"} 7000
tendermint_consensus_validator_missed_blocks{chain_id="loop-1",validator_address="AB"} 2
cosmos_upgrade_plan_height 0
cosmos_upgrade_plan_height{name="v7",info="{\"note\":\"a, b} \\ c\nd\"}"} 2000
cosmos_upgrade_plan_height{ info = "", name = "v6.6" , } 1500
`
	got, err := ParseMetrics(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	want := Metrics{
		StateSyncing: new(true), BlockSyncing: new(false), LatestHeight: new(int64(1234567)), Peers: new(int64(3)),
		ValidatorLastSignedHeight: new(int64(1477)), ValidatorPower: new(int64(7000)), ValidatorMissedBlocks: new(int64(2)),
		Upgrades: []Upgrade{
			{Name: "v6.6", Height: 1500},
			{Name: "v7", Height: 2000, Info: "{\"note\":\"a, b} \\ c\nd\"}"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestParseMetricsAbsentIsUnknown(t *testing.T) {
	for _, page := range []string{
		"", "\n\n", "tendermint_p2p_peers", "tendermint_p2p_peers{", "tendermint_p2p_peers{a", "tendermint_p2p_peers{a=b} 1",
		`tendermint_p2p_peers{a="b} 1`, `tendermint_p2p_peers{a="b"}`, "tendermint_p2p_peers x", "tendermint_p2p_peers NaN",
		"tendermint_p2p_peers +Inf", "tendermint_p2p_peers 1.5", "tendermint_p2p_peers 1e30", "tendermint_p2p_peers 1 2 3",
		"#tendermint_p2p_peers 1", "tendermint_consensus_state_syncing x", "cosmos_upgrade_plan_height{name=\"x\"} 0",
		"tendermint_p2p_peers{a=\"" + strings.Repeat("x", 200<<10) + "\"} 1\n",
	} {
		got, err := ParseMetrics(strings.NewReader(page))
		if err != nil || !cmp.Equal(got, Metrics{}) {
			t.Errorf("%.60q: %+v, %v", page, got, err)
		}
	}
}

func TestParseMetricsAfterALongLine(t *testing.T) {
	page := "x{a=\"" + strings.Repeat("x", 200<<10) + "\"} 1\ntendermint_p2p_peers 1"
	got, err := ParseMetrics(strings.NewReader(page))
	if err != nil || got.Peers == nil || *got.Peers != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParseMetricsErrors(t *testing.T) {
	broken := errors.New("broken")
	if _, err := ParseMetrics(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := ParseMetrics(strings.NewReader(strings.Repeat("x 1\n", maxMetrics/4+1))); err == nil {
		t.Error("a page without end is read")
	}
}

func TestParseMetricsProperty(t *testing.T) {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	rapid.Check(t, func(t *rapid.T) {
		want := Upgrade{
			Name:   rapid.StringN(1, 20, -1).Draw(t, "name"),
			Info:   rapid.String().Draw(t, "info"),
			Height: rapid.Int64Range(1, 1<<52).Draw(t, "height"),
		}
		page := fmt.Sprintf("cosmos_upgrade_plan_height{info=\"%s\",name=\"%s\"} %g\n", escape.Replace(want.Info), escape.Replace(want.Name), float64(want.Height))
		got, err := ParseMetrics(strings.NewReader(page))
		if err != nil || len(got.Upgrades) != 1 || got.Upgrades[0].Name != want.Name || got.Upgrades[0].Info != want.Info {
			t.Fatalf("%q: %+v, %v", page, got, err)
		}
	})
}

func FuzzMetrics(f *testing.F) {
	f.Add("tendermint_p2p_peers{a=\"b\"} 1\n")
	f.Add("cosmos_upgrade_plan_height{name=\"x\\n\",info=\"\"} 1e3\n")
	f.Fuzz(func(t *testing.T, page string) {
		got, err := ParseMetrics(strings.NewReader(page))
		if err != nil {
			t.Error(err)
		}
		for _, upgrade := range got.Upgrades {
			if upgrade.Name == "" || upgrade.Height < 1 {
				t.Errorf("%q: %+v", page, upgrade)
			}
		}
	})
}
