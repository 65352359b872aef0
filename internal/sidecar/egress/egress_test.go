package egress

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
)

func TestCheck(t *testing.T) {
	for address, allowed := range map[string]bool{
		"127.0.0.1": false, "127.8.8.8": false, "::1": false, "169.254.169.254": false, "fe80::1": false, "0.0.0.0": false, "::": false,
		"::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "10.1.2.3": true, "192.0.2.1": true, "2001:db8::1": true,
		// Metadata services that are not link-local, and their neighbours.
		"100.100.100.200": false, "::ffff:100.100.100.200": false, "fd00:ec2::254": false, "100.100.100.201": true, "fd00:ec2::253": true,
	} {
		if err := Check(netip.MustParseAddr(address)); (err == nil) != allowed {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func direct(*http.Request) (*url.URL, error) { return nil, nil }

func TestDownloadsNeverReachThisMachine(t *testing.T) {
	hits := 0
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer inside.Close()
	_, port, _ := splitPort(inside.URL)
	redirect := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest/meta-data", http.StatusFound))
	defer redirect.Close()
	client := NewClient(direct, Check)
	for _, target := range []string{inside.URL, "http://localhost:" + port, "http://[::1]:" + port, "http://0.0.0.0:" + port} {
		if err := get(t, client, target); !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v", target, err)
		}
	}
	// A check that lets the test's own server through, and nothing else.
	lenient := NewClient(direct, func(a netip.Addr) error {
		if a == netip.MustParseAddr("127.0.0.1") {
			return nil
		}
		return Check(a)
	})
	if err := get(t, lenient, redirect.URL); !errors.Is(err, ErrForbidden) {
		t.Errorf("a redirect: %v", err)
	}
	if hits != 0 {
		t.Errorf("%d requests came through", hits)
	}
}

func TestDownloadsGoThroughTheProxy(t *testing.T) {
	asked := ""
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		fmt.Fprint(w, "through")
	}))
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient(http.ProxyURL(at), Check)
	if err := get(t, client, "http://genesis.example/file"); err != nil || asked != "http://genesis.example/file" {
		t.Fatalf("%q, %v", asked, err)
	}
	if err := get(t, client, "http://169.254.169.254/"); !errors.Is(err, ErrForbidden) {
		t.Errorf("%v", err)
	}
}

// get asks for a file, and drops it.
func get(t *testing.T, client *http.Client, target string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func splitPort(address string) (host, port string, err error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return "", "", err
	}
	return parsed.Hostname(), parsed.Port(), nil
}
