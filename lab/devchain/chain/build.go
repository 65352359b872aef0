package chain

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Build builds a seid of a version, from the sources that this package was built
// from. Two versions make an upgrade a real one.
func Build(ctx context.Context, path, version string) error {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return fmt.Errorf("cannot find the sources of seid")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "build", "-o", absolute, "-ldflags", "-X main.version="+version, "./cmd/seid")
	command.Dir = filepath.Dir(filepath.Dir(file))
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build seid %s: %w\n%s", version, err, output)
	}
	return nil
}
