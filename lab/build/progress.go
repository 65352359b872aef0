package build

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// progress tells a person that a long build is alive.
type progress struct {
	out       io.Writer
	terminal  bool
	component string
	started   time.Time

	mu       sync.Mutex
	compiled int
	total    int
}

// line is the text shown after some time.
func (p *progress) line(elapsed time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	packages := fmt.Sprintf("%d packages compiled", p.compiled)
	if p.total > 0 {
		packages = fmt.Sprintf("%d of %d packages compiled", p.compiled, p.total)
	}
	return fmt.Sprintf("building %s (once only): %s, %s", p.component, elapsed.Round(time.Second), packages)
}

func (p *progress) setTotal(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = n
}

// Write counts the package names that "go build -v" prints, one per line. They
// arrive in whole lines, since the go command writes each of them at once.
func (p *progress) Write(output []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.SplitSeq(string(output), "\n") {
		if line != "" && !strings.ContainsAny(line, " \t#") {
			p.compiled++
		}
	}
	return len(output), nil
}

// show repeats the line until stop is closed: in place on a terminal, and as a
// line of its own now and then where output is kept.
func (p *progress) show(stop <-chan struct{}) {
	interval := 30 * time.Second
	if p.terminal {
		interval = time.Second
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	fmt.Fprintf(p.out, "building %s: this takes some minutes, once only\n", p.component)
	for {
		select {
		case <-ticker.C:
			if p.terminal {
				fmt.Fprintf(p.out, "\r\x1b[K%s", p.line(time.Since(p.started)))
			} else {
				fmt.Fprintln(p.out, p.line(time.Since(p.started)))
			}
		case <-stop:
			if p.terminal {
				fmt.Fprint(p.out, "\r\x1b[K")
			}
			return
		}
	}
}
