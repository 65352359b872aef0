package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// TestDownloads: a file that a user chose is never taken from this machine, and it comes
// through the proxy of the sidecar's environment.
func TestDownloads(t *testing.T) {
	t.Parallel()
	const genesis = `{"chain_id":"pacific-1","of":"the proxy"}`
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.String())
		fmt.Fprint(w, genesis)
	}))
	defer server.Close()
	sum := sha256.Sum256([]byte(genesis))
	from := func(url string) map[string]any {
		return map[string]any{"chainId": "pacific-1", "url": url, "sha256": hex.EncodeToString(sum[:])}
	}

	p := newPod(t)
	p.serve()
	if got := p.run("configure-genesis", from(server.URL+"/genesis.json")); got.Status != api.TaskFailed || !strings.Contains(got.Error, "not allowed") {
		t.Errorf("from this machine: %s %s", got.Status, got.Error)
	}

	p = newPod(t)
	p.env = []string{"HTTP_PROXY=" + server.URL, "NO_PROXY="}
	p.serve()
	p.must("configure-genesis", from("http://genesis.example/genesis.json"))
	if content, err := os.ReadFile(p.home.Genesis()); err != nil || string(content) != genesis {
		t.Errorf("%s, %v", content, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"http://genesis.example/genesis.json"}; !slices.Equal(asked, want) {
		t.Errorf("the server was asked for %q", asked)
	}
}
