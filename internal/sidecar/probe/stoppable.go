package probe

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stoppableInterval is how often the process is looked at: it tells nobody.
const stoppableInterval = 10 * time.Millisecond

// Stoppable waits until the process that a status file in /proc tells of runs a program,
// if one is named, and catches SIGTERM.
//
// The kernel drops what the first process of a container does not catch, and the kubelet
// asks once. A pod that is deleted at the very moment at which a container starts would
// stay for its whole grace period, which is long for the sake of seid.
func Stoppable(ctx context.Context, status, program string) error {
	look := time.NewTicker(stoppableInterval)
	defer look.Stop()
	for {
		catches, err := catchesTerm(status, program)
		if catches || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the process does not catch SIGTERM yet, and may not end when it is asked to: %w", ctx.Err())
		case <-look.C:
		}
	}
}

// catchesTerm reads what a process runs, and the signals that it has handlers for. They end
// with the program that set them.
func catchesTerm(status, program string) (bool, error) {
	content, err := os.ReadFile(status)
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(content)) {
		if name, found := strings.CutPrefix(line, "Name:"); found && program != "" && strings.TrimSpace(name) != program {
			return false, nil
		}
		if mask, found := strings.CutPrefix(line, "SigCgt:"); found {
			caught, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return caught&(1<<(syscall.SIGTERM-1)) != 0, err
		}
	}
	return false, fmt.Errorf("%s does not say which signals are caught", status)
}
