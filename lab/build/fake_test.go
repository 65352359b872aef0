package build

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeGo puts a go command on PATH that builds without compiling. Its build waits
// for the file "go" in the returned directory if "wait" is there, fails with the
// content of "fail" if that is there, and counts itself in "builds".
func fakeGo(t *testing.T) (state string) {
	t.Helper()
	state = t.TempDir()
	script := `#!/bin/sh
state="` + state + `"
case "$1" in
env)
	if [ -e "$state/old" ]; then cat "$state/old" >&2; exit 1; fi
	printf 'go1.99\nlinux\namd64\n%s\n%s\n' "$state" "$state" ;;
list)
	printf 'a\nb\nc\n' ;;
build)
	echo built >> "$state/builds"
	while [ -e "$state/wait" ] && [ ! -e "$state/go" ]; do /bin/sleep 0.01; done
	if [ -e "$state/fail" ]; then /bin/cat "$state/fail" >&2; exit 1; fi
	while [ "$1" != -o ]; do shift; done
	for name in server; do echo binary > "$2$name"; done
	echo example.com/compiled >&2 ;;
esac
`
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	return state
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func builds(t *testing.T, state string) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(state, "builds"))
	if os.IsNotExist(err) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(content), "\n")
}

// listener is an output on which a test can wait for a text.
type listener struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newListener() *listener { return &listener{changed: make(chan struct{}, 1)} }

func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (l *listener) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *listener) waitFor(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !strings.Contains(l.String(), text) {
		select {
		case <-l.changed:
		case <-deadline:
			t.Fatalf("never saw %q in %q", text, l.String())
		}
	}
}

func newBuilder(t *testing.T, out *listener) *Builder {
	t.Helper()
	source, err := Source()
	if err != nil {
		t.Fatal(err)
	}
	return &Builder{Root: t.TempDir(), Source: source, Out: out}
}

// cached lists what is in the cache, hidden files too.
func cached(t *testing.T, b *Builder, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(b.Root, "bin", pattern))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func ensure(t *testing.T, b *Builder) *Result {
	t.Helper()
	r, err := b.Ensure(t.Context(), Etcd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Release)
	if _, err := os.Stat(r.Path("server")); err != nil {
		t.Fatal(err)
	}
	return r
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("missing %q in:\n%s", part, text)
		}
	}
}
