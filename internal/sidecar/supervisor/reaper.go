package supervisor

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reaper collects the processes that seid left behind, which come to the
// supervisor when their parent ends. It never takes seid itself: whoever waits
// for seid has to learn how it ended.
type reaper struct {
	// mu is held while a child is started, so that one that ends at once is known.
	mu   sync.Mutex
	ours int
	// collected wakes the reaper when seid was waited for: until then seid hides
	// the others.
	collected chan struct{}
}

func newReaper() *reaper {
	return &reaper{collected: make(chan struct{}, 1)}
}

// adopt makes orphans come to this process, which they do by themselves only if
// it is PID 1.
func adopt() error {
	if os.Getpid() == 1 {
		return nil
	}
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// run reaps until done.
func (r *reaper) run(done <-chan struct{}) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	defer signal.Stop(died)
	for {
		r.reap()
		select {
		case <-died:
		case <-r.collected:
		case <-done:
			return
		}
	}
}

// reap collects the orphans that have ended, up to the first that is seid.
func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		pid, ok := firstEnded()
		if !ok || pid == r.ours {
			return
		}
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, unix.WNOHANG, nil); err != nil {
			return
		}
	}
}

// release forgets seid, which somebody has waited for.
func (r *reaper) release() {
	r.mu.Lock()
	r.ours = 0
	r.mu.Unlock()
	select {
	case r.collected <- struct{}{}:
	default:
	}
}

// firstEnded looks for a child that has ended, and leaves it there.
func firstEnded() (int, bool) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		// The package has no name for the field; on 64-bit Linux it follows four
		// integers.
		pid := int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), 16)))
		return pid, err == nil && info.Signo != 0
	}
}
