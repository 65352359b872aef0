package search

import (
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"testing"
	"time"
)

// TestMain prints what a search costs: the time on the wall says little about a machine
// that does other things, too.
func TestMain(m *testing.M) {
	// All worlds together have a few megabytes: collecting garbage less often costs nothing.
	debug.SetGCPercent(800)
	began := time.Now()
	code := m.Run()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err == nil {
		processor := time.Duration(used.Utime.Nano() + used.Stime.Nano())
		fmt.Printf("%s on the wall, %s of processor time\n", time.Since(began).Round(time.Second/10), processor.Round(time.Second/10))
	}
	os.Exit(code)
}
