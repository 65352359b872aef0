package build

import (
	"testing"
	"time"
)

func TestProgressCountsPackages(t *testing.T) {
	p := &progress{component: "etcd v3"}
	for _, output := range []string{"example.com/a\n", "example.com/b\nexample.com/c\n", "# example.com/d\nfile.go:1: no\n"} {
		if _, err := p.Write([]byte(output)); err != nil {
			t.Fatal(err)
		}
	}
	want := "building etcd v3 (once only): 1m5s, 3 packages compiled"
	if got := p.line(65 * time.Second); got != want {
		t.Errorf("%q", got)
	}
	p.setTotal(7)
	want = "building etcd v3 (once only): 1m5s, 3 of 7 packages compiled"
	if got := p.line(65 * time.Second); got != want {
		t.Errorf("%q", got)
	}
}
