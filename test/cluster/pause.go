package cluster

import (
	"sync"
	"syscall"
	"testing"
)

// PauseControllers lets Kubernetes' own controllers stand still, until the function is
// called or the test ends. It is for moments: after some seconds without them, machines
// begin to look as if they were lost.
func (c *Cluster) PauseControllers(tb testing.TB) (resume func()) {
	tb.Helper()
	const name = "kube-controller-manager"
	pid, known := c.components[name]
	if !known {
		tb.Fatalf("the lab does not say which process the %s is", name)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		tb.Fatalf("pausing the %s: %v", name, err)
	}
	resume = sync.OnceFunc(func() {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			tb.Errorf("letting the %s go on: %v", name, err)
		}
	})
	tb.Cleanup(resume)
	return resume
}
