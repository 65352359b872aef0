package nodeinit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sei-operator/sei-operator/internal/durable"
	"github.com/sei-operator/sei-operator/internal/seid"
)

// file is a file that seid init made.
type file struct {
	name string
	// precious: one that exists is never replaced.
	precious bool
	// unwanted: it stays where it is.
	unwanted bool
}

// install moves the files of an init into the home. When it was interrupted the
// whole init is done again, so the order does not matter; what does is that all
// is on disk before the marker says so.
func install(cfg InitConfig, staging string, overwrite bool) error {
	files, err := made(cfg, staging)
	if err != nil {
		return err
	}
	for _, f := range files {
		from, to := filepath.Join(staging, f.name), filepath.Join(cfg.Home, f.name)
		if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
			return err
		}
		there, err := keeps(to, f, overwrite)
		if err != nil {
			return err
		}
		if there || f.unwanted {
			continue
		}
		if err := durable.Sync(from); err != nil {
			return err
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
	}
	h := seid.Home(cfg.Home)
	return errors.Join(durable.Sync(h.ConfigDir()), durable.Sync(h.Data()), durable.Sync(cfg.Home))
}

// keeps tells whether what is in the home stays.
func keeps(path string, f file, overwrite bool) (bool, error) {
	if f.name == signState {
		// Even an empty or damaged one: a fresh one would allow to sign again what
		// was signed, and seid says what is wrong with the old.
		_, err := os.Lstat(path)
		return err == nil, ignoreMissing(err)
	}
	there, err := exists(path)
	return there && (f.precious || !overwrite), err
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

var (
	signingKey = filepath.Join("config", "priv_validator_key.json")
	nodeKey    = filepath.Join("config", "node_key.json")
	signState  = filepath.Join("data", "priv_validator_state.json")
)

// made lists what an init made: all of config, and of data the sign state.
func made(cfg InitConfig, staging string) ([]file, error) {
	entries, err := os.ReadDir(seid.Home(staging).ConfigDir())
	if err != nil {
		return nil, err
	}
	files := []file{{name: signState, precious: true}}
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		f := file{name: filepath.Join("config", entry.Name())}
		switch f.name {
		case signingKey:
			f.precious, f.unwanted = true, cfg.SigningKeyFromSecret
		case nodeKey:
			f.precious, f.unwanted = true, cfg.NodeKeyFromSecret
		case filepath.Join("config", "validator_pubkey.txt"), filepath.Join("config", "node_pubkey.txt"):
			// They repeat the keys of the init, which may not be those of the home.
			continue
		}
		files = append(files, f)
	}
	return files, nil
}

// Install copies the executable of this process, so that a container of another
// image can run it. At every moment there is the old file or the new one.
func Install(dst string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program: %w", err)
	}
	if err := copyExecutable(self, dst); err != nil {
		return fmt.Errorf("cannot install this program as %s: %w", dst, err)
	}
	return nil
}

func copyExecutable(src, dst string) error {
	from, err := os.Open(src)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it was only read
	to, err := durable.Writer{}.Create(dst, 0o755)
	if err != nil {
		return err
	}
	defer to.Discard()
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	return to.Commit()
}
