package build

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecondBuildComesFromTheCache(t *testing.T) {
	state := fakeGo(t)
	out := newListener()
	b := newBuilder(t, out)
	first := ensure(t, b)
	second := ensure(t, b)
	if first.Dir != second.Dir || builds(t, state) != 1 {
		t.Errorf("built %d times, in %s and %s", builds(t, state), first.Dir, second.Dir)
	}
	contains(t, out.String(), "building etcd", "once only", "built etcd")
}

func TestTwoBuildersAtOnceBuildOnce(t *testing.T) {
	state := fakeGo(t)
	write(t, state, "wait", "")
	firstOut, secondOut := newListener(), newListener()
	first := newBuilder(t, firstOut)
	second := &Builder{Root: first.Root, Source: first.Source, Out: secondOut}

	results := make(chan error, 2)
	build := func(b *Builder) {
		r, err := b.Ensure(t.Context(), Etcd)
		if err == nil {
			r.Release()
		}
		results <- err
	}
	go build(first)
	firstOut.waitFor(t, "building etcd")
	go build(second)
	secondOut.waitFor(t, "which is building etcd")
	write(t, state, "go", "")
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := builds(t, state); n != 1 {
		t.Errorf("built %d times", n)
	}
}

func TestDamagedEntryIsBuiltAgain(t *testing.T) {
	state := fakeGo(t)
	b := newBuilder(t, newListener())
	damaged := ensure(t, b)
	if err := os.Remove(damaged.Path(useFile)); err != nil {
		t.Fatal(err)
	}
	ensure(t, b)
	if n := builds(t, state); n != 2 {
		t.Errorf("built %d times", n)
	}
}

func TestInterruptedBuildLeavesNothing(t *testing.T) {
	state := fakeGo(t)
	write(t, state, "wait", "")
	out := newListener()
	b := newBuilder(t, out)
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan error)
	go func() {
		_, err := b.Ensure(ctx, Etcd)
		result <- err
	}()
	out.waitFor(t, "building etcd")
	enough := errors.New("enough")
	cancel(enough)
	if err := <-result; !errors.Is(err, enough) {
		t.Errorf("error: %v", err)
	}
	for _, pattern := range []string{"etcd-v*", ".building-*"} {
		if left := cached(t, b, pattern); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	write(t, state, "go", "")
	ensure(t, b)
}

func TestLeftoversOfAKilledBuildAreRemoved(t *testing.T) {
	fakeGo(t)
	b := newBuilder(t, newListener())
	if err := os.MkdirAll(filepath.Join(b.Root, "bin", ".building-etcd-123", "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	ensure(t, b)
	if left := cached(t, b, ".building-*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestFailedBuildIsExplained(t *testing.T) {
	state := fakeGo(t)
	write(t, state, "fail", "# example.com/broken\nbroken.go:1:2: undefined: x\n")
	b := newBuilder(t, newListener())
	_, err := b.Ensure(t.Context(), Etcd)
	if err == nil {
		t.Fatal("no error")
	}
	log := filepath.Join(b.Root, "bin", "etcd.log")
	contains(t, err.Error(), "building etcd failed", "broken.go:1:2: undefined: x", log)
	if _, err := os.Stat(log); err != nil {
		t.Error(err)
	}
	if left := cached(t, b, "etcd-v*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestFullDiskIsNamed(t *testing.T) {
	state := fakeGo(t)
	write(t, state, "fail", "write /tmp/x: no space left on device\n")
	_, err := newBuilder(t, newListener()).Ensure(t.Context(), Etcd)
	if err == nil {
		t.Fatal("no error")
	}
	contains(t, err.Error(), "the disk is full", "GB")
}

func TestTooLittleSpaceIsSeenBeforehand(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "not", "there", "yet")
	if err := checkSpace("etcd", 1, missing); err != nil {
		t.Error(err)
	}
	err := checkSpace("etcd", 1<<62, missing)
	if err == nil {
		t.Fatal("no error")
	}
	contains(t, err.Error(), "not enough disk space to build etcd", missing, "GOCACHE")
}

func TestOldGoIsNamed(t *testing.T) {
	state := fakeGo(t)
	write(t, state, "old", "go: go.mod requires go >= 1.26.0 (running go 1.20; GOTOOLCHAIN=local)\n")
	// The fake needs cat for this.
	t.Setenv("PATH", os.Getenv("PATH")+":/bin:/usr/bin")
	_, err := newBuilder(t, newListener()).Ensure(t.Context(), Etcd)
	if err == nil {
		t.Fatal("no error")
	}
	contains(t, err.Error(), "too old", "go >= 1.26.0", "GOTOOLCHAIN")
}

func TestMissingGoIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := newBuilder(t, newListener()).Ensure(t.Context(), Etcd)
	if !errors.Is(err, errNoGo) {
		t.Errorf("error: %v", err)
	}
}

func TestOtherTargetsAreNotBuilt(t *testing.T) {
	t.Setenv("GOOS", "plan9")
	var last string
	for _, setting := range environment() {
		if strings.HasPrefix(setting, "GOOS=") {
			last = setting // The one that counts.
		}
	}
	if last != "GOOS=linux" {
		t.Error(last)
	}
}
