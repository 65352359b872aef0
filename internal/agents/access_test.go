package agents

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// proxied is a sidecar behind an access proxy: it has a certificate, and answers who
// shows a token.
type proxied struct {
	*httptest.Server
	roots *x509.CertPool
	token atomic.Value
}

func newProxied(t *testing.T, name string, notAfter time.Time) *proxied {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: notAfter.Add(-time.Hour), NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxied{roots: x509.NewCertPool()}
	p.roots.AddCert(certificate)
	sidecar := newScript()
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.token.Store(r.Header.Get("Authorization"))
		sidecar.ServeHTTP(w, r)
	}))
	p.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}}
	// It complains of every caller that does not trust it.
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.StartTLS()
	t.Cleanup(p.Close)
	return p
}

func TestBehindAnAccessProxy(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		serverName string
		now        time.Time
		roots      func(*proxied) (*x509.CertPool, error)
		token      func(context.Context, string) (string, error)
		problem    string // empty: it is connected
	}{
		"it is let in":                   {},
		"its clock is half an hour off":  {now: now.Add(-30 * time.Minute)},
		"another node is at the address": {serverName: "beta.sei", problem: "that of another node"},
		"the certificate is over":        {now: now.Add(time.Minute), problem: "expired"},
		"the certificate is of tomorrow": {now: now.Add(-2 * time.Hour), problem: "not valid yet"},
		"a stranger issued the certificate": {
			roots:   func(*proxied) (*x509.CertPool, error) { return x509.NewCertPool(), nil },
			problem: "does not trust",
		},
		"nobody knows whom to trust": {
			roots:   func(*proxied) (*x509.CertPool, error) { return nil, errors.New("no such file") },
			problem: "who may have issued it is not known",
		},
		"there is no token": {
			token:   func(context.Context, string) (string, error) { return "", errors.New("forbidden") },
			problem: "token for access proxies cannot be had",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProxied(t, "alpha.sei", now)
			access := &Access{
				Roots: func() (*x509.CertPool, error) { return p.roots, nil },
				Token: func(_ context.Context, namespace string) (string, error) { return "secret of " + namespace, nil },
				Now:   func() time.Time { return now.Add(-time.Minute) },
			}
			if !test.now.IsZero() {
				access.Now = func() time.Time { return test.now }
			}
			if test.roots != nil {
				access.Roots = func() (*x509.CertPool, error) { return test.roots(p) }
			}
			if test.token != nil {
				access.Token = test.token
			}
			r := newRig(t, Transport(), func(o *Options) { o.Access = access })
			defer r.end()
			to := target(alpha, p.URL)
			to.ServerName = "alpha.sei"
			if test.serverName != "" {
				to.ServerName = test.serverName
			}
			r.Follow(to)
			view := r.until(t, alpha, "an outcome", func(v View) bool { return !v.New })
			if view.Connected != (test.problem == "") || !strings.Contains(view.Problem, test.problem) {
				t.Errorf("connected: %v, problem: %s", view.Connected, view.Problem)
			}
			if shown := p.token.Load(); (shown == "Bearer secret of "+alpha.Namespace) != (test.problem == "") {
				t.Errorf("the token that was shown is %v", shown)
			}
		})
	}
}

// Without an access proxy there is nobody to show a token to.
func TestTheTokenIsForAccessProxies(t *testing.T) {
	var shown atomic.Bool
	sidecar := newScript()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			shown.Store(true)
		}
		sidecar.ServeHTTP(w, r)
	}))
	defer server.Close()
	r := newRig(t, Transport(), func(o *Options) {
		o.Access = &Access{Token: func(context.Context, string) (string, error) { return "secret", nil }}
	})
	defer r.end()
	r.Follow(target(alpha, server.URL))
	r.until(t, alpha, "a connection", isConnected)
	if shown.Load() {
		t.Error("the token went to a sidecar in the clear")
	}
}

// An operator that has nothing to show says so.
func TestNoWayPastAnAccessProxy(t *testing.T) {
	r := newRig(t, Transport())
	defer r.end()
	to := target(alpha, "https://127.0.0.1:1")
	to.ServerName = "alpha.sei"
	r.Follow(to)
	if view := r.View(alpha); view.Connected || !strings.Contains(view.Problem, "has no token") {
		t.Errorf("the view is %+v", view)
	}
	if err := r.Submit(t.Context(), alpha, api.TaskRequest{ID: [16]byte{1}, Type: "mark-ready"}); !errors.Is(err, ErrNotConnected) {
		t.Errorf("a call ended with %v", err)
	}
}
