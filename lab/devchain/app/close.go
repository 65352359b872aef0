package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The state of seid takes minutes to close when it is in the middle of writing a snapshot
// of itself anew. What is written then lies in this file beside the state, and is gone when
// the state is closed.
const (
	rewriteFile     = "devchain-rewrite"
	rewriteInterval = 50 * time.Millisecond
	rewritePage     = 16 << 10
	rewritePages    = 64 // It is written over and over, so that the disk does not fill up.
)

// errTorn is the state of a node that was killed while it closed it. The real one may be
// luckier; nobody should count on that.
var errTorn = errors.New("it was killed while it was being closed, so what it holds is torn")

func checkTorn(dir string) error {
	switch _, err := os.Stat(filepath.Join(dir, rewriteFile)); {
	case err == nil:
		return fmt.Errorf("%s: %w", dir, errTorn)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}

// rewrite takes as long as the file says, writing all the time, and ends early when that
// file is removed.
func rewrite(dir, saysHowLong string) (failed error) {
	text, err := os.ReadFile(saysHowLong)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	span, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", saysHowLong, err)
	}
	written, err := os.Create(filepath.Join(dir, rewriteFile))
	if err != nil {
		return err
	}
	defer func() {
		failed = errors.Join(failed, written.Close())
		if failed == nil {
			failed = os.Remove(written.Name())
		}
	}()
	over := time.After(span)
	ticker := time.NewTicker(rewriteInterval)
	defer ticker.Stop()
	for page := 0; ; page++ {
		if _, err := written.WriteAt(make([]byte, rewritePage), int64(page%rewritePages)*rewritePage); err != nil {
			return err
		}
		if err := written.Sync(); err != nil {
			return err
		}
		select {
		case <-over:
			return nil
		case <-ticker.C:
		}
		if _, err := os.Stat(saysHowLong); err != nil {
			return nil // It was removed: this is enough.
		}
	}
}
