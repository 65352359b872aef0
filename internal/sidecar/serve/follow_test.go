package serve

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
)

// TestAHoldThatIsReadLater: what is asked for from then on comes after it. Otherwise no
// release would ever end it.
func TestAHoldThatIsReadLater(t *testing.T) {
	dir := t.TempDir()
	file, away := filepath.Join(dir, "hold.json"), filepath.Join(dir, "away")
	before, err := consent.Open(dir, "uid", nil)
	if err == nil {
		err = before.Hold("task", "test", 7)
	}
	// A directory is no file that can be read.
	if err = errors.Join(err, os.Rename(file, away), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	allowed, err := consent.Open(dir, "uid", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	places := make(chan uint64, 10)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() { follow(ctx, allowed, func(place uint64) { places <- place }) })
	if got := <-places; got != 0 {
		t.Errorf("the hold cannot be read, and its place is %d", got)
	}
	if err := errors.Join(os.Remove(file), os.Rename(away, file)); err != nil {
		t.Fatal(err)
	}
	allowed.Reread()
	if got := <-places; got != 7 {
		t.Errorf("the place of the hold is %d", got)
	}
}
