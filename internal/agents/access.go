package agents

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Access is how the operator gets past the access proxy in front of a sidecar: it knows
// a proxy by its certificate, and is known by a token.
type Access struct {
	// Roots are those who may have issued the certificate of a proxy, as of now.
	Roots func() (*x509.CertPool, error)
	// Token is the one to show to the proxies of a namespace, as of now. It is of no use
	// anywhere else.
	Token func(ctx context.Context, namespace string) (string, error)
	// Now is the time by which certificates are judged.
	Now func() time.Time
}

// errNoAccess is for an operator that has neither.
var errNoAccess = errors.New("the pod has an access proxy, and the operator has no token for it")

// errToken means that the operator cannot show who it is.
var errToken = errors.New("the operator's token for access proxies cannot be had from the API server: if that lasts, apply config/rbac of this version, and check that SEI_SERVICE_ACCOUNT names the operator's own")

// errRoots means that the operator cannot judge a certificate.
var errRoots = errors.New("the certificate of the node's access proxy cannot be judged: who may have issued it is not known")

// transport connects to the proxy of one node, and to no other.
func (a *Access) transport(t Target) http.RoundTripper {
	name := t.ServerName
	base := Transport()
	base.TLSClientConfig = &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: name,
		// Who is trusted changes while the operator runs, which the usual verification
		// knows nothing of. The one below does all of what it does.
		InsecureSkipVerify: true,
		VerifyConnection:   func(state tls.ConnectionState) error { return a.verify(name, state) },
	}
	return &withToken{Transport: base, token: func(ctx context.Context) (string, error) {
		return a.Token(ctx, t.Node.Namespace)
	}}
}

// verify judges the certificate of a proxy.
func (a *Access) verify(name string, state tls.ConnectionState) error {
	roots, err := a.Roots()
	if err != nil {
		return fmt.Errorf("%w: %w", errRoots, err)
	}
	if len(state.PeerCertificates) == 0 {
		return errors.New("the proxy showed no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, certificate := range state.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	_, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{
		DNSName: name, Roots: roots, Intermediates: intermediates, CurrentTime: a.Now(),
	})
	return err
}

// withToken shows the token with every request.
type withToken struct {
	*http.Transport
	token func(context.Context) (string, error)
}

// RoundTrip sends a request.
func (t *withToken) RoundTrip(request *http.Request) (*http.Response, error) {
	token, err := t.token(request.Context())
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // whoever refuses a request closes it
		}
		return nil, fmt.Errorf("%w: %w", errToken, err)
	}
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+token)
	return t.Transport.RoundTrip(request)
}
