package main

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/sei-operator/sei-operator/internal/sidecar/client"
	"github.com/sei-operator/sei-operator/internal/sidecar/loopback"
)

// A sidecar behind the access proxy answers the kubelet's probe, which runs in its own
// container, and nobody else on the same loopback.
func TestBehindTheProxy(t *testing.T) {
	p := newPod(t)
	dir := t.TempDir()
	p.start("sei-sidecar", "serve", "--home", string(p.home), "--socket", p.socket, "--node-uid", uid,
		"--listen", p.address(), "--seid-host", p.host, "--document", p.document, "--loopback-dir", dir)
	//nolint:contextcheck // a process lives as long as the test
	p.until("the probe succeeds", func(context.Context) bool {
		return p.start("sei-sidecar", "probe", "live", "--address", p.address(), "--loopback-dir", dir).wait() == 0
	})
	if code := p.start("sei-sidecar", "probe", "live", "--address", p.address()).wait(); code == 0 {
		t.Error("the sidecar answers without its certificates")
	}
	if _, err := p.client.Status(t.Context()); err == nil || client.Reason(err) != "UnexpectedAnswer" {
		t.Errorf("without TLS: %v", err)
	}
	config, err := loopback.ClientConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	proxy, err := client.New(client.Options{
		BaseURL: "https://" + p.address(), HTTPClient: &http.Client{Transport: transport}, NodeUID: uid,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := proxy.Status(t.Context()); err != nil {
		t.Errorf("with the certificates: %v", err)
	}
	// The proxy is looked for next to the program, and what is missing has a name.
	missing := p.start("sei-sidecar", "rbac-proxy", "--anything")
	if code := missing.wait(); code != 1 {
		t.Errorf("without the proxy's program: %d, %s", code, missing.stderr)
	}
	if found, err := filepath.Glob(filepath.Join(dir, "*.tmp")); err != nil || len(found) > 0 {
		t.Errorf("left behind: %v, %v", found, err)
	}
}
