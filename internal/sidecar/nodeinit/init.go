// Package nodeinit prepares a node's volume and the program that watches over it:
// it carries out "seid init" until it succeeded once, and copies its own
// executable to where seid's container finds it.
package nodeinit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sei-operator/sei-operator/internal/durable"
	"github.com/sei-operator/sei-operator/internal/seid"
)

const (
	// markerName is the file that says that a home is complete. Nothing else says
	// so: a volume may hold lost+found, or what an init left that was broken off.
	markerName = ".sei-init.json"
	// stagingName is where seid init works. It never sees the home itself, so
	// nothing it does can harm a key, and nothing half-finished is ever in place.
	stagingName = ".sei-init.staging"
	// killDelay is how long an init that was told to end may take.
	killDelay = 5 * time.Second
)

// InitConfig is what Init needs.
type InitConfig struct {
	Home    string
	ChainID string
	Mode    seid.Mode
	Moniker string
	// SeidPath is the program; empty means "seid" from the path.
	SeidPath string
	// Env is its environment; nil means that of this process.
	Env []string
	// SigningKeyFromSecret and NodeKeyFromSecret say that the key is mounted over
	// its file: the one that seid init makes is not wanted on the volume.
	SigningKeyFromSecret, NodeKeyFromSecret bool
	// Stdout and Stderr get its output; nil means those of this process.
	Stdout, Stderr io.Writer
}

// marker is the content of the marker file, for people who wonder.
type marker struct {
	ChainID string    `json:"chainId"`
	Mode    seid.Mode `json:"mode"`
	// Adopted: the home came from elsewhere, and what it had was left as it was.
	Adopted bool `json:"adopted,omitempty"`
}

// action is what a home needs.
type action int

const (
	// skip: an earlier init was completed. Whatever was edited since stays.
	skip action = iota
	// adopt: this is a node from elsewhere, with all it needs.
	adopt
	// fill: seid ran here, so nothing that exists is replaced.
	fill
	// create: there is nothing of value but keys.
	create
)

// home is what was found on the volume; config is config.toml and app.toml.
type home struct {
	marker, data, genesis, config, client bool
}

// decide is pure.
func decide(found home) action {
	switch {
	case found.marker && found.config && !found.client:
		// An adopted home never had it: without it nothing can be configured, and nobody
		// else makes one. The other two are not made anew, because seid's own defaults
		// are not what was configured: an archive would begin to prune.
		return fill
	case found.marker:
		return skip
	case found.data && found.genesis && found.config && found.client:
		return adopt
	case found.data:
		return fill
	default:
		return create
	}
}

// Init makes a home of a node complete, once. It may be interrupted at any moment
// and called again. Keys and the sign state that exist are never replaced.
func Init(ctx context.Context, cfg InitConfig) error {
	h := seid.Home(cfg.Home)
	found, err := look(h)
	if err != nil {
		return err
	}
	adopted := false
	switch decide(found) {
	case skip:
		return nil
	case adopt:
		if err := fits(h, cfg.ChainID); err != nil {
			return err
		}
		adopted = true
	case fill:
		adopted = found.data && found.genesis
		if found.genesis {
			err = fits(h, cfg.ChainID)
		}
		if err == nil {
			err = initialise(ctx, cfg, false)
		}
	case create:
		err = initialise(ctx, cfg, true)
	}
	if err != nil {
		return err
	}
	text, err := json.Marshal(marker{ChainID: cfg.ChainID, Mode: cfg.Mode, Adopted: adopted})
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(cfg.Home, markerName), append(text, '\n'), 0o644)
}

func look(h seid.Home) (home, error) {
	var found home
	var err error
	if found.data, err = h.HasStores(); err != nil {
		return home{}, err
	}
	for path, there := range map[string]*bool{
		filepath.Join(string(h), markerName): &found.marker,
		h.Genesis():                          &found.genesis,
	} {
		if *there, err = exists(path); err != nil {
			return home{}, err
		}
	}
	var app bool
	for file, there := range map[seid.File]*bool{seid.ConfigTOML: &found.config, seid.AppTOML: &app, seid.ClientTOML: &found.client} {
		if *there, err = exists(h.File(file)); err != nil {
			return home{}, err
		}
	}
	found.config = found.config && app
	return found, nil
}

// exists tells whether a file has something in it. An empty one is what a mount
// over a missing file leaves behind.
func exists(path string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot tell what is on the volume: %w", err)
	}
	return info.Size() > 0, nil
}

// fits refuses a volume of another chain, before seid does so with a panic.
func fits(h seid.Home, chainID string) error {
	genesis, err := seid.ReadGenesis(h.Genesis())
	if err != nil {
		return fmt.Errorf("the volume holds a chain's data, but not its genesis file: %w", err)
	}
	if err := genesis.Check(chainID, ""); err != nil {
		return fmt.Errorf("the volume is not of this chain: %w", err)
	}
	return nil
}

// initialise runs seid init beside the home and moves what it made into place.
func initialise(ctx context.Context, cfg InitConfig, overwrite bool) error {
	staging := filepath.Join(cfg.Home, stagingName)
	if err := os.RemoveAll(staging); err != nil {
		return fmt.Errorf("cannot clear what an earlier init left: %w", err)
	}
	if err := os.MkdirAll(staging, 0o750); err != nil {
		return fmt.Errorf("cannot write to the volume: %w", err)
	}
	if err := runInit(ctx, cfg, staging); err != nil {
		return err
	}
	if err := install(cfg, staging, overwrite); err != nil {
		return fmt.Errorf("cannot put the files of seid init into place: %w", err)
	}
	return os.RemoveAll(staging)
}

func runInit(ctx context.Context, cfg InitConfig, staging string) error {
	path := cfg.SeidPath
	if path == "" {
		path = "seid"
	}
	mode := cfg.Mode.InitMode()
	if mode == "" || cfg.ChainID == "" {
		return fmt.Errorf("seid init needs a mode and a chain id, not %q and %q", cfg.Mode, cfg.ChainID)
	}
	cmd := exec.CommandContext(ctx, path, "init", cfg.Moniker, "--chain-id", cfg.ChainID, "--mode", mode, "--home", staging)
	cmd.Env = cfg.Env
	cmd.Stdout, cmd.Stderr = orElse(cfg.Stdout, os.Stdout), orElse(cfg.Stderr, os.Stderr)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killDelay
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("seid init for chain %s did not succeed, its output says why: %w", cfg.ChainID, err)
	}
	// The proof that it got to its end, whatever its exit code means.
	_, err := seid.ReadGenesis(seid.Home(staging).Genesis())
	if err != nil {
		return fmt.Errorf("seid init for chain %s left no genesis file: %w", cfg.ChainID, err)
	}
	return nil
}

func orElse(writer, otherwise io.Writer) io.Writer {
	if writer == nil {
		return otherwise
	}
	return writer
}
