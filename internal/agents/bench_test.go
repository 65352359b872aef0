package agents

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	followed     = 500
	playSidecars = "SEI_TEST_PLAY_SIDECARS"
)

// What a followed node costs the operator at rest, with the stream open. The sidecars
// are played by another process, so that only our end is measured.
func BenchmarkFollowedNodes(b *testing.B) {
	addresses := playedElsewhere(b)
	for b.Loop() {
		transport := Transport()
		before, goroutines := memory(), runtime.NumGoroutine()
		r := newRig(b, transport)
		begin := time.Now()
		for i, address := range addresses {
			r.Follow(target(types.NamespacedName{Namespace: "sei", Name: fmt.Sprintf("node-%d", i)}, address))
		}
		for i := range addresses {
			r.until(b, types.NamespacedName{Namespace: "sei", Name: fmt.Sprintf("node-%d", i)}, "a connection", isConnected)
		}
		took := time.Since(begin)
		transport.CloseIdleConnections()
		after := memory()
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/followed, "heap-B/node")
		b.ReportMetric(float64(after.StackInuse-before.StackInuse)/followed, "stack-B/node")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/followed, "goroutines/node")
		b.ReportMetric(float64(took.Milliseconds()), "ms-to-connect-all")
		r.end()
	}
}

// memory is what is in use when everything that can be freed was.
func memory() (m runtime.MemStats) {
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m
}

// playedElsewhere starts a process that plays sidecars until the benchmark ends.
func playedElsewhere(b *testing.B) (addresses []string) {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	command := exec.CommandContext(b.Context(), self)
	command.Env = append(os.Environ(), playSidecars+"=1")
	command.Stderr = os.Stderr
	lifeline, err := command.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	said, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = lifeline.Close()
		_ = command.Wait()
	})
	for lines := bufio.NewScanner(said); len(addresses) < followed && lines.Scan(); {
		addresses = append(addresses, lines.Text())
	}
	if len(addresses) != followed {
		b.Fatalf("only %d sidecars are played", len(addresses))
	}
	return addresses
}

// servesForABenchmark plays sidecars if that is what this process was started for.
// It ends when the process that started it does.
func servesForABenchmark() bool {
	if os.Getenv(playSidecars) == "" {
		return false
	}
	for range followed {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it lives as long as the process
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		server := &http.Server{Handler: newScript(), ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(l) }()
		fmt.Printf("http://%s\n", l.Addr())
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return true
}
