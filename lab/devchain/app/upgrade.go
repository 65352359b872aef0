package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Plan is an upgrade of the chain that is scheduled.
type Plan struct {
	Name   string `json:"name"`
	Height int64  `json:"height"`
	Info   string `json:"info,omitempty"`
}

// minor tells whether the new binary may run before the upgrade's height.
func (p Plan) minor() bool {
	var info struct {
		UpgradeType string `json:"upgradeType"`
	}
	return json.Unmarshal([]byte(p.Info), &info) == nil && info.UpgradeType == "minor"
}

// handlers are the upgrades that a binary can carry out.
type handlers struct {
	version string
	// named is a list in place of the rule, for tests of seid's own variable.
	named []string
}

// has tells whether the binary can carry out an upgrade: one whose name is a
// version that is not above its own. Releases of seid carry the handlers of all
// earlier ones, too.
func (h handlers) has(name string) bool {
	if h.named != nil {
		return slices.Contains(h.named, name)
	}
	wanted, ok := parseVersion(name)
	own, known := parseVersion(h.version)
	return ok && known && slices.Compare(wanted, own) <= 0
}

func parseVersion(text string) ([]int, bool) {
	digits, ok := strings.CutPrefix(text, "v")
	if !ok {
		return nil, false
	}
	var version []int
	for part := range strings.SplitSeq(digits, ".") {
		number, err := strconv.Atoi(part)
		if err != nil || number < 0 {
			return nil, false
		}
		version = append(version, number)
	}
	return version, true
}

// verdict is what a binary does at the beginning of a block.
type verdict int

const (
	goOn verdict = iota
	// apply: this is the height, and the binary has the handler.
	apply
	// needed: this is the height, and the binary has no handler.
	needed
	// tooNew: the binary has the handler of an upgrade that is yet to come.
	tooNew
	// tooOld: the binary lacks the handler of an upgrade that was carried out.
	tooOld
)

// judge is pure.
func judge(at head, height int64, has func(string) bool) verdict {
	plan := at.Plan
	switch {
	case plan != nil && height == plan.Height && has(plan.Name):
		return apply
	case plan != nil && height == plan.Height:
		return needed
	case at.LastUpgrade != "" && !has(at.LastUpgrade):
		return tooOld
	case plan == nil || height > plan.Height:
		return goOn
	case has(plan.Name) && !plan.minor():
		return tooNew
	default:
		return goOn
	}
}

// upgrade does at the beginning of a block what seid does there. All ways but two
// end the process.
func (a *Application) upgrade() {
	h := &a.store.next
	plan := h.Plan
	decided := judge(*h, h.Height, a.handlers.has)
	if plan != nil && decided != tooOld {
		a.shown.note(*plan, time.Now())
	}
	switch decided {
	case goOn:
	case apply:
		a.log.Info("applying upgrade", "name", plan.Name, "at", fmt.Sprintf("height: %d", plan.Height))
		h.AppVersion++
		h.LastUpgrade, h.Plan = plan.Name, nil
		a.upgraded = true
	case needed:
		text := fmt.Sprintf("UPGRADE %q NEEDED at height: %d: %s", plan.Name, plan.Height, plan.Info)
		if err := writeUpgradeInfo(a.options.DataDir, *plan); err != nil {
			text = fmt.Sprintf("unable to write upgrade info to filesystem: %v", err)
		}
		a.log.Error(text, "module", "cosmos/x/upgrade")
		fmt.Fprintln(os.Stderr, text)
		a.log.Error("upgrade panic detected, panicking to trigger upgrade")
		a.die(text)
	case tooNew:
		text := fmt.Sprintf("BINARY UPDATED BEFORE TRIGGER! UPGRADE %q - in binary but not executed on chain", plan.Name)
		a.log.Error(text, "module", "cosmos/x/upgrade")
		a.die(text)
	case tooOld:
		// Observed: it says zero, also where /abci_info says otherwise.
		a.die(fmt.Sprintf("Wrong app version 0, upgrade handler is missing for %s upgrade plan", h.LastUpgrade))
	}
}

// die ends the process as a panic of seid does. It cannot simply panic: the
// consensus engine would catch it, log it and stay alive.
func (a *Application) die(text string) {
	a.log.Error("CONSENSUS FAILURE!!!", "err", text)
	go func() {
		defer func() { panic(recover()) }()
		panic(text)
	}()
	select {} // The process is gone before anything else happens in this block.
}

// writeUpgradeInfo tells whoever replaces the binary. The file stays there.
func writeUpgradeInfo(dataDir string, plan Plan) error {
	text, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dataDir, "upgrade-info.json"), text, 0o600)
}
