package supervisor

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
)

// child is one seid, from its start to its end.
type child struct {
	instance string
	process  Process
	started  time.Time
	// upgradeInfo is the file before the start: what is in it is not about this
	// seid. Nothing means that nobody knows, and then the file proves nothing.
	upgradeInfo *stamp

	// ended is closed once the end is recorded.
	ended chan struct{}

	// found is what its output told.
	foundMu sync.Mutex
	found   struct {
		upgrade *seid.Upgrade
		ruined  bool
		fatal   *seid.FatalLine
	}
	// noticed is told what happens and does not end seid.
	noticed func(*child, seid.Notice)

	// seed: one version of seid, as a seed, ends with the second signal only.
	seed bool

	settings settings
	// ctx is that of its observation, and never ends.
	ctx context.Context //nolint:containedctx // it begins anew when seid restarts itself

	// The rest belongs to the supervisor, under its lock.
	// boot is how it comes up. One that restarts itself comes up again.
	boot *boot
	// searching: it has no snapshot to restore, and no block is on the volume. restored: it
	// took one once, so that a part of that may be there.
	searching, restored bool
	answered            bool
	// safe is closed while stopping is safe, and replaced when it is not any more.
	safe chan struct{}
	// signalled: it was told to end. Nothing takes that back, and nobody tells it
	// twice: seid's handler is gone with the first signal, so a second one would end it
	// in the middle of closing its stores.
	signalled bool
	// asked is why it was signalled, and how which way that went.
	asked Cause
	how   How
	// next is under which approval to start again when it has ended; nextErr is
	// what came of that.
	next    *Approval
	nextErr *Error
}

// newInstance names a seid. It is unique across supervisors too.
func newInstance() string { return rand.Text()[:16] }

// launch starts a process. The caller holds the reaper's lock.
func launch(cfg Config, args []string, noticed func(*child, seid.Notice)) (*child, error) {
	c := &child{
		noticed:     noticed,
		instance:    newInstance(),
		started:     cfg.Clock.Now(),
		upgradeInfo: stampOf(seid.Home(cfg.Home).UpgradeInfo()),
		safe:        make(chan struct{}),
		ended:       make(chan struct{}),
	}
	process, err := cfg.Launcher.Launch(args, c.note)
	if err != nil {
		return nil, fmt.Errorf("cannot run %s: %w", args[0], err)
	}
	c.process = process
	return c, nil
}

// note keeps the first of what the output tells; seid repeats itself with
// remarks.
func (c *child) note(finding seid.OutputFinding) {
	if finding.Notice != "" {
		c.noticed(c, finding.Notice)
		return
	}
	c.foundMu.Lock()
	defer c.foundMu.Unlock()
	if finding.Upgrade != nil && c.found.upgrade == nil {
		c.found.upgrade = finding.Upgrade
	}
	c.found.ruined = c.found.ruined || finding.RuinedAt != nil
	if finding.Fatal != nil && c.found.fatal == nil {
		c.found.fatal = finding.Fatal
	}
}

// evidence is what the child left behind.
func (c *child) evidence(home seid.Home) evidence {
	c.foundMu.Lock()
	defer c.foundMu.Unlock()
	var upgrade *Upgrade
	if c.found.upgrade != nil {
		upgrade = (*Upgrade)(c.found.upgrade)
	}
	if now := stampOf(home.UpgradeInfo()); now != nil && c.upgradeInfo != nil && *now != *c.upgradeInfo {
		// The file is exact where a line may be cut.
		if info, err := seid.ReadUpgradeInfo(home.UpgradeInfo()); err == nil {
			upgrade = (*Upgrade)(&info)
		}
	}
	return evidence{upgrade: upgrade, ruined: c.found.ruined, fatal: c.found.fatal}
}
