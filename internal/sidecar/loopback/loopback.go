// Package loopback is the secret that the sidecar shares with the access proxy in
// front of it, and with nobody else in the pod. All containers of a pod share one
// loopback network, so an address proves nothing there: who calls the sidecar shows a
// certificate that lies in a directory which seid's container does not have.
//
// The material is made of ordinary certificates, so that any proxy that can show one
// to its upstream can be used.
package loopback

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/sei-operator/sei-operator/internal/durable"
)

// The files in the directory. The key of the authority is in none of them: once it
// has signed the two certificates, nobody needs it.
const (
	caFile         = "ca.crt"
	serverCertFile = "server.crt"
	serverKeyFile  = "server.key"
	clientCertFile = "client.crt"
	clientKeyFile  = "client.key"
)

// The material lives as long as the directory, which is that of the pod. A clock that
// is wrong must not end it, so it is valid at every time.
var (
	notBefore = time.Unix(0, 0)
	notAfter  = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
)

// Ensure makes the material unless it is there already: the directory outlives the
// container of the sidecar, and the proxy has read what is in it.
func Ensure(dir string) error {
	_, serverErr := ServerConfig(dir)
	_, clientErr := ClientConfig(dir)
	if serverErr == nil && clientErr == nil {
		return nil
	}
	// What is missing or torn is made anew as a whole: certificates of two authorities
	// do not go together.
	files, err := issue()
	if err != nil {
		return fmt.Errorf("cannot make the certificates for the loopback: %w", err)
	}
	for name, content := range files {
		// In one step each; the proxy may be reading.
		if err := durable.Replace(filepath.Join(dir, name), content, 0o400); err != nil {
			return fmt.Errorf("cannot keep the certificates for the loopback: %w", err)
		}
	}
	return nil
}

// ServerConfig is how the sidecar listens: it answers only who has the certificate of
// the client.
func ServerConfig(dir string) (*tls.Config, error) {
	pool, pair, err := load(dir, serverCertFile, serverKeyFile, x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	}, nil
}

// ClientConfig is how the sidecar is called.
func ClientConfig(dir string) (*tls.Config, error) {
	pool, pair, err := load(dir, clientCertFile, clientKeyFile, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair},
		// The name in the certificate, whatever address of the loopback is dialled.
		RootCAs: pool, ServerName: serverName,
	}, nil
}

const serverName = "localhost"

// load reads one side of the material, and checks that its parts go together.
func load(dir, certFile, keyFile string, usage x509.ExtKeyUsage) (*x509.CertPool, tls.Certificate, error) {
	fail := func(err error) (*x509.CertPool, tls.Certificate, error) {
		return nil, tls.Certificate{}, fmt.Errorf("the certificates for the loopback in %s: %w", dir, err)
	}
	authority, err := os.ReadFile(filepath.Join(dir, caFile))
	if err != nil {
		return fail(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return fail(fmt.Errorf("%s holds no certificate", caFile))
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	if err != nil {
		return fail(err)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
		return fail(fmt.Errorf("%s: %w", certFile, err))
	}
	return pool, pair, nil
}

// issue makes an authority, has it sign a certificate for each side, and forgets its key.
func issue() (map[string][]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authority := &x509.Certificate{
		Subject: pkix.Name{CommonName: "sei-sidecar loopback"}, NotBefore: notBefore, NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	files := map[string][]byte{}
	if err := sign(files, caFile, "", authority, authority, key, key); err != nil {
		return nil, err
	}
	for _, side := range []struct {
		cert, key string
		leaf      *x509.Certificate
	}{
		{serverCertFile, serverKeyFile, &x509.Certificate{
			Subject: pkix.Name{CommonName: serverName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			DNSNames: []string{serverName}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}},
		{clientCertFile, clientKeyFile, &x509.Certificate{
			Subject: pkix.Name{CommonName: "rbac-proxy"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}},
	} {
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		side.leaf.NotBefore, side.leaf.NotAfter, side.leaf.KeyUsage = notBefore, notAfter, x509.KeyUsageDigitalSignature
		if err := sign(files, side.cert, side.key, side.leaf, authority, own, key); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// sign adds the file of a certificate and, if it is to be kept, that of its key.
func sign(files map[string][]byte, certFile, keyFile string, template, authority *x509.Certificate, own, signer *ecdsa.PrivateKey) error {
	certificate, err := x509.CreateCertificate(rand.Reader, template, authority, own.Public(), signer)
	if err != nil {
		return err
	}
	files[certFile] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	if keyFile == "" {
		return nil
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return err
	}
	files[keyFile] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
	return nil
}
