// Command pause is the first process of every pod: it holds the pod's namespaces.
// If the pod's containers share one process namespace, it also waits for orphans.
package main

import (
	"errors"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGCHLD)
	for received := range signals {
		if received != unix.SIGCHLD {
			return
		}
		// One signal may stand for several children.
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
		}
	}
}
